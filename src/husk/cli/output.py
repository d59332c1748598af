"""cli: the one way out. Every line that a command prints for a person goes through `say`.

Names, labels, descriptions and messages come from guests, images, skills and networks, and may hold escape sequences
that a terminal obeys. `say` makes each line harmless, whatever it was put together from. JSON escapes by itself.
`say_as_is` is for text that husk wrote alone. tests/unit/cli/test_output.py finds every print past this module.
"""

from __future__ import annotations

import sys

from husk.abi.text import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO


def say(*lines: str, file: TextIO | None = None, end: str = "\n") -> None:
    """Print lines, by default to standard output. An end of line inside one is escaped: it cannot pass for two."""
    out = file or sys.stdout
    out.write("\n".join(map(harmless, lines)) + end)
    out.flush()


def say_json(document: object, *, indent: int | None = 2) -> None:
    import json

    sys.stdout.write(json.dumps(document, indent=indent) + "\n")
    sys.stdout.flush()


def say_result(document: object, lines: Sequence[str], *, as_json: bool) -> None:
    """What a command has to tell: the document for --json, else the lines, if there are any."""
    if as_json:
        say_json(document)
    elif lines:
        say(*lines)


def say_as_is(text: str) -> None:
    """Help, tables and pages, and what the person asked for as it is."""
    sys.stdout.write(text)
    sys.stdout.flush()

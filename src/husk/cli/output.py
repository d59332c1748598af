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


def say_table(title: str, head: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], *, file: TextIO) -> None:
    """A table as wide as the terminal. `head` has a name and `left` or `right` for each column; every cell is made
    harmless, and none is read as markup."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=file, highlight=False, emoji=False)
    table = Table(title=Text(harmless(title)), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name, side in head:
        table.add_column(Text(harmless(name)), justify="right" if side == "right" else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    console.print(table)


def say_as_is(text: str) -> None:
    """Help, tables and pages, and what the person asked for as it is."""
    sys.stdout.write(text)
    sys.stdout.flush()


def say_bytes(data: bytes) -> None:
    """What a guest wrote, as `husk run` would have shown it."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()

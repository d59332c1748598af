"""compat: prefixes, the commands that start a program somewhere else (`bwrap …`, `husk run`): their words, and where
options can be added.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence

from husk.sandbox.errors import UsageError


def split_prefix(option: str, text: str) -> list[str]:
    """The words, split as a shell would; `option` is where the text was given."""
    try:
        return with_own_husk(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}; quote it as for a shell.") from None


def with_own_husk(words: Sequence[str]) -> list[str]:
    """`husk` as the first word means this husk, also where no shell would find it."""
    beside = os.path.join(sys.prefix, "bin", "husk")
    if words and words[0] == "husk" and shutil.which("husk") is None and os.access(beside, os.X_OK):
        return [beside, *words[1:]]
    return list(words)


def before_dashes(words: Sequence[str], more: Sequence[str]) -> list[str]:
    """Options go before a `--` at the end of a prefix."""
    return [*words[:-1], *more, "--"] if list(words[-1:]) == ["--"] else [*words, *more]

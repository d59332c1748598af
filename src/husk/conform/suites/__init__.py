"""conform/suites: the kinds of suites: which units a suite has, and what the output of each means."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

from husk.sandbox.errors import HuskError

if TYPE_CHECKING:
    from husk.conform.units import Kind

_MODULES = {
    "googletest": "googletest",
    "transcripts": "transcripts",
    "tap": "tap",
    "ltp": "ltp",
    "python": "python_tests",
    "skills": "skill_corpus",
    "commands": "command_list",
}


def kind(name: str) -> Kind:
    """The module that knows this kind of suite; it is imported now."""
    module = f"{__name__}.{_MODULES[name]}"
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        raise HuskError(f"suites of kind {name!r} cannot be run: {error.name} is not installed.") from None
    return cast("Kind", sys.modules[module])

"""native: a path without links. Python's own realpath asks the host about each part by itself, and a start asks for a
dozen paths."""

from __future__ import annotations

import os

from husk.native._core import real_path as _resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AnyStr


def real_path(path: AnyStr) -> AnyStr:
    """As os.path.realpath."""
    found = _resolved(os.fsencode(path))
    if found is None:
        return os.path.realpath(path)
    return found if isinstance(path, bytes) else os.fsdecode(found)

"""vfs: a file that only a guest's descriptor leads to, pinned before it is used.

The guest can change what `/proc/TID/fd/N` names at any moment: another thread can put another file under the number
between two looks. So nothing is ever done through that name. husk opens it once with O_PATH, compares what it opened
with the file that was judged, and uses only its own descriptor from then on.
"""

from __future__ import annotations

import errno
import os

from husk.vfs.node import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def look(via: bytes) -> tuple[bytes, os.stat_result]:
    """Name and identity of one and the same open file."""
    pin = os.open(via, os.O_PATH | os.O_CLOEXEC)
    try:
        return os.readlink(b"/proc/self/fd/%d" % pin), os.fstat(pin)
    finally:
        os.close(pin)


class Pinned:
    """A host path of husk's own that leads to the file `via` named, provided it is the one meant."""

    __slots__ = ("_is_meant", "_pin", "_via")

    def __init__(self, via: bytes, is_meant: Callable[[bytes, os.stat_result], bool]) -> None:
        self._via, self._is_meant, self._pin = via, is_meant, -1

    def __enter__(self) -> bytes:
        self._pin = os.open(self._via, os.O_PATH | os.O_CLOEXEC)
        path = b"/proc/self/fd/%d" % self._pin
        if not self._is_meant(os.readlink(path), os.fstat(self._pin)):
            os.close(self._pin)
            raise error(errno.ENOENT)
        return path

    def open(self) -> int:
        """An O_PATH descriptor for the caller."""
        with self as path:
            return os.open(path, os.O_PATH | os.O_CLOEXEC)

    def __exit__(self, *_: object) -> None:
        os.close(self._pin)

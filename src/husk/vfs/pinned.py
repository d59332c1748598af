"""vfs: files that only a guest's descriptor leads to: the node for one, and a pin to use it by.

The guest can change what `/proc/TID/fd/N` names at any moment: another thread can put another file under the number
between two looks. So nothing is ever done through that name. husk opens it once with O_PATH, compares what it opened
with the file that was judged, and uses only its own descriptor from then on.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.vfs.node import Node, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.native._core import HostStat
    from husk.vfs.layer.lower import Lower
    from husk.vfs.node import Dir, Tree


def identify(via: bytes) -> tuple[bytes, os.stat_result]:
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


class Orphan(Node):
    """A lower or host file a guest still holds open although the name it was opened by is gone.

    `was` is that name with its directory, `hidden` how many of its host names the guest removed from view. `source`
    is where a layered tree still finds it on the host.
    """

    __slots__ = ("gids", "hidden", "key", "last", "source", "uids", "via", "was")

    def __init__(
        self,
        tree: Tree,
        via: bytes,
        was: tuple[Dir, bytes],
        uids: dict[int, int],
        gids: dict[int, int],
        *,
        key: tuple[int, int] | None,
        last: HostStat | None = None,
        hidden: int = 0,
        source: tuple[Lower, bytes] | None = None,
    ) -> None:
        super().__init__(tree, _kind(via) if last is None else st.S_IFMT(last.mode))
        self.via, self.was, self.uids, self.gids, self.hidden = via, was, uids, gids, hidden
        self.key = key  # host identity of the open file; nothing else may be used for it
        self.last = last  # what is known of it where `via` leads nowhere
        self.source = source

    def in_image(self) -> tuple[Lower, bytes] | None:
        """Where it lies in an image, which never changes. The guest holds a blob open, which many files may share."""
        return self.source if self.source is not None and self.source[0].mapped is not None else None

    def pinned(self) -> Pinned:
        return Pinned(self.via, lambda _link, found: (found.st_dev, found.st_ino) == self.key)

    def link_target(self) -> bytes:
        """Of a symbolic link that is held open (O_PATH)."""
        pin = self.pinned().open()
        try:
            return os.readlink(b"", dir_fd=pin)
        finally:
            os.close(pin)


def _kind(via: bytes) -> int:
    """What kind of file is held. A directory that the host removed cannot be used as one."""
    try:
        kind = st.S_IFMT(os.stat(via).st_mode)
    except OSError:
        return st.S_IFREG
    return st.S_IFREG if kind == st.S_IFDIR else kind

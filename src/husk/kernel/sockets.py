"""kernel: Unix sockets with a name. The host binds them under a name only husk knows; this remembers the guest's.

The host keeps, for getsockname and getpeername, the very text a socket was bound with. So every socket is bound under
a number in a directory of husk's, and its file then takes its place in the tree: the number leads back to the name.
"""

from __future__ import annotations

import errno
import os

from husk.native._core import bind_address

MOST_NAMES = 65536


class Sockets:
    """Names of bound sockets, by number. The oldest are forgotten: a socket that old then shows an empty name."""

    __slots__ = ("_last", "_names", "_places_fd", "_prefix")

    def __init__(self, places_fd: int) -> None:
        self._places_fd, self._prefix = places_fd, b"/proc/self/fd/%d/s" % places_fd
        self._names: dict[int, bytes] = {}
        self._last = 0

    def bind(self, fd: int, guest_name: bytes, directory_fd: int, name: bytes) -> None:
        """Bind the host socket `fd` to `name` in `directory_fd`; `guest_name` is the path as the guest gave it."""
        umask = os.umask(0o077)  # this thread's own; nobody else may connect before the tree has set the mode
        try:
            self._bind(fd, guest_name, directory_fd, name)
        finally:
            os.umask(umask)

    def _bind(self, fd: int, guest_name: bytes, directory_fd: int, name: bytes) -> None:
        if os.fstat(directory_fd).st_dev != os.fstat(self._places_fd).st_dev:
            # No link leads to another file system; there the socket's own idea of its name is husk's.
            bind_address(fd, unix_address(b"/proc/self/fd/%d/%s" % (directory_fd, name)))
            return
        self._last += 1
        number = self._last
        bind_address(fd, unix_address(self._prefix + b"%d" % number))
        ours = b"s%d" % number
        try:
            os.link(ours, name, src_dir_fd=self._places_fd, dst_dir_fd=directory_fd, follow_symlinks=False)
        except FileExistsError:
            raise OSError(errno.EADDRINUSE, "the name is taken") from None
        finally:
            os.unlink(ours, dir_fd=self._places_fd)
        if len(self._names) >= MOST_NAMES:
            del self._names[next(iter(self._names))]
        self._names[number] = guest_name + b"\0"

    def guest_name(self, host_name: bytes) -> bytes:
        """The text of a Unix address as the guest knows it: unnamed and abstract ones are what they are."""
        if not host_name.startswith(self._prefix):
            return host_name
        number = host_name[len(self._prefix) :].rstrip(b"\0")
        return self._names.get(int(number), b"") if number.isdigit() else b""


def unix_address(host_path: bytes) -> bytes:
    return b"\1\0" + host_path + b"\0"

"""sandbox: a socket in the directory of a kept box, by which the husk that runs the box can be reached, and only by its
owner: no other user can enter the directory."""

from __future__ import annotations

import _socket
import errno
import os

from husk.native.threads import start_thread
from husk.sandbox.locked_dir import remove_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WAITING = 16  # callers that the host lets wait


class BoxSocket:
    """Listens until it is closed. `serve` gets each caller's socket, in the one thread of this one, and closes it."""

    __slots__ = ("_name", "_serve", "_socket")

    def __init__(self, name: str, kind: int, serve: Callable[[Any], None]) -> None:
        """`name` is free: the caller has removed what a killed husk left."""
        self._name, self._serve = name, serve
        self._socket = _socket.socket(_socket.AF_UNIX, kind | _socket.SOCK_CLOEXEC)
        try:
            with_directory(name, self._socket.bind)
            self._socket.listen(WAITING)
            start_thread(self._accept)
        except BaseException:
            self.close()
            raise

    def _accept(self) -> None:
        while True:
            try:
                fd, _ = self._socket._accept()  # type: ignore[attr-defined]  # what the module `socket` is made of
            except OSError as problem:
                if problem.errno in (errno.EINTR, errno.ECONNABORTED):
                    continue
                return  # closed
            self._serve(_socket.socket(fileno=fd))

    def close(self) -> None:
        remove_file(self._name)
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)  # lets the thread leave
        except OSError:
            pass
        self._socket.close()


def with_directory(name: str, use: Any) -> None:
    """By a descriptor of the directory: a socket's name has room for 108 bytes."""
    directory, last = os.path.split(name)
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{fd}/{last}")
    finally:
        os.close(fd)

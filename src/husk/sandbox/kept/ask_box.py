"""sandbox: ask a running box which calls it waits in. The husk that runs a kept box listens on a socket in the box's
own directory, which only its owner can reach; whoever connects gets one JSON document, and is not listened to.

Rejected: looking from outside. Only the husk that runs the box knows which calls it has received, and only a process
above the guests may look into them on every host.
"""

from __future__ import annotations

import _socket
import errno
import os

from husk.kernel.longest_waits import waits
from husk.native.threads import start_thread
from husk.sandbox.locked_dir import remove_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.kernel.kernel import Kernel

PREFIX = "doctor-"  # then the number of the run's reaper: a box may have several runs
PATIENCE = 10.0  # seconds; a husk that is stopped answers nothing
CHUNK = 1 << 16


class Answering:
    """Answers for one run until it is closed."""

    __slots__ = ("_kernel", "_name", "_socket")

    def __init__(self, directory: str, kernel: Kernel) -> None:
        self._kernel, self._name = kernel, os.path.join(directory, f"{PREFIX}{kernel.tasks.reaper}")
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            _sweep(directory)
            with_directory(self._name, self._socket.bind)
            self._socket.listen(4)
            start_thread(self._answer)
        except BaseException:
            self.close()
            raise

    def _answer(self) -> None:
        while True:
            try:
                fd, _ = self._socket._accept()  # type: ignore[attr-defined]  # what the module `socket` is made of
            except OSError as problem:
                if problem.errno in (errno.EINTR, errno.ECONNABORTED):
                    continue
                return  # closed
            import json  # here: slow to import, and most runs are never asked

            asker = _socket.socket(fileno=fd)
            try:
                asker.settimeout(PATIENCE)
                asker.sendall(json.dumps([wait.as_dict() for wait in waits(self._kernel)]).encode())
            except OSError:
                pass  # whoever asked has left
            finally:
                asker.close()

    def close(self) -> None:
        remove_file(self._name)
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)  # lets the thread leave
        except OSError:
            pass
        self._socket.close()


def ask(directory: str) -> list[list[dict[str, Any]]]:
    """The answers of all runs of a box, each the longest wait first."""
    import json

    answers = []
    for name in sorted(os.listdir(directory)):
        if not name.startswith(PREFIX):
            continue
        asking = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            asking.settimeout(PATIENCE)
            with_directory(os.path.join(directory, name), asking.connect)
            answers.append(json.loads(_all(asking)))
        except (ConnectionRefusedError, FileNotFoundError):
            continue  # a run that has ended, or was killed
        finally:
            asking.close()
    return answers


def _all(asking: Any) -> bytes:
    parts = []
    while part := asking.recv(CHUNK):
        parts.append(part)
    return b"".join(parts)


def with_directory(name: str, use: Any) -> None:
    """By a descriptor of the directory: a socket's name has room for 108 bytes."""
    directory, last = os.path.split(name)
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{fd}/{last}")
    finally:
        os.close(fd)


def _sweep(directory: str) -> None:
    """Remove the sockets of runs that were killed: those on which no process listens."""
    for name in os.listdir(directory):
        if not name.startswith(PREFIX):
            continue
        trying = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK)
        path = os.path.join(directory, name)
        try:
            with_directory(path, trying.connect)
        except ConnectionRefusedError:
            remove_file(path)
        except (BlockingIOError, FileNotFoundError):
            pass  # a run with many askers, or one that ends just now
        finally:
            trying.close()

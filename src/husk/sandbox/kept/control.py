"""sandbox: talk to the husk that runs a box in the background: by a socket in the box's own directory, which only its
owner can reach. One request a connection, with descriptors if need be; then notes (a terminal's new size, a signal)
until the one answer. Requests and answers are JSON, a message each.
"""

from __future__ import annotations

import _socket
import os

from husk.native.threads import start_thread
from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.kept.box_socket import BoxSocket, with_directory
from husk.sandbox.locked_dir import remove_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Request = dict[str, Any]

NAME = "control"
LONGEST = 128 << 10  # bytes of a request: arguments and variables of a program
MOST_FDS = 3


class Connection:
    """One end of a conversation."""

    __slots__ = ("_socket",)

    def __init__(self, one: Any) -> None:
        self._socket = one

    def send(self, message: Request, fds: tuple[int, ...] = ()) -> None:
        import array
        import json

        data = json.dumps(message).encode()
        if len(data) > LONGEST:
            raise UsageError("the command and its variables are too long for a box in the background.")
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", fds).tobytes())] if fds else []
        self._socket.sendmsg([data], rights)

    def receive(self) -> tuple[Request | None, list[int]]:
        """A message and the descriptors that came with it; None: the other side is gone."""
        import array
        import json

        try:
            data, rights, _, _ = self._socket.recvmsg(
                LONGEST, _socket.CMSG_SPACE(MOST_FDS * 4), _socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            return None, []
        fds: list[int] = []
        for level, kind, given in rights:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                fds += array.array("i", given[: len(given) - len(given) % 4])
        if not data:
            return None, fds
        try:
            message = json.loads(data)
        except ValueError:
            message = None
        return (message if isinstance(message, dict) else None), fds

    def close(self) -> None:
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)  # lets a thread leave that waits in receive
        except OSError:
            pass
        self._socket.close()


def listen(directory: str, handle: Callable[[Connection], None]) -> BoxSocket:
    """Listens for one box until it is closed. `handle` gets each connection in a thread of its own."""

    def talk(connection: Connection) -> None:
        try:
            handle(connection)
        except OSError:
            pass  # whoever asked has left
        finally:
            connection.close()

    name = os.path.join(directory, NAME)
    remove_file(name)  # of a husk that was killed: the caller holds the box's lock
    return BoxSocket(name, _socket.SOCK_SEQPACKET, lambda caller: start_thread(talk, Connection(caller)))


def call(directory: str, box: str) -> Connection:
    """A connection to the husk that runs the box in `directory`."""
    one = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    try:
        with_directory(os.path.join(directory, NAME), one.connect)
    except (FileNotFoundError, ConnectionRefusedError):
        one.close()
        raise UsageError(
            f"the box {box!r} does not run in the background; start it: husk run -d --keep {box} -- PROGRAM."
        ) from None
    except OSError as error:
        one.close()
        raise HuskError(f"the box {box!r} cannot be reached ({error.strerror}).") from None
    return Connection(one)

"""sandbox: ask a running box which calls it waits in. The husk that runs a kept box listens on a socket in the box's
own directory, which only its owner can reach; whoever connects gets one JSON document, and is not listened to.

Rejected: looking from outside. Only the husk that runs the box knows which calls it has received, and only a process
above the guests may look into them on every host.
"""

from __future__ import annotations

import _socket
import os

from husk.kernel.longest_waits import waits
from husk.sandbox.kept.box_socket import BoxSocket, with_directory
from husk.sandbox.locked_dir import remove_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.kernel.kernel import Kernel

PREFIX = "doctor-"  # then the number of the run's reaper: a box may have several runs
PATIENCE = 10.0  # seconds; a husk that is stopped answers nothing
CHUNK = 1 << 16


def answering(directory: str, kernel: Kernel) -> BoxSocket:
    """Answers for one run until it is closed."""

    def answer(asker: Any) -> None:
        import json  # here: slow to import, and most runs are never asked

        try:
            asker.settimeout(PATIENCE)
            asker.sendall(json.dumps([wait.as_dict() for wait in waits(kernel)]).encode())
        except OSError:
            pass  # whoever asked has left
        finally:
            asker.close()

    _sweep(directory)
    return BoxSocket(os.path.join(directory, f"{PREFIX}{kernel.tasks.reaper}"), _socket.SOCK_STREAM, answer)


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

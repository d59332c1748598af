"""cli: the process that stays: it has imported all that a run needs, and forks a worker for each run.

It never sees a request, a guest or a caller's environment: a worker that waits for a client is forked ahead, and the
next one when that is taken; where runs follow each other, several wait. It has one thread. It ends when nothing was
served for a while, when husk's installation has changed, or when its socket was removed; runs that go on are not
touched.
"""

from __future__ import annotations

import _socket
import gc
import os
import select
import sys
import time

from husk.cli.resident.worker import SERVED, STALE, TAKEN, work
from husk.sandbox.start.launch_ahead import know_libraries

IDLE = 120.0  # seconds
LOOKS = 10.0  # seconds between two looks whether the socket is still there
# Seconds until the next worker is forked, if no client asks for it and no run ends: the run that has just begun goes
# first.
PAUSE = 0.03
# One worker waits, and one more for each run that began within RECENT seconds: to make a worker takes longer than a
# short run.
RECENT = 5.0
MOST_WAITING = 4
LOCK_FD, PLACE_FD = 3, 4  # from native/client/resident_place.c: the lock is held for as long as this process lives
BACKLOG = 64


def serve(name: str, idle: float = IDLE) -> int:
    socket = f"/proc/self/fd/{PLACE_FD}/{name}"
    for fd in (LOCK_FD, PLACE_FD):
        os.set_inheritable(fd, False)
    listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
    _import_the_rest()
    know_libraries()
    try:
        os.unlink(socket)  # left by one that was killed: the lock is ours, so nobody listens there
    except FileNotFoundError:
        pass
    listening.bind(socket)
    listening.listen(BACKLOG)
    mine = _identity(socket)
    installation = Installation()
    gc.collect()
    gc.freeze()
    zygote = Zygote(listening, installation)
    zygote.prepare()
    last = time.monotonic()
    while not zygote.stale and installation.is_current() and _identity(socket) == mine:
        rest = last + idle - time.monotonic()
        if rest <= 0 and not zygote.runs:
            break
        zygote.wait(min(LOOKS, max(rest, 0.1)))
        if zygote.runs or zygote.served:  # who is not served does not keep it alive
            last, zygote.served = time.monotonic(), False
    if _identity(socket) == mine:
        os.unlink(socket)
    return 0


class Worker:
    """As the zygote knows it. The socket tells what it does, and hangs up when one of both ends."""

    def __init__(self, process: int, socket: _socket.socket) -> None:
        self.process, self.socket = process, socket
        self.waits = True  # for a client
        self.serves = False  # does a run


class Zygote:
    def __init__(self, listening: _socket.socket, installation: Installation) -> None:
        self._listening, self._installation = listening, installation
        self._workers: dict[int, Worker] = {}  # by descriptor, the oldest first
        self._begun: list[float] = []  # when the last runs began
        self._due = 0.0  # when the next worker is forked, if nothing else is a reason to
        self.stale = self.served = False

    @property
    def runs(self) -> bool:
        return any(worker.serves for worker in self._workers.values())

    def prepare(self) -> None:
        """Fork one more worker that waits."""
        mine, its = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        process = os.fork()
        if process == 0:
            try:
                mine.close()
                for fd in (LOCK_FD, PLACE_FD, *self._workers):
                    os.close(fd)
                work(self._listening, its, self._installation.is_current)
            finally:
                os._exit(1)
        its.close()
        self._workers[mine.fileno()] = Worker(process, mine)
        self._due = time.monotonic() + PAUSE

    def wait(self, seconds: float) -> None:
        """Until something has happened."""
        waiting = self._waiting()
        asked = select.poll()
        if not waiting:
            asked.register(self._listening.fileno(), select.POLLIN)
        for fd in self._workers:
            asked.register(fd, select.POLLIN)
        found = dict(asked.poll(min(seconds, self._rest(len(waiting))) * 1000 + 1))
        for fd in [fd for fd in self._workers if fd in found]:
            self._hear(self._workers[fd])
        waiting = self._waiting()
        missing = self._wanted() - len(waiting)
        if missing < 0:
            for worker in waiting[missing:]:
                self._dismiss(worker)
        elif missing and not self.stale and (self._listening.fileno() in found or time.monotonic() >= self._due):
            self.prepare()

    def _waiting(self) -> list[Worker]:
        return [worker for worker in self._workers.values() if worker.waits]

    def _wanted(self) -> int:
        """How many workers are to wait."""
        since = time.monotonic() - RECENT
        self._begun = [begun for begun in self._begun if begun > since]
        return min(1 + len(self._begun), MOST_WAITING)

    def _rest(self, waiting: int) -> float:
        """Seconds until a worker is to be forked, or until fewer are to wait."""
        now = time.monotonic()
        if waiting < self._wanted():
            return max(0.0, self._due - now)
        return max(0.0, self._begun[0] + RECENT - now) if self._begun else RECENT

    def _dismiss(self, worker: Worker) -> None:
        """It ends, unless a client has come to it meanwhile."""
        worker.waits = False
        worker.socket.shutdown(_socket.SHUT_WR)

    def _hear(self, worker: Worker) -> None:
        said = worker.socket.recv(16)
        self.stale |= STALE in said
        if TAKEN in said:
            worker.waits = False
            self._begun.append(time.monotonic())
            self._due = time.monotonic() + PAUSE
        if SERVED in said:
            worker.serves = self.served = True
        if said == b"":
            del self._workers[worker.socket.fileno()]
            worker.socket.close()
            os.waitpid(worker.process, 0)
            self._due = 0.0  # a run is over, and the processor idle


class Installation:
    """The folders of husk's package as they were when it was imported. Installing, by any tool, renames files into
    them."""

    def __init__(self) -> None:
        files = [module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "husk"]
        folders = {os.path.dirname(file) for file in files if file}
        self._seen = {folder: _changed(folder) for folder in folders}

    def is_current(self) -> bool:
        return all(_changed(folder) == when for folder, when in self._seen.items())


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return -1


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _import_the_rest() -> None:
    """What a run may need beside its ordinary path; `husk.cli.cmd_run` is there already. The most part is for mounts
    and limits, and for what ordinary programs ask of the kernel."""
    for module in (
        "husk.abi.registry", "husk.walls.filter", "husk.walls.closing_calls",
        "husk.cli.summary", "husk.cli.profiles.find_profile", "husk.sandbox.rules.path_rule", "husk.kernel.net",
        "husk.sandbox.stdio.streams", "husk.sandbox.stdio.capture", "husk.sandbox.start_errors", "json",
        "husk.sandbox.mount_guards", "husk.sandbox.rules.mount_rules", "husk.sandbox.rules.default_rules",
        "husk.store.layout", "husk.vfs.host.host_tree_write", "husk.vfs.host.tree_rules",
        "husk.sandbox.limits.enforcement", "husk.sandbox.limits.cgroups", "husk.sandbox.limits.meter",
        "husk.kernel.syscalls.directories", "husk.kernel.syscalls.names", "husk.kernel.syscalls.setattr",
        "husk.kernel.syscalls.sockets", "husk.kernel.syscalls.tty", "husk.kernel.syscalls.xattrs",
        "_bisect", "husk.vfs.mounts", "husk.vfs.proc.maps", "husk.vfs.proc.system_files", "husk.vfs.proc.task_files",
        "husk.vfs.proc.net_files", "husk.kernel.net.box_net",
    ):  # fmt: skip
        __import__(module)
    from husk.sandbox.rules import default_rules

    default_rules.prepare()

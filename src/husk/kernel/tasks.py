"""kernel: the processes of a box, as the host shows them. husk keeps no process table; this only looks.

Guest and host numbers differ inside a pid namespace. The reaper is the root of a run: all its descendants are guests.
"""

from __future__ import annotations

import _thread
import errno
import os

from husk.kernel.exec import resident
from husk.vfs.node import Dir
from husk.vfs.pinned import identify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.node import Context, Node
    from husk.vfs.vfs import Vfs

    Names = tuple[bytes, bytes, list[bytes]]  # of a program: path, name, words in place of argv[0]


MOST_REMEMBERED = 4096


class TasksHere:
    """The tasks of the run that the calling thread serves: runs share a file system, and in it /proc, but each sees its
    own processes there. A thread that serves no run sees no process."""

    __slots__ = ("_local", "_none")

    def __init__(self, vfs: Vfs) -> None:
        self._local, self._none = _thread._local(), Tasks(vfs, 0)

    def serve(self, tasks: Tasks) -> None:
        """From here on this thread serves a run."""
        self._local.tasks = tasks

    @property
    def here(self) -> Tasks:
        found: Tasks = getattr(self._local, "tasks", self._none)
        return found


class LiveRuns:
    """The runs of a box that are under way, for questions about the processes of all of them. The vfs asks here whether
    a file is running and what is held open (its `Holders`)."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Tasks] = []

    def add(self, tasks: Tasks) -> None:
        self._runs.append(tasks)

    def remove(self, tasks: Tasks) -> None:
        self._runs.remove(tasks)

    def host_pids(self) -> list[int]:
        return [pid for tasks in self._runs for pid in tasks.host_pids()]

    def runs(self, identity: tuple[int, int]) -> bool:
        """Does a process of the box run this file? (For ETXTBSY.)"""
        return any(tasks.runs(identity) for tasks in self._runs)

    def held_links(self) -> set[bytes]:
        from husk.kernel.fd_tables import links_held

        return links_held([tasks.reaper for tasks in self._runs])


def _none_starting(tgid: int) -> Names | None:
    return None


class Tasks:
    """The processes of one run. `starting` tells the names of the program that a process (by thread group) is about to
    run, while the loader is still in its place."""

    __slots__ = ("_hosts", "_namespace", "_own_namespace", "_starting", "_vfs", "reaper")

    def __init__(
        self,
        vfs: Vfs,
        reaper: int,
        starting: Callable[[int], Names | None] = _none_starting,
        *,
        own_namespace: bool = False,
    ) -> None:
        self._vfs, self.reaper, self._starting = vfs, reaper, starting
        self._own_namespace, self._namespace = own_namespace, ""
        self._hosts: dict[int, int] = {}  # guest number -> host number, as last seen

    def close(self) -> None:
        """The run is over. Hold on to the listener no longer: its descriptor is to close at once."""
        self._starting = _none_starting

    # -- numbers -----------------------------------------------------------------------------------------------
    def host_pids(self) -> list[int]:
        """Every process of the box but the reaper: its descendants, found through the kernel's own child lists."""
        found: list[int] = []
        todo = [self.reaper]
        while todo:
            parent = todo.pop()
            try:
                threads = os.listdir(f"/proc/{parent}/task")
                for thread in threads:
                    with open(f"/proc/{parent}/task/{thread}/children", "rb") as children:
                        pids = [int(word) for word in children.read().split()]
                    found += pids
                    todo += pids
            except OSError:
                continue  # it ended meanwhile; its children are the reaper's now
        return found

    def guest_pids(self) -> list[int]:
        return sorted(pid for pid in map(self.guest_of, self.host_pids()) if pid)

    def guest_of(self, host_pid: int) -> int:
        """Guest number of a host process or thread; 0 if it is none of this box."""
        if not self._own_namespace:
            return host_pid if self._descends(host_pid) else 0
        if not self._in_namespace(host_pid):
            return 0
        numbers = self._status(host_pid, b"NSpid:").split()
        return int(numbers[-1]) if numbers else 0

    def host_of(self, guest_pid: int) -> int | None:
        if not self._own_namespace:
            return guest_pid if self._descends(guest_pid) else None
        known = self._hosts.get(guest_pid)
        if known is not None and self.guest_of(known) == guest_pid:
            return known
        for pid in self.host_pids():
            if self.guest_of(pid) == guest_pid:
                return self._remember(guest_pid, pid)
        for pid in self.host_pids():  # not a process, so perhaps a thread of one
            try:
                for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                    if self.guest_of(thread) == guest_pid:
                        return self._remember(guest_pid, thread)
            except OSError:
                continue
        return None

    def _remember(self, guest: int, host: int) -> int:
        """A hint that saves the next search. It is checked before use."""
        if len(self._hosts) >= MOST_REMEMBERED:
            self._hosts.clear()
        self._hosts[guest] = host
        return host

    def _in_namespace(self, host_pid: int) -> bool:
        try:
            if not self._namespace:
                self._namespace = os.readlink(f"/proc/{self.reaper}/ns/pid")
            return os.readlink(f"/proc/{host_pid}/ns/pid") == self._namespace and host_pid != self.reaper
        except OSError:
            return False

    def tgid_of(self, host_tid: int) -> int:
        return int(self._status(host_tid, b"Tgid:") or b"0")

    def _descends(self, host_pid: int) -> bool:
        pid = self.tgid_of(host_pid) if self.reaper else 0
        while pid > 1:
            pid = int(self._status(pid, b"PPid:") or b"0")
            if pid == self.reaper:
                return True
        return False

    def _status(self, pid: int, label: bytes) -> bytes:
        try:
            with open(f"/proc/{pid}/status", "rb") as status:
                for line in status:
                    if line.startswith(label):
                        return line[len(label) :].strip()
        except OSError:
            pass
        return b""

    # -- programs ----------------------------------------------------------------------------------------------
    def exe_of(self, host_pid: int) -> bytes | None:
        """What the loader noted, brought up to date: the file may have been renamed or removed since then."""
        noted = resident.exe_of(host_pid)
        if noted is None:
            starting = self._starting(self.tgid_of(host_pid))  # the loader has not noted it yet
            return starting[0] if starting is not None else None
        path, identity = noted
        node = self._vfs.running(identity)
        if node is not None and node.is_upper:
            return self._vfs.path_of_node(node)
        return path

    def starting(self, host_pid: int) -> Names | None:
        """The names of the program that a process is about to run, while the host still shows the loader's."""
        starting = self._starting(self.tgid_of(host_pid))
        return starting if starting is not None and not resident.loader_done(host_pid) else None

    def runs(self, identity: tuple[int, int]) -> bool:
        """Does a process of the run run this file?"""
        return any(resident.runs(pid, identity) for pid in self.host_pids())

    # -- what they hold ----------------------------------------------------------------------------------------
    def node_of_fd(self, ctx: Context, host_tid: int, fd: int) -> Node | None:
        link, host = self._held(host_tid, fd)
        via = b"/proc/%d/fd/%d" % (host_tid, fd)
        return self._vfs.node_of_link(link, host.st_dev, host.st_ino, via) if link[:1] == b"/" else None

    def fd_text(self, ctx: Context, host_tid: int, fd: int) -> bytes:
        link, host = self._held(host_tid, fd)
        if link[:1] != b"/":
            return link
        shown = self._vfs.path_of_link(link, host.st_dev, host.st_ino)
        if shown is not None:
            return shown
        # A host file that husk was started with (a redirect): the guest must not learn its name.
        return link if link.startswith(b"/memfd:") else b"/dev/inherited"

    def _held(self, host_tid: int, fd: int) -> tuple[bytes, os.stat_result]:
        where = b"/proc/%d/fd/%d" % (host_tid, fd)
        try:
            return identify(where)
        except OSError:
            raise OSError(errno.ENOENT, "no such descriptor") from None

    def cwd_of(self, ctx: Context, host_tid: int) -> Dir | None:
        try:
            node = self._vfs.node_of_link(os.readlink(b"/proc/%d/cwd" % host_tid), 0, 0)
        except OSError:
            return None
        return node if isinstance(node, Dir) else None

    def root_of(self, ctx: Context, host_tid: int) -> Dir | None:
        return self._vfs.root

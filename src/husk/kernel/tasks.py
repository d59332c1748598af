"""kernel: the processes of a box, as the host shows them. husk keeps no process table; this only looks.

Guest and host numbers differ inside a pid namespace. The reaper is the root of a run: all its descendants are guests.
"""

from __future__ import annotations

import _thread
import errno
import os
import time

from husk.kernel.exec import resident
from husk.vfs.node import Dir
from husk.vfs.pinned import identify
from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.node import Context, Node
    from husk.vfs.proc.view import ProcessIds
    from husk.vfs.vfs import Vfs

    Names = tuple[bytes, bytes, list[bytes]]  # of a program: path, name, words in place of argv[0]
    Attributes = dict[str, int]  # those that husk keeps for a process (cred/inherited.py)


MOST_REMEMBERED = 1 << 16
LOADER_LOOKS, LOADER_WAIT = 25, 0.0002
ONE_THREAD = 3  # links of /proc/PID/task
# linux/nsfs.h, since Linux 6.12
NS_GET_PID_FROM_PIDNS, NS_GET_PID_IN_PIDNS, NS_GET_TGID_IN_PIDNS = 0x8004B706, 0x8004B708, 0x8004B709


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

    def held_files(self) -> set[tuple[bytes, int, int]]:
        from husk.kernel.fd_tables import files_held

        return files_held([tasks.reaper for tasks in self._runs])


def _runs_unasked(host_pid: int) -> bool:
    """Was its program executed without a question to husk (docs/design/026-direct-names.md)?"""
    try:
        return os.readlink(b"/proc/%d/exe" % host_pid).startswith(resident.UNASKED + b"/")
    except OSError:
        return False


def _noted_soon(host_pid: int) -> tuple[bytes, tuple[int, int]] | None:
    """What the loader of such a program notes in its first tenth of a millisecond."""
    for _ in range(LOADER_LOOKS if _runs_unasked(host_pid) else 0):
        time.sleep(LOADER_WAIT)
        noted = resident.exe_of(host_pid)
        if noted is not None:
            return noted
    return None


def _none_starting(tgid: int) -> Names | None:
    return None


def _none_kept(host_pid: int) -> Attributes:
    return {}


def _no_ids(host_tid: int) -> ProcessIds | None:
    return None


def _no_root(host_tid: int) -> Dir | None:
    return None


def stat_fields(host_tid: int) -> list[bytes]:
    """Those of /proc/TID/stat behind the name, the state first."""
    return read_host(b"/proc/%d/stat" % host_tid).rpartition(b")")[2].split()


def arguments_at(host_tid: int) -> int:
    """Where its arguments begin: another place after each execve, and the same after fork."""
    return int(stat_fields(host_tid)[45])


def _no_core_filter(host_tid: int) -> int | None:
    return None


class Tasks:
    """The processes of one run. `starting` tells the names of the program that a process (by thread group) is about to
    run, while the loader is still in its place; `kept` the attributes that husk keeps for a process;
    `ids` who it is, where not all processes are the box's one user, and `roots` the root that it has chosen.
    `core_filter` tells the coredump_filter that it set, and `keep_core_filter` takes a descriptor that it will be
    written to."""

    __slots__ = ("_closed", "_hosts", "_keep_core_filter", "_kept", "_lock", "_namespace_fd", "_roots", "_starting",
                 "_vfs", "core_filter", "ids_of", "own_namespace", "reaper")  # fmt: skip

    def __init__(
        self,
        vfs: Vfs,
        reaper: int,
        starting: Callable[[int], Names | None] = _none_starting,
        *,
        kept: Callable[[int], Attributes] = _none_kept,
        ids: Callable[[int], ProcessIds | None] = _no_ids,
        roots: Callable[[int], Dir | None] = _no_root,
        core_filter: Callable[[int], int | None] = _no_core_filter,
        keep_core_filter: Callable[[int, int], None] | None = None,
        own_namespace: bool = False,
    ) -> None:
        self._vfs, self.reaper, self._starting = vfs, reaper, starting
        self.own_namespace, self._kept, self.ids_of, self._roots = own_namespace, kept, ids, roots
        self.core_filter, self._keep_core_filter = core_filter, keep_core_filter
        self._lock, self._namespace_fd, self._closed = _thread.allocate_lock(), -1, False
        self._hosts: dict[int, int] = {}  # guest number -> host number, as last seen; only where the host is old

    def close(self) -> None:
        """The run is over. Hold on to the listener no longer: its descriptor is to close at once."""
        self._starting = _none_starting
        with self._lock:
            self._closed = True
            if self._namespace_fd >= 0:
                os.close(self._namespace_fd)
            self._namespace_fd = -1

    def forget(self) -> None:
        """In a forked child: a thread that is not in it may hold the lock."""
        self._lock = _thread.allocate_lock()
        self.close()

    # -- numbers -----------------------------------------------------------------------------------------------
    def host_pids(self) -> list[int]:
        """Every process of the box but the reaper: its descendants, found through the kernel's own child lists."""
        found: list[int] = []
        todo = [self.reaper]
        while todo:
            parent = todo.pop()
            tasks = b"/proc/%d/task" % parent
            try:
                alone = os.stat(tasks).st_nlink == ONE_THREAD
                for thread in (b"%d" % parent,) if alone else os.listdir(tasks):
                    pids = [int(word) for word in read_host(b"%s/%s/children" % (tasks, thread)).split()]
                    found += pids
                    todo += pids
            except OSError:
                continue  # it ended meanwhile; its children are the reaper's now
        return found

    def guest_pids(self) -> list[int]:
        if not self.own_namespace:
            return sorted(self.host_pids())  # descendants of the reaper by the way they were found
        return sorted(pid for pid in map(self.guest_of, self.host_pids()) if pid)

    def guest_of(self, host_pid: int) -> int:
        """Guest number of a host process or thread; 0 if it is none of this box."""
        if not self.own_namespace:
            return host_pid if self._descends(host_pid) else 0
        if host_pid == self.reaper or host_pid <= 0:
            return 0
        return self._translate(NS_GET_PID_IN_PIDNS, host_pid)

    def guest_group_of(self, host_tid: int) -> int:
        """Guest number of the process that a host thread belongs to; 0 if it is none of this box."""
        if self.own_namespace and host_tid > 0:
            return self._translate(NS_GET_TGID_IN_PIDNS, host_tid)
        return self.guest_of(self.tgid_of(host_tid))

    def host_of(self, guest_pid: int) -> int | None:
        if not self.own_namespace:
            return guest_pid if self._descends(guest_pid) else None
        if guest_pid <= 0:
            return None
        found = self._translate(NS_GET_PID_FROM_PIDNS, guest_pid)
        return found if found and found != self.reaper else None

    def _translate(self, how: int, number: int) -> int:
        """Ask the host for a task's number on the other side; 0 where there is none."""
        import fcntl  # not above: a box that never asks should not pay for it

        try:
            with self._lock:  # so that the descriptor is not closed, and its number used for another, meanwhile
                return fcntl.ioctl(self._namespace(), how, number)
        except ProcessLookupError:
            return 0
        except OSError as problem:
            if problem.errno != errno.ENOTTY:
                return 0
        # Before Linux 6.12. The host tells the number of one task at a time, and only in one direction.
        if how == NS_GET_TGID_IN_PIDNS:
            return self.guest_of(self.tgid_of(number))
        if how == NS_GET_PID_IN_PIDNS:
            return self._status_number(number)
        known = self._hosts.get(number)  # a hint that saves the next search, checked before use
        if known is None or self._status_number(known) != number:
            self._search()
            known = self._hosts.get(number)
        return known or 0

    def _namespace(self) -> int:
        """A descriptor of the box's pid namespace; EBADF once the run is over. The caller has the lock."""
        if self._closed:
            raise OSError(errno.EBADF, "the run is over")
        if self._namespace_fd < 0:
            self._namespace_fd = os.open(f"/proc/{self.reaper}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        return self._namespace_fd

    def _status_number(self, host_pid: int) -> int:
        try:
            with self._lock:
                ours = os.fstat(self._namespace())
            if not os.path.samestat(os.stat(f"/proc/{host_pid}/ns/pid"), ours):
                return 0
        except OSError:
            return 0
        numbers = self._status(host_pid, b"NSpid:").split()
        return int(numbers[-1]) if numbers and host_pid != self.reaper else 0

    def _search(self) -> None:
        """Note the numbers of all tasks: the next question is likely to be about another of them."""
        self._hosts.clear()
        for pid in self.host_pids():
            try:
                for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                    if len(self._hosts) < MOST_REMEMBERED and (guest := self._status_number(thread)):
                        self._hosts[guest] = thread
            except OSError:
                continue

    def tgid_of(self, host_tid: int) -> int:
        return int(self._status(host_tid, b"Tgid:") or b"0")

    def _descends(self, host_pid: int) -> bool:
        return bool(self.reaper) and self.descends(self.tgid_of(host_pid), self.reaper)

    def descends(self, host_pid: int, ancestor: int) -> bool:
        """Both are processes, by their host numbers."""
        pid = host_pid
        while pid > 1:
            pid = int(self._status(pid, b"PPid:") or b"0")
            if pid == ancestor:
                return True
        return False

    def shows(self, host_pid: int) -> int:
        """The guest number of a process that a guest can ask about by a call on itself: the reaper is the parent of the
        first program and leads the session, so getppid and getsid tell its number. 0: no such process."""
        return host_pid if host_pid == self.reaper and not self.own_namespace else self.guest_of(host_pid)

    def _status(self, pid: int, label: bytes) -> bytes:
        try:
            with open(f"/proc/{pid}/status", "rb") as status:
                for line in status:
                    if line.startswith(label):
                        return line[len(label) :].strip()
        except OSError:
            pass
        return b""

    # -- what husk keeps for them ------------------------------------------------------------------------------
    def dumpable(self, host_tid: int) -> int:
        """What the process set with PR_SET_DUMPABLE; execve makes it dumpable again."""
        kept = self._kept(host_tid)
        return kept["dumpable"] if "dumpable" in kept and kept["dumpable_at"] == arguments_at(host_tid) else 1

    def core_limit(self, host_tid: int) -> tuple[int, int] | None:
        """The limits on core files that the process set; None: it set none."""
        kept = self._kept(host_tid)
        return (kept["core_soft"], kept["core_hard"]) if "core_soft" in kept else None

    def keep_core_filter(self, host_tid: int, fd: int) -> None:
        if self._keep_core_filter is not None:
            self._keep_core_filter(self.tgid_of(host_tid), fd)

    # -- programs ----------------------------------------------------------------------------------------------
    def exe_of(self, host_pid: int) -> bytes | None:
        """What the loader noted, brought up to date: the file may have been renamed or removed since then."""
        noted = resident.exe_of(host_pid) or _noted_soon(host_pid)
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
        if _runs_unasked(host_pid):
            return None  # the host shows the right ones
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
        return self._roots(host_tid) or self._vfs.root

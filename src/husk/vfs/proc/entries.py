"""vfs: which names /proc holds for tasks. Each look-up asks for the processes anew: husk keeps no process table.

A task's directory object is kept only so that its placeholder stays the same. What nodes can do is in `proc_tree`.
"""

from __future__ import annotations

import errno
import os
import stat as st
import time

from husk.abi.numbers import GATE_CHANNEL
from husk.native._core import is_channel
from husk.vfs.node import Dir, Entry, Node
from husk.vfs.proc.proc_nodes import PartDir, TaskDir, TaskFile, TaskLink
from husk.vfs.proc.view import HostTask
from husk.vfs.synth.synth_tree import FIRST_COOKIE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Tree
    from husk.vfs.proc.view import View

# name -> mode; their text is in task_files.TASK_TEXT. Memory that only the owner may read is 0400, as on Linux.
TASK_FILES = {
    b"arch_status": 0o444,
    b"auxv": 0o400,
    b"cgroup": 0o444,
    b"children": 0o444,
    b"cmdline": 0o444,
    b"comm": 0o644,
    b"coredump_filter": 0o644,
    b"cpuset": 0o444,
    b"environ": 0o400,
    b"gid_map": 0o644,
    b"io": 0o400,
    b"ksm_merging_pages": 0o400,
    b"ksm_stat": 0o400,
    b"limits": 0o444,
    b"loginuid": 0o644,
    b"maps": 0o444,
    b"mem": 0o600,
    b"mountinfo": 0o444,
    b"mounts": 0o444,
    b"mountstats": 0o400,
    b"oom_adj": 0o444,
    b"oom_score": 0o444,
    b"oom_score_adj": 0o644,
    b"personality": 0o400,
    b"projid_map": 0o644,
    b"sched": 0o444,
    b"schedstat": 0o444,
    b"sessionid": 0o444,
    b"setgroups": 0o644,
    b"smaps": 0o444,
    b"smaps_rollup": 0o444,
    b"stat": 0o444,
    b"statm": 0o444,
    b"status": 0o444,
    b"timens_offsets": 0o644,
    b"timerslack_ns": 0o666,
    b"uid_map": 0o644,
    b"wchan": 0o444,
}
# What Linux shows to an ordinary user and husk leaves out is in `absent`, with the reason.
_ONLY_PROCESS = frozenset(
    {b"coredump_filter", b"mountstats", b"timens_offsets", b"timerslack_ns"}
)  # not under task/TID
# Whether the host has these depends on its version and how it was built.
_PERHAPS = frozenset({b"arch_status", b"children", b"ksm_merging_pages", b"ksm_stat", b"oom_adj", b"sched", b"wchan"})
_ONLY_THREAD = frozenset({b"children"})
_NET_FILES = (
    b"arp",
    b"dev",
    b"dev_mcast",
    b"fib_trie",
    b"icmp",
    b"icmp6",
    b"if_inet6",
    b"igmp",
    b"igmp6",
    b"ipv6_route",
    b"netlink",
    b"netstat",
    b"packet",
    b"psched",
    b"raw",
    b"raw6",
    b"route",
    b"rt_cache",
    b"snmp",
    b"snmp6",
    b"sockstat",
    b"sockstat6",
    b"tcp",
    b"tcp6",
    b"udp",
    b"udp6",
    b"udplite",
    b"udplite6",
    b"unix",
)  # their text is in net_files.NET_TEXT
_FIRST_PID_COOKIE = 0x1000
_HOST_TASKS_MAX = 64  # each holds a descriptor
_TASKS_KEPT = 128
_LISTED_AT_ONCE = 0.1  # seconds between the calls that read one listing of /proc
_TASK_LINKS = (b"cwd", b"exe", b"root")
TASK_DIRS = {b"fd": 0o500, b"fdinfo": 0o555, b"net": 0o555, b"ns": 0o511, b"task": 0o555}
_NAMESPACES = (
    b"cgroup",
    b"ipc",
    b"mnt",
    b"net",
    b"pid",
    b"pid_for_children",
    b"time",
    b"time_for_children",
    b"user",
    b"uts",
)
# Inode numbers: task number, then which of its directories, then the place in it. No table, and stable by construction.
_INO_OWN, _INO_FD, _INO_FDINFO, _INO_NET, _INO_NS = range(5)
_INO_THREAD = 8  # added for the same directory below task/TID
_OWN_NAMES = {name: index for index, name in enumerate([*TASK_FILES, *_TASK_LINKS, *TASK_DIRS], 1)}
_NET_NAMES = {name: index for index, name in enumerate(_NET_FILES, 1)}
_NS_NAMES = {name: index for index, name in enumerate(_NAMESPACES, 1)}


class TaskEntries:
    """Look-ups, listings and inode numbers of directories that come and go with tasks. `top` is /proc itself."""

    __slots__ = ("_listing", "_most", "_recent", "_tasks", "_top", "_tree", "_view")

    def __init__(self, tree: Tree, top: Dir, view: View) -> None:
        self._tree, self._top, self._view = tree, top, view
        self._tasks: dict[tuple[int, int], TaskDir] = {}  # by run and number
        self._most = _TASKS_KEPT  # of them, before those are looked for that are dead
        self._recent: list[TaskDir] = []  # those with a HostTask, oldest first
        self._listing: tuple[int, float, list[int]] = (0, 0.0, [])  # of /proc: run, when, numbers

    def host_task(self, task: TaskDir) -> HostTask:
        found = task.host_task
        if found is None:
            found = task.host_task = HostTask(self._view, task.host_dir, task.host, task.guest)
            self._recent.append(task)
            if len(self._recent) > _HOST_TASKS_MAX:
                self._recent.pop(0).host_task = None
        return found

    def forget_run(self, reaper: int) -> None:
        """A run of the box is over: drop what is held of its tasks. 0: of all runs."""
        for key in [key for key in self._tasks if not reaper or key[0] == reaper]:
            del self._tasks[key]
        for task in [task for task in self._recent if not reaper or not _is_alive(task)]:
            task.host_task = None
            self._recent.remove(task)

    def alive(self, task: TaskDir) -> None:
        """ENOENT where the task is gone."""
        self.host_task(task).started()

    def began(self, task: TaskDir) -> int:
        """When the host first showed it, in nanoseconds; 0 where it is gone."""
        try:
            return self.host_task(task).started()
        except (FileNotFoundError, ProcessLookupError):
            return 0

    # -- names -------------------------------------------------------------------------------------------------------
    def lookup(self, directory: Dir, name: bytes) -> Node | None:
        """None: the name is none of a task's."""
        if directory is self._top:
            number = _number(name)
            return None if number is None else self._process(number)
        if isinstance(directory, TaskDir):
            return self._in_task(directory, name)
        return self._in_part(directory, name) if isinstance(directory, PartDir) else None

    def _process(self, guest: int) -> TaskDir:
        tasks = self._view.tasks
        key = tasks.reaper, guest
        known = self._tasks.get(key)
        if known is not None:
            try:
                self.alive(known)  # cheaper than host_of, which may have to search
                return known
            except OSError:
                self._tasks.pop(key, None)
        host = tasks.host_of(guest)
        if host is None:
            raise OSError(errno.ENOENT, "no such process")
        if len(self._tasks) >= self._most:
            self._forget_dead()
            self._most = max(_TASKS_KEPT, 2 * len(self._tasks))  # so that the next time is as far away as this was long
        made = self._tasks[key] = TaskDir(self._tree, self._top, guest, host, b"/proc/%d" % host, thread=False)
        return made

    def _forget_dead(self) -> None:
        for key, task in list(self._tasks.items()):
            try:
                self.alive(task)
            except OSError:
                self._tasks.pop(key, None)

    def _in_task(self, task: TaskDir, name: bytes) -> Node:
        # Whether the task still lives shows when the node is used: every use asks the host.
        if name in TASK_DIRS and not (task.thread and name == b"task"):
            return task.below.get(name) or task.below.setdefault(name, PartDir(self._tree, task, name))
        if name in _TASK_LINKS:
            return TaskLink(self._tree, task, task, name)
        if name in _own_files(task):
            return TaskFile(self._tree, task, task, name)
        raise OSError(errno.ENOENT, "no such name")

    def _in_part(self, part: PartDir, name: bytes) -> Node:
        task = part.task
        if part.name == b"net":
            if name in _NET_NAMES and not self.host_task(task).is_zombie():
                return TaskFile(self._tree, task, part, name)
            raise OSError(errno.ENOENT, "no such name")
        if part.name == b"ns" and name in _NS_NAMES:
            os.lstat(b"ns/" + name, dir_fd=self.host_task(task).fd)
            return TaskLink(self._tree, task, part, name)
        number = _number(name) if part.name != b"ns" else None
        if number is None:
            raise OSError(errno.ENOENT, "no such name")
        if part.name == b"task":
            return self._thread(part, number)
        os.lstat(b"fd/%d" % number, dir_fd=self.host_task(task).fd)
        if self.is_hidden(task, number):
            raise OSError(errno.ENOENT, "no descriptor of the guest's")
        if part.name == b"fd":
            return TaskLink(self._tree, task, part, name, number)
        return TaskFile(self._tree, task, part, name)

    def _thread(self, part: PartDir, guest: int) -> TaskDir:
        host = self._view.tasks.host_of(guest)
        if host is None or self._view.tasks.tgid_of(host) != self._view.tasks.tgid_of(part.task.host):
            part.threads.pop(guest, None)
            raise OSError(errno.ENOENT, "no such thread")
        known = part.threads.get(guest)
        if known is None or known.host != host:
            host_dir = b"%s/task/%d" % (part.task.host_dir, host)
            known = part.threads[guest] = TaskDir(self._tree, part, guest, host, host_dir, thread=True)
        return known

    def entries(self, directory: Dir, after: int) -> list[Entry]:
        """In cookie order, those behind `after`."""
        if directory is self._top:
            found = [
                Entry(b"%d" % pid, _number_ino(pid, _INO_OWN, 0), st.S_IFDIR, _FIRST_PID_COOKIE + pid)
                for pid in self._pids(after)
            ]
        elif isinstance(directory, TaskDir):
            try:
                self.alive(directory)
            except ProcessLookupError:
                raise OSError(errno.ENOENT, "the process is gone") from None
            names = (*_own_dirs(directory), *_own_files(directory), *_TASK_LINKS)
            found = [self._own_entry(directory, name) for name in names]
        else:
            found = self._part_entries(directory) if isinstance(directory, PartDir) else []
        return sorted((entry for entry in found if entry.cookie > after), key=_cookie)

    def _pids(self, after: int) -> list[int]:
        """The numbers of all processes. A long listing takes several calls: those that follow the first at once go on
        with what it found, because looking for all processes is what a listing costs."""
        tasks, moment = self._view.tasks, time.monotonic()
        run, when, pids = self._listing
        if after < _FIRST_PID_COOKIE or run != tasks.reaper or moment - when > _LISTED_AT_ONCE:
            pids = tasks.guest_pids()
            self._listing = tasks.reaper, time.monotonic(), pids
        return pids

    def _own_entry(self, task: TaskDir, name: bytes) -> Entry:
        kind = st.S_IFDIR if name in TASK_DIRS else st.S_IFLNK if name in _TASK_LINKS else st.S_IFREG
        return Entry(name, self._own_ino(task, name), kind, FIRST_COOKIE + _OWN_NAMES[name])

    def _part_entries(self, part: PartDir) -> list[Entry]:
        task, name = part.task, part.name
        if name == b"net":
            return [
                Entry(each, _ino(task, _INO_NET, place), st.S_IFREG, FIRST_COOKIE + place)
                for each, place in _NET_NAMES.items()
            ]
        if name == b"ns":
            return [
                Entry(each, _ino(task, _INO_NS, _NS_NAMES[each]), st.S_IFLNK, FIRST_COOKIE + _NS_NAMES[each])
                for each in sorted(self.listed(task, name))
                if each in _NS_NAMES
            ]
        numbers = [int(each) for each in self.listed(task, b"task" if name == b"task" else b"fd")]
        if name == b"task":
            guests = (self._view.tasks.guest_of(number) for number in numbers)
            group = _INO_OWN | _INO_THREAD
            return [
                Entry(b"%d" % guest, _number_ino(guest, group, 0), st.S_IFDIR, FIRST_COOKIE + guest)
                for guest in guests
                if guest
            ]
        group, kind = (_INO_FD, st.S_IFLNK) if name == b"fd" else (_INO_FDINFO, st.S_IFREG)
        shown = (fd for fd in numbers if not self.is_hidden(task, fd))
        return [Entry(b"%d" % fd, _ino(task, group, fd), kind, FIRST_COOKIE + fd) for fd in shown]

    def is_hidden(self, task: TaskDir, fd: int) -> bool:
        """Is it the channel of the task's gate, which is none of the guest's doing?"""
        return fd == GATE_CHANNEL and is_channel(task.host, fd)

    def listed(self, task: TaskDir, name: bytes) -> list[bytes]:
        """Opened by name below the task's own directory descriptor, so it is the same task that is listed."""
        try:
            opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.host_task(task).fd)
        except ProcessLookupError:
            raise OSError(errno.ENOENT, "the process is gone") from None
        try:
            return [os.fsencode(each) for each in os.listdir(opened)]
        finally:
            os.close(opened)

    # -- inode numbers -----------------------------------------------------------------------------------------------
    def _own_ino(self, task: TaskDir, name: bytes) -> int:
        return _ino(task, _INO_OWN, _OWN_NAMES.get(name, 0))

    def ino_of(self, node: Node) -> int:
        """0: the node is none of a task's."""
        if isinstance(node, TaskDir):
            return self._own_ino(node, b"")
        if isinstance(node, PartDir):
            return self._own_ino(node.task, node.name)
        if isinstance(node, TaskLink):
            if node.part is not node.task and node.fd < 0:
                return _ino(node.task, _INO_NS, _NS_NAMES[node.name])
            return self._own_ino(node.task, node.name) if node.fd < 0 else _ino(node.task, _INO_FD, node.fd)
        if isinstance(node, TaskFile):
            if node.part is node.task:
                return self._own_ino(node.task, node.name)
            if node.part.name == b"net":
                return _ino(node.task, _INO_NET, _NET_NAMES[node.name])
            return _ino(node.task, _INO_FDINFO, int(node.name))
        return 0


def _number(name: bytes) -> int | None:
    """A task or descriptor number as Linux reads one: digits, no leading zero."""
    if name.isdigit() and len(name) <= 10 and (name[:1] != b"0" or name == b"0"):
        return int(name)
    return None


def _ino(task: TaskDir, group: int, place: int) -> int:
    return _number_ino(task.guest, group | _INO_THREAD if task.thread else group, place)


def _number_ino(guest: int, group: int, place: int) -> int:
    return guest << 32 | group << 28 | place


def _cookie(entry: Entry) -> int:
    return entry.cookie


def _is_alive(task: TaskDir) -> bool:
    try:
        return task.host_task is not None and bool(task.host_task.started())
    except OSError:
        return False


def _own_dirs(task: TaskDir) -> list[bytes]:
    return [name for name in TASK_DIRS if not (task.thread and name == b"task")]


_files: dict[bool, list[bytes]] = {}  # of processes (False) and threads (True), after the first look at the host


def _own_files(task: TaskDir) -> list[bytes]:
    known = _files.get(task.thread)
    if known is None:
        here = b"/proc/thread-self/" if task.thread else b"/proc/self/"
        missing = {name for name in _PERHAPS if not os.path.exists(here + name)}
        missing |= _ONLY_PROCESS if task.thread else _ONLY_THREAD
        known = _files[task.thread] = [name for name in TASK_FILES if name not in missing]
    return known

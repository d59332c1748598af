"""vfs: /proc as a tree — who owns its nodes, what opening one returns, where the magic links lead.

Which names tasks have is in `entries`; the text of files is in `task_files`, `net_files` and `system_files`.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.abi.numbers import GATE_CHANNEL
from husk.vfs.node import Dir, Node, Stat
from husk.vfs.proc.entries import TASK_DIRS, TASK_FILES, TaskEntries
from husk.vfs.proc.proc_nodes import HeldFile, NamespaceFile, PartDir, SelfLink, TaskDir, TaskFile, TaskLink
from husk.vfs.proc.view import View
from husk.vfs.synth.synth_tree import SynthTree, note, path_from, path_of, read_host, snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.vfs.node import Context, Credentials, Entry, Tree
    from husk.vfs.proc.view import GuestFile, HostTask, Tasks, WatchedFile
    from husk.vfs.synth.synth_tree import SynthDir

__all__ = ["HeldFile", "ProcTree"]

# Writing these tunes the task itself, and the host kernel checks the writer: so the guest gets the host's own file.
HOST_WRITABLE = frozenset({b"comm", b"oom_score_adj", b"timerslack_ns"})
# Writing has no effect but that it is shown: husk-init has set that the host writes no memory of a crashing guest.
SHOWN_AS_WRITTEN = frozenset({b"coredump_filter"})
NAMESPACED = frozenset({b"mountinfo", b"mounts", b"mountstats"})
# Linux shows these only to a process that may trace the task.
TRACER_FILES = frozenset(
    {b"auxv", b"environ", b"io", b"maps", b"mem", b"numa_maps", b"pagemap", b"personality", b"smaps", b"smaps_rollup"}
)
TRACER_FOLDERS = frozenset({b"fd", b"fdinfo", b"ns"})
NSFS_DEVICE = 4  # of Linux's file system of namespaces, the same on every machine that was looked at


def _no_file(_host_path: bytes, _dev: int, _ino: int) -> None:
    return None


def _not_watched(_host: tuple[int, int]) -> tuple[int, int]:
    return 0, 0


class ProcTree(SynthTree):
    """`guest_file(host_path, dev, ino)` returns path, device and inode of a mapped file as the guest knows it; None: it
    has no name inside; an empty path: hide it. `watched_file` returns device and inode of a file on an inotify queue.
    """

    fstype = b"proc"
    fixed_names = True
    read_only = False  # a few files of a task can be written; the modes of all others forbid it

    def __init__(
        self,
        tasks: Callable[[], Tasks],
        mounts: Callable[[], list[tuple[bytes, Tree]]],
        creds: Credentials,
        *,
        dev: int,
        guest_file: GuestFile = _no_file,
        watched_file: WatchedFile = _not_watched,
        hostname: bytes = b"husk",
        allow_tty: bool = False,
    ) -> None:
        super().__init__(dev, fill=self._fill)
        self.view = View(tasks, mounts, creds, guest_file, watched_file, allow_tty=allow_tty)
        self._hostname = hostname
        self._entries = TaskEntries(self, self._top, self.view)

    def _fill(self, top: SynthDir) -> None:
        # Not imported above: many boxes never look into /proc, and starting one must be quick.
        from husk.vfs.proc.system_files import fill_top

        for name, thread in ((b"self", False), (b"thread-self", True)):
            top.children[name] = SelfLink(self, top, name, self.next_ino(), thread=thread)
        fill_top(self, top, lambda: self.view.tasks, self._hostname)

    def statfs_path(self) -> bytes:
        return b"/proc"

    def forget_run(self, reaper: int) -> None:
        """A run of the box is over."""
        self._entries.forget_run(reaper)

    def close(self) -> None:
        self._entries.forget_run(0)

    # -- names -------------------------------------------------------------------------------------------------------
    def lookup(self, ctx: Context, directory: Dir, name: bytes) -> Node:
        return self._entries.lookup(directory, name) or super().lookup(ctx, directory, name)

    def entries(self, ctx: Context, directory: Dir, after: int) -> Iterable[Entry]:
        if isinstance(directory, PartDir) and directory.name in TRACER_FOLDERS:
            self._may_trace(ctx, directory.task)
        return [
            *super().entries(ctx, directory, after),
            *self._entries.entries(directory, after),
        ]

    def removal_error(self, directory: Dir) -> int:
        """As measured on Linux 6.18: EACCES for an ordinary user, but not in directories that judge access by
        themselves."""
        judges = isinstance(directory, TaskDir) or (isinstance(directory, PartDir) and directory.name == b"fd")
        return errno.EPERM if judges or not self.view.creds.uid else errno.EACCES

    def ino_of(self, node: Node) -> int:
        return node.ino if isinstance(node, SelfLink) else self._entries.ino_of(node) or super().ino_of(node)

    # -- nodes -------------------------------------------------------------------------------------------------------
    def stat(self, ctx: Context, node: Node) -> Stat:
        if isinstance(node, SelfLink):
            return self.made_stat(node.ino, st.S_IFLNK | 0o777)
        if isinstance(node, HeldFile):
            return self._held_stat(node)
        if isinstance(node, NamespaceFile):
            return Stat(NSFS_DEVICE, node.number, st.S_IFREG | 0o444, 1, 0, 0, 0, 0, 4096, 0, *[self.born] * 3)
        if not isinstance(node, (TaskDir, PartDir, TaskFile, TaskLink)):
            return super().stat(ctx, node)
        if isinstance(node, TaskDir):  # what holds it may ask after the task is gone
            uid, gid = self._owner(node)
            return self.made_stat(self.ino_of(node), st.S_IFDIR | 0o555, nlink=7 if node.thread else 9, uid=uid,
                                  gid=gid, when=self._entries.began(node))  # fmt: skip
        host_task = self._entries.host_task(node.task)
        try:
            when, hidden = host_task.started_and_owned_by_root()
        except ProcessLookupError:
            if not isinstance(node, PartDir):
                raise
            if node.name == b"fd":
                raise OSError(errno.ENOENT, "the process is gone") from None
            return self.made_stat(self.ino_of(node), st.S_IFDIR | TASK_DIRS[node.name], nlink=2)
        mode, nlink, size = 0o555, 1, 0
        if isinstance(node, PartDir):
            mode, nlink = TASK_DIRS[node.name], 2
            if node.name == b"fd":  # the number of descriptors, since Linux 6.2; whoever may not list them may ask
                size = os.stat(b"fd", dir_fd=host_task.fd).st_size
                size -= self._entries.is_hidden(node.task, GATE_CHANNEL)
            if node.name == b"task":  # one more for each thread: browsers count their own by it
                nlink = os.stat(b"task", dir_fd=host_task.fd).st_nlink
        elif isinstance(node, TaskFile):
            mode = TASK_FILES[node.name] if node.part is node.task else 0o444
        else:
            mode = 0o777
            if node.fd >= 0:
                mode, size = os.lstat(b"fd/%d" % node.fd, dir_fd=host_task.fd).st_mode & 0o777, 64
        uid, gid = self._owner(node.task)
        if mode != 0o555 and hidden:
            uid = gid = 0
        return self.made_stat(self.ino_of(node), node.kind | mode, nlink=nlink, uid=uid, gid=gid, size=size, when=when)

    def _owner(self, task: TaskDir) -> tuple[int, int]:
        """The effective ids of its process."""
        ids = self.view.tasks.ids_of(task.host)
        return (self.view.creds.uid, self.view.creds.gid) if ids is None else (ids.uids[1], ids.gids[1])

    def _held_stat(self, node: HeldFile) -> Stat:
        host = os.stat(b"fd/%d" % node.fd, dir_fd=self._entries.host_task(node.task).fd)
        creds = self.view.creds
        return Stat(
            host.st_dev,
            host.st_ino,
            host.st_mode,
            host.st_nlink,
            creds.uid,
            creds.gid,
            host.st_rdev,
            host.st_size,
            host.st_blksize,
            host.st_blocks,
            host.st_atime_ns,
            host.st_mtime_ns,
            host.st_ctime_ns,
        )

    def lasting_stat(self, node: Node, info: Stat) -> int | None:
        """Of a file of a process, as long as its first thread asks: then the process has not ended. Its owner would be
        another one if it hid its memory (`NameCache.hide_memory`), or became another user."""
        if not isinstance(node, TaskFile):
            return super().lasting_stat(node, info)
        task, tasks = node.task, self.view.tasks
        owner = self.view.creds.uid, self.view.creds.gid
        stays = node.part is task and not task.thread and tasks.ids_of(task.host) is None
        return task.host if stays and (info.uid, info.gid) == owner else None

    def set_mode(self, ctx: Context, node: Node, mode: int) -> None:
        raise OSError(errno.EPERM, "modes in /proc are fixed")

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        if isinstance(node, TaskFile) and not flags & os.O_PATH:
            return self._open_task_file(ctx, node, flags)
        if isinstance(node, HeldFile):
            from husk.vfs.proc.reopen import reopen

            return reopen(self._entries.host_task(node.task), node.fd, flags)
        return super().open(ctx, node, flags)

    def pin_fifo(self, ctx: Context, node: Node, flags: int) -> int:
        if not isinstance(node, HeldFile):
            return super().pin_fifo(ctx, node, flags)
        from husk.vfs.proc.reopen import pin_held

        return pin_held(self._entries.host_task(node.task), node.fd, flags)

    def _may_trace(self, ctx: Context, task: TaskDir) -> None:
        """Rules that the caller made for itself keep it from looking into processes without them. Everything else
        about tracing the host judges by owners, and all processes of a box have the same."""
        tasks = self.view.tasks
        if ctx.domain is not None and tasks.tgid_of(task.host) != tasks.tgid_of(ctx.tid):
            ctx.domain.require_task(task.host)

    def _open_task_file(self, ctx: Context, node: TaskFile, flags: int) -> int:
        if node.name in TRACER_FILES or (node.part is not node.task and node.part.name in TRACER_FOLDERS):
            self._may_trace(ctx, node.task)
        host_task = self._entries.host_task(node.task)
        if node.part is node.task and node.name == b"mem":
            return self._open_memory(ctx, host_task, flags)
        if flags & os.O_ACCMODE != os.O_RDONLY:
            if node.part is node.task and node.name in SHOWN_AS_WRITTEN:
                return self._open_shown(ctx, node, host_task, flags)
            if node.part is not node.task or node.name not in HOST_WRITABLE:
                raise OSError(errno.EPERM, "cannot be written in a box")
            keep = flags & (os.O_ACCMODE | os.O_NONBLOCK | os.O_APPEND)
            return os.open(node.name, keep | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=host_task.fd)
        return snapshot(path_of(node.part, node.name), self._text(ctx, node, host_task), flags)

    def _open_shown(self, ctx: Context, node: TaskFile, host_task: HostTask, flags: int) -> int:
        """What is written to a file that is open for reading too stays in that copy: it has a text before."""
        path = path_of(node.part, node.name)
        if flags & os.O_ACCMODE == os.O_RDWR:
            return snapshot(path, self._text(ctx, node, host_task), flags, access=os.O_RDWR)
        fd = note(path, flags)
        try:
            self.view.tasks.keep_core_filter(host_task.host, fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _open_memory(self, ctx: Context, host_task: HostTask, flags: int) -> int:
        """Of the caller's own process, which can change its memory without it just as well, and of its descendants,
        which it may trace. Others the host would judge by the caller; this descriptor is opened by husk."""
        tasks = self.view.tasks
        caller, owner = tasks.tgid_of(ctx.tid), tasks.tgid_of(host_task.host)
        if caller != owner and not (_children_traceable() and tasks.descends(owner, caller)):
            raise OSError(errno.EACCES, "the memory of another process")
        keep = flags & (os.O_ACCMODE | os.O_NONBLOCK)
        return os.open(b"mem", keep | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=host_task.fd)

    def _text(self, ctx: Context, node: TaskFile, host_task: HostTask) -> bytes:
        from husk.vfs.proc.net_files import net_text  # here, not above: see _fill
        from husk.vfs.proc.task_files import NAMED, TASK_TEXT, running, starting

        if node.part is node.task:
            if node.name in NAMESPACED and host_task.is_zombie():
                raise OSError(errno.EINVAL, "a process that has ended has no mounts")
            # Asked before and after the host is read: a program may begin, or be complete, in between.
            names = self.view.tasks.starting(host_task.host) if node.name in NAMED else None
            text = TASK_TEXT[node.name](host_task)
            if node.name in NAMED and (names := names or self.view.tasks.starting(host_task.host)):
                text = starting(node.name, text, names[1], names[2])
            return running(node.name, text) if host_task.host == ctx.tid else text
        if node.part.name == b"net":
            return net_text(ctx, host_task, node.name)
        return self._fdinfo(ctx, host_task, int(node.name))

    def _fdinfo(self, ctx: Context, host_task: HostTask, fd: int) -> bytes:
        from husk.vfs.mounts import mount_id
        from husk.vfs.proc.task_files import fdinfo

        held = self.view.tasks.node_of_fd(ctx, host_task.host, fd)
        if held is None:
            return fdinfo(host_task, fd, mount_id(self), None)
        return fdinfo(host_task, fd, mount_id(held.tree), held.tree.stat(ctx, held).ino)

    # -- from a descriptor back to its node --------------------------------------------------------------------------
    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        if isinstance(node, (TaskFile, TaskLink)):
            return node.part, node.name
        if isinstance(node, SelfLink):
            return node.parent, node.name
        return super().name_of(node)

    def node_of_host(self, path: bytes, dev: int, ino: int, via: bytes) -> Node | None:
        parts = path.split(b"/")
        if parts[1:2] != [b"proc"]:
            return super().node_of_host(path, dev, ino, via)
        # One of the host's own files that a guest gets: /proc/PID[/task/TID]/comm, or /proc/meminfo.
        from husk.vfs.proc.system_files import HOSTS_OWN

        if parts[-1] not in (HOSTS_OWN if len(parts) == 3 else HOST_WRITABLE | {b"mem"}):
            return None
        for place, number in enumerate(parts):
            if number.isdigit():
                parts[place] = b"%d" % self.view.tasks.guest_of(int(number))
        return self.node_at(b"/".join(parts[2:]))

    # -- links -------------------------------------------------------------------------------------------------------
    def readlink(self, ctx: Context, node: Node) -> bytes:
        tasks = self.view.tasks
        if isinstance(node, SelfLink):
            tgid = tasks.guest_group_of(ctx.tid)
            if not tgid:
                raise OSError(errno.ENOENT, "asked from outside the box")
            return b"%d/task/%d" % (tgid, tasks.guest_of(ctx.tid)) if node.thread else b"%d" % tgid
        if not isinstance(node, TaskLink):
            return super().readlink(ctx, node)
        task = node.task
        self._entries.alive(task)
        self._may_trace(ctx, task)
        if node.fd >= 0:
            return _shown(ctx, tasks.fd_text(ctx, task.host, node.fd))
        if node.part is not task:
            return os.readlink(b"ns/" + node.name, dir_fd=self._entries.host_task(task).fd)
        if node.name == b"exe":
            text = tasks.exe_of(task.host)
            if text is None:
                raise OSError(errno.ENOENT, "no program")
            return _shown(ctx, text)
        directory = self._directory(ctx, node)
        return _shown(ctx, path_of(directory) + (b" (deleted)" if directory.removed else b""))

    def follow(self, ctx: Context, node: Node) -> Node | None:
        if not isinstance(node, TaskLink) or node.name == b"exe":
            return None  # exe: its text is a guest path, walked like any other
        self._may_trace(ctx, node.task)
        if node.fd < 0 and node.part is not node.task:
            number = self.readlink(ctx, node).partition(b":[")[2].rstrip(b"]")
            return NamespaceFile(self, node.part, node.name, int(number))
        if node.fd < 0:
            return self._directory(ctx, node)
        kind = st.S_IFMT(os.stat(b"fd/%d" % node.fd, dir_fd=self._entries.host_task(node.task).fd).st_mode)
        known = self.view.tasks.node_of_fd(ctx, node.task.host, node.fd)
        if known is None and kind == st.S_IFDIR:
            raise OSError(errno.EACCES, "a directory that has no name inside")
        return known or HeldFile(self, node.task, node.fd, kind)

    def is_magic(self, node: Node) -> bool:
        return isinstance(node, TaskLink)

    def _directory(self, ctx: Context, node: TaskLink) -> Dir:
        ask = self.view.tasks.cwd_of if node.name == b"cwd" else self.view.tasks.root_of
        directory = ask(ctx, node.task.host)
        if directory is None or self._entries.host_task(node.task).is_zombie():
            raise OSError(errno.ENOENT, "the process is gone")
        return directory


def _shown(ctx: Context, text: bytes) -> bytes:
    """A path as the reader sees it, who may have another root. What lies outside shows with its whole path."""
    root = ctx.own_root() if text[:1] == b"/" else None
    return text if root is None else path_from(root, text) or text


def _children_traceable() -> bool:
    """Does the host let a process trace its descendants? (Yama's setting 2 asks for a capability, 3 forbids it.)"""
    try:
        return int(read_host(b"/proc/sys/kernel/yama/ptrace_scope")) <= 1
    except FileNotFoundError:
        return True

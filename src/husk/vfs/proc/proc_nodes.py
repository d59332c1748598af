"""vfs: the nodes of /proc that come and go with tasks. Shapes only; what they mean is in `proc_tree`."""

from __future__ import annotations

import stat as st

from husk.vfs.node import Dir, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Tree
    from husk.vfs.proc.view import HostTask


class TaskDir(Dir):
    """/proc/PID, or /proc/PID/task/TID when `thread`. `host_task` is kept for tasks that were used lately."""

    __slots__ = ("below", "guest", "host", "host_dir", "host_task", "thread")

    def __init__(self, tree: Tree, parent: Dir, guest: int, host: int, host_dir: bytes, *, thread: bool) -> None:
        super().__init__(tree, parent, b"%d" % guest)
        self.guest, self.host, self.host_dir, self.thread = guest, host, host_dir, thread
        self.below: dict[bytes, Dir] = {}
        self.host_task: HostTask | None = None


class PartDir(Dir):
    """fd, fdinfo, net or task of a task."""

    __slots__ = ("task", "threads")

    def __init__(self, tree: Tree, task: TaskDir, name: bytes) -> None:
        super().__init__(tree, task, name)
        self.task = task
        self.threads: dict[int, TaskDir] = {}


class TaskFile(Node):
    """A file in a task's directory, its net or its fdinfo; `part` is that directory."""

    __slots__ = ("name", "part", "task")

    def __init__(self, tree: Tree, task: TaskDir, part: Dir, name: bytes) -> None:
        super().__init__(tree, st.S_IFREG)
        self.task, self.part, self.name = task, part, name


class TaskLink(Node):
    """cwd, exe or root of a task; or N in its fd, when `fd` is not negative. `part` is the directory it is in."""

    __slots__ = ("fd", "name", "part", "task")

    def __init__(self, tree: Tree, task: TaskDir, part: Dir, name: bytes, fd: int = -1) -> None:
        super().__init__(tree, st.S_IFLNK)
        self.task, self.part, self.name, self.fd = task, part, name, fd


class NamespaceFile(Node):
    """Where a link of ns leads. It can be looked at, not opened: what a guest cannot hold it cannot enter."""

    __slots__ = ("name", "number", "part")

    def __init__(self, tree: Tree, part: Dir, name: bytes, number: int) -> None:
        super().__init__(tree, st.S_IFREG)
        self.part, self.name, self.number = part, name, number


class SelfLink(Node):
    """/proc/self and /proc/thread-self: their text depends on the calling thread."""

    __slots__ = ("ino", "name", "parent", "thread")

    def __init__(self, tree: Tree, parent: Dir, name: bytes, ino: int, *, thread: bool) -> None:
        super().__init__(tree, st.S_IFLNK)
        self.parent, self.name, self.ino, self.thread = parent, name, ino, thread


class HeldFile(Node):
    """A file that a task holds open and no tree has a name for: a pipe, a socket, a memfd, inherited stdio.

    It lives as long as the task keeps the descriptor; nothing is pinned here.
    """

    __slots__ = ("fd", "host_tid", "task")

    def __init__(self, tree: Tree, task: TaskDir, fd: int, kind: int) -> None:
        super().__init__(tree, kind)
        self.task, self.fd, self.host_tid = task, fd, task.host

    def holder(self) -> tuple[int, int]:
        return self.host_tid, self.fd

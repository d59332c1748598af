"""vfs: what the proc tree knows about the box, and how it reads one task on the host.

Everything /proc shows of a task was read through a `HostTask`.
"""

from __future__ import annotations

import errno
import os

from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from husk.vfs.node import Context, Credentials, Dir, Node, Tree

    class ProcessIds(Protocol):
        """Who a process is: real, effective, saved, and for files; capabilities as bits."""

        @property
        def uids(self) -> tuple[int, ...]: ...
        @property
        def gids(self) -> tuple[int, ...]: ...
        @property
        def groups(self) -> frozenset[int]: ...
        @property
        def permitted(self) -> int: ...
        @property
        def effective(self) -> int: ...

    class Tasks(Protocol):
        """What the kernel knows about the processes of a run."""

        reaper: int  # tells runs apart

        def guest_pids(self) -> list[int]: ...
        def host_of(self, guest_pid: int) -> int | None: ...
        def guest_of(self, host_pid: int) -> int: ...
        def guest_group_of(self, host_tid: int) -> int: ...
        def tgid_of(self, host_tid: int) -> int: ...
        def descends(self, host_pid: int, ancestor: int) -> bool: ...
        def shows(self, host_pid: int) -> int: ...
        def dumpable(self, host_tid: int) -> int: ...

        @property
        def ids_of(self) -> Callable[[int], ProcessIds | None]: ...
        def core_limit(self, host_tid: int) -> tuple[int, int] | None: ...
        @property
        def core_filter(self) -> Callable[[int], int | None]: ...
        def keep_core_filter(self, host_tid: int, fd: int) -> None: ...
        def exe_of(self, host_pid: int) -> bytes | None: ...
        def starting(self, host_pid: int) -> tuple[bytes, bytes, list[bytes]] | None: ...
        def node_of_fd(self, ctx: Context, host_tid: int, fd: int) -> Node | None: ...
        def fd_text(self, ctx: Context, host_tid: int, fd: int) -> bytes: ...
        def cwd_of(self, ctx: Context, host_tid: int) -> Dir | None: ...
        def root_of(self, ctx: Context, host_tid: int) -> Dir | None: ...

    GuestFile = Callable[[bytes, int, int], tuple[bytes, int, int] | None]
    WatchedFile = Callable[[tuple[int, int]], tuple[int, int]]


class View:
    """What stays the same for the whole box: where to ask for tasks and mounts, the credentials, what may be seen."""

    __slots__ = ("_outer", "_tasks", "allow_tty", "creds", "guest_file", "mounts", "watched_file")

    def __init__(
        self,
        tasks: Callable[[], Tasks],
        mounts: Callable[[], list[tuple[bytes, Tree]]],
        creds: Credentials,
        guest_file: GuestFile,
        watched_file: WatchedFile,
        *,
        allow_tty: bool,
    ) -> None:
        self._tasks, self.mounts, self.creds = tasks, mounts, creds
        self.guest_file, self.watched_file, self.allow_tty = guest_file, watched_file, allow_tty
        self._outer: tuple[int, int] | None = None

    @property
    def tasks(self) -> Tasks:
        """Those of the run that the calling thread serves: a box may have several runs at a time."""
        return self._tasks()

    def outer(self) -> tuple[int, int]:
        """husk's own (pid namespace depth, number of seccomp filters): what a guest has beyond these is its own."""
        if self._outer is None:
            fields = dict(status_lines(read_host(b"/proc/thread-self/status")))
            self._outer = len(fields.get(b"NSpid", b"").split()) or 1, int(fields.get(b"Seccomp_filters", b"0"))
        return self._outer


class HostTask:
    """A live task of the box, read through a descriptor of its host /proc directory.

    The descriptor is bound to that very task: if the task dies and its number goes to another process, reads fail
    instead of showing that process. So the directory is opened first, and then husk checks that the task is one of the
    box. This cannot change later, so a HostTask may be kept and used again; the descriptor is closed with the object.
    """

    __slots__ = ("fd", "guest", "host", "view")

    def __init__(self, view: View, host_dir: bytes, host: int, guest: int) -> None:
        self.fd = -1
        self.view, self.host, self.guest = view, host, guest
        self.fd = os.open(host_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if view.tasks.guest_of(host) != guest:
            raise OSError(errno.ENOENT, "no such process")

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def started(self) -> int:
        """When the host first showed it, in nanoseconds; ENOENT where the task is gone."""
        return os.stat(b"stat", dir_fd=self.fd).st_mtime_ns

    def started_and_owned_by_root(self) -> tuple[int, bool]:
        """`started`, and: Linux gives the files of a zombie, and of a process that hides its memory, to root."""
        found = os.stat(b"stat", dir_fd=self.fd)
        stays = os.fstat(self.fd).st_uid  # the directory is its own whatever happens
        return found.st_mtime_ns, found.st_uid != stays or not self.view.tasks.dumpable(self.host)

    def is_zombie(self) -> bool:
        """Has it ended, and does its parent not know yet? Then it has no working directory any more."""
        try:
            os.readlink(b"cwd", dir_fd=self.fd)
        except FileNotFoundError:
            return True
        except OSError:
            pass
        return False

    def read(self, name: bytes) -> bytes:
        return read_host(name, self.fd)


def status_lines(text: bytes) -> list[tuple[bytes, bytes]]:
    """(key, raw value) pairs. Split at newlines alone: a process may put any other byte in its name."""
    return [(key, value) for key, _, value in (line.partition(b":\t") for line in text.split(b"\n")) if key]

"""A guest without a process: memory made of bytes, and a call that answers as husk.native._core.Call does.

Guest descriptors are descriptors of this process, under the same numbers, so what husk asks the host about them
(/proc/TID/fd, fdinfo, pidfd_getfd) has true answers. Every answer a call gets is kept: a second one is a mistake that
the tests look for, and is not hidden here.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Any, cast

from husk.abi.registry import number
from husk.abi.registry.rules import Walls
from husk.kernel.events import Events
from husk.kernel.identity import Identity
from husk.kernel.kernel import Kernel, Shared
from husk.kernel.namecache import NameCache
from husk.kernel.tasks import LiveRuns, Tasks, TasksHere
from husk.native._core import stat_fd
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import Credentials, Dir
from husk.vfs.state import State
from husk.vfs.vfs import Vfs

BAD = 0x10  # an address that is mapped in no guest


class Memory:
    """Areas of bytes at addresses; everything around them is unmapped, as after strace's edge buffers."""

    def __init__(self) -> None:
        self._areas: dict[int, bytearray] = {}
        self._next = 0x10000

    def put(self, data: bytes) -> int:
        """The address of a new area that ends where `data` ends."""
        address, self._next = self._next, self._next + (len(data) // 4096 + 2) * 4096
        self._areas[address] = bytearray(data)
        return address

    def _find(self, address: int, size: int) -> tuple[bytearray, int]:
        for start, area in self._areas.items():
            if start <= address and address + size <= start + len(area):
                return area, address - start
        raise OSError(errno.EFAULT, "unmapped")

    def read(self, address: int, size: int) -> bytes:
        if not size:
            return b""
        area, at = self._find(address, size)
        return bytes(area[at : at + size])

    def write(self, address: int, data: bytes) -> None:
        if data:
            area, at = self._find(address, len(data))
            area[at : at + len(data)] = data

    def cstring(self, address: int, limit: int) -> bytes:
        area, at = self._find(address, 1)
        end = area.find(b"\0", at, at + limit)
        if end >= 0:
            return bytes(area[at:end])
        raise OSError(errno.EFAULT if len(area) - at < limit else errno.ENAMETOOLONG, "no end")


class Waiting:
    """A program that the core keeps for its loader."""

    def __init__(self, program_fd: int, interpreter_fd: int, info: bytes) -> None:
        self.program_fd, self.interpreter_fd, self.info = program_fd, interpreter_fd, info

    def close(self) -> None:
        for fd in (self.program_fd, self.interpreter_fd):
            if fd >= 0:
                os.close(fd)


class FakeCall:
    """The C core's Call, with the memory and descriptors of `guest`."""

    def __init__(self, guest: Guest, nr: int, args: tuple[int, ...]) -> None:
        self.guest, self.nr = guest, nr
        self.id, self.tid = 1, os.getpid()
        self.args = tuple(value & (1 << 64) - 1 for value in (*args, *(0,) * (6 - len(args))))
        self.answers: list[tuple[str, int]] = []
        self.added: list[int] = []
        self.moved_to = b""
        self.cloned: tuple[int, ...] = ()
        self.executed: tuple[int, int, int, int] | None = None
        self.waiting: Waiting | None = None
        self.fails_with = 0  # errno that injecting a descriptor fails with
        self.duplicates = True  # False: the host keeps pidfd_getfd from husk, as in many containers

    @property
    def answered(self) -> bool:
        return bool(self.answers)

    # -- memory
    def cstring(self, address: int, limit: int = 4096) -> bytes:
        return self.guest.memory.cstring(address, limit)

    def read(self, address: int, size: int) -> bytes:
        return self.guest.memory.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        self.guest.memory.write(address, data)

    # -- answers
    def reply(self, value: int) -> int:
        assert type(value) is int and -(1 << 63) <= value < 1 << 63
        self.answers.append(("value", value))
        return 0

    def fail(self, error: int) -> int:
        assert 0 < error < 4096, f"{error} is no errno"
        self.answers.append(("error", error))
        return 0

    def proceed(self) -> int:
        self.answers.append(("proceed", 0))
        return 0

    def reply_fd(self, fd: int, cloexec: bool, alone: bool) -> int:
        """Takes over `fd` in any case, as the C core does."""
        try:
            copy = self._inject(fd, cloexec)
        finally:
            os.close(fd)
        self.answers.append(("fd", copy))
        return copy

    def add_fd(self, fd: int, cloexec: bool) -> int:
        copy = self._inject(fd, cloexec)
        self.added.append(copy)
        return copy

    def _inject(self, fd: int, cloexec: bool) -> int:
        os.fstat(fd)  # EBADF for a descriptor husk does not hold
        if self.fails_with:
            raise OSError(self.fails_with, os.strerror(self.fails_with))
        copy = os.dup(fd)
        os.set_inheritable(copy, not cloexec)
        self.guest.fds.add(copy)
        return copy

    def valid(self) -> bool:
        return not self.answered

    # -- what the host says of the guest
    def _held(self, fd: int) -> int:
        if fd not in self.guest.fds:
            raise OSError(errno.EBADF, "not open")
        return fd

    def fd_link(self, fd: int) -> bytes:
        return os.readlink(b"/proc/self/fd/%d" % self._held(fd))

    def fd_stat(self, fd: int) -> tuple[int, ...]:
        return stat_fd(self._held(fd))

    def position(self, fd: int) -> int:
        return os.lseek(self._held(fd), 0, os.SEEK_CUR)

    def get_fd(self, fd: int) -> int:
        if not self.duplicates:
            raise OSError(errno.EPERM, "not permitted")
        return os.dup(self._held(fd))

    def cwd_link(self) -> bytes:
        return os.readlink(b"/proc/self/fd/%d" % self.guest.cwd)

    def umask(self) -> int:
        return 0o022

    def tgid(self) -> int:
        return self.tid

    def table_is_full(self) -> bool:
        return False

    # -- remote calls
    def set_owner(self, fd: int, owner: int) -> int:
        self.answers.append(("owner", owner))
        return 0

    def seek(self, fd: int, position: int, value: int) -> int:
        os.lseek(self._held(fd), position, os.SEEK_SET)
        self.answers.append(("value", value))
        return 0

    def interrupt(self, error: int) -> int:
        self.answers.append(("error", error))
        return 0

    def map(self, fd: int, address: int, size: int, protection: int, flags: int) -> int:
        raise NotImplementedError  # it takes a process: tests/guests/ipc_sysv.c

    def unmap(self, address: int, size: int) -> int:
        raise NotImplementedError

    def send(
        self,
        fd: int,
        own_fd: int,
        parts: bytes,
        control: bytes,
        flags: int,
        waits: bool,
        stream: bool,
        address: bytes,
    ) -> bool:
        return False  # as on an old host: husk sends

    def change_directory(self, fd: int) -> int:
        self.moved_to = os.readlink(b"/proc/self/fd/%d" % fd)
        self.answers.append(("value", 0))
        return 0

    def clone(
        self, flags: int, stack: int, parent_tid: int, child_tid: int, tls: int, number_at: int, clear_handlers: bool
    ) -> int:
        self.cloned = flags, stack, parent_tid, child_tid, tls, number_at, clear_handlers
        self.answers.append(("value", 0))
        return 0

    def restrict(self, ruleset: int, personality: int) -> int:
        raise NotImplementedError  # it takes a process: tests/guests/landlock_rules.c

    def give_path(self, fd: int, cloexec: bool) -> int:
        return self.reply_fd(os.dup(fd), cloexec, False)

    def give_terminal(self, fd: int, cloexec: bool) -> int:
        return self.reply_fd(fd, cloexec, True)

    def exec_loader(
        self,
        loader_fd: int,
        empty: int,
        argv: int,
        envp: int,
        program_fd: int,
        interpreter_fd: int,
        info: bytes,
        name: bytes,
    ) -> int:
        self.executed = loader_fd, empty, argv, envp
        self.waiting = Waiting(program_fd, interpreter_fd, info)
        self.answers.append(("executed", 0))
        return 0


class FakeListener:
    """Receives no notifications; records what the name cache is taught."""

    def __init__(self) -> None:
        self.taught: list[tuple[Any, ...]] = []
        self.forgotten: list[tuple[Any, ...]] = []

    def cache_identity(self, *_: object) -> None:
        pass

    def cache_image(self, *_: object) -> None:
        pass

    def cache_learn(self, *what: Any) -> None:
        self.taught.append(what)

    def cache_losses(self) -> int:
        return 0

    def cache_off(self) -> None:
        pass

    def cache_links(self) -> None:
        pass

    def cache_direct(self, table_fd: int, root_fd: int, name: bytes, /) -> None:
        pass

    def cache_watched(self) -> None:
        pass

    def mark(self, tid: int) -> int:
        return 0

    def use_marks(self) -> None:
        pass

    def cache_forget(self, *what: Any) -> None:
        self.forgotten.append(what)

    def cache_listing(self, *_: object) -> None:
        pass

    def cache_changes(self, *_: object) -> None:
        pass

    def cache_later(self, *_: object) -> None:
        pass

    def cache_made(self, *_: object) -> None:
        pass

    def cache_own(self, *_: object) -> None:
        pass

    def take_changes(self) -> tuple[()]:
        return ()

    def cache_handle(self, *_: object) -> None:
        pass

    def cache_path(self, *_: object) -> None:
        pass

    def begun(self, tgid: int) -> None:
        pass

    def program_learn(self, *_: object) -> None:
        pass

    def stop(self) -> None:
        pass


class Guest:
    """One box as a handler sees it: a real vfs whose root shows `lower`, a real kernel, and calls made by hand."""

    def __init__(self, state: bytes, lower: bytes, events: Events | None = None, *, walls: Walls | None = None) -> None:
        self.memory = Memory()
        self.fds: set[int] = set()
        self.creds = Credentials(os.getuid(), os.getgid())
        self.state = State(state)
        self.tree = LayeredTree(self.state)
        self.tree.show(self.tree.root, lower)
        live = LiveRuns()
        self.vfs = Vfs(self.state, self.tree, self.creds, live)
        self.events = events or Events(None, None)
        self.faults_expected = False  # else a fault of husk's own fails the test, with its traceback
        self.listener = FakeListener()
        identity = Identity(self.creds.uid, self.creds.gid, self.creds.uid, self.creds.gid)
        walls = walls or Walls()
        here = TasksHere(self.vfs)
        shared = Shared(self.vfs, here, live, self.creds, identity, walls, None, diagnosis=-1, loader_fd=-1)
        tasks = Tasks(self.vfs, os.getpid())  # the guest's numbers are the host's
        listener, uid = cast(Any, self.listener), self.creds.uid
        cached = not self.events.watching
        names = NameCache(listener, self.vfs, self.creds, uid, cached=cached)
        self.kernel = Kernel(shared, listener, tasks, self.events, names=names)
        self.cwd = self.vfs.placeholder_fd(self.vfs.context, self.vfs.root, os.O_RDONLY)

    def close(self) -> None:
        for fd in (self.cwd, *self.fds):
            os.close(fd)
        self.tree.close()
        self.state.close()

    def text(self, data: bytes) -> int:
        return self.memory.put(data + b"\0")

    def make(self, name: str | int, *args: int) -> FakeCall:
        """A call that is not answered yet."""
        nr = name if isinstance(name, int) else number(name)
        return FakeCall(self, nr, args)

    def answer(self, call: FakeCall) -> tuple[str, int]:
        """What the kernel answers; exactly one answer, or the test fails here."""
        self.kernel.answer(cast(Any, call))
        deadline = time.monotonic() + 10
        while not call.answers and time.monotonic() < deadline:
            time.sleep(0.001)  # a thread of its own answers
        assert len(call.answers) == 1, f"answered {len(call.answers)} times: {call.answers}"
        assert self.faults_expected or not self.events.faults, self.events.faults[0]
        return call.answers[0]

    def call(self, name: str | int, *args: int) -> int:
        """Make a call as the guest would: its value, or OSError."""
        kind, value = self.answer(self.make(name, *args))
        if kind == "error":
            raise OSError(value, os.strerror(value))
        return value

    def errno(self, name: str | int, *args: int) -> str:
        """The errno's name, or "ok"."""
        try:
            self.call(name, *args)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return "ok"

    def open(self, name: bytes, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
        return self.call("open", self.text(name), flags, mode)

    def write_file(self, name: bytes, content: bytes, mode: int) -> None:
        fd = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        os.write(fd, content)
        self.fds.remove(fd)
        os.close(fd)

    def hold(self, host_fd: int) -> int:
        """Give the guest a descriptor of this process; it is closed with the guest."""
        self.fds.add(host_fd)
        return host_fd

    def directory(self, path: bytes) -> Dir:
        node = self.vfs.walk(self.vfs.context, self.vfs.root, path)
        assert isinstance(node, Dir)
        return node


def open_descriptors() -> set[int]:
    """Descriptors of this process, to count leaks with; without the one that lists them."""
    return {int(fd) for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")}


def new_descriptors(before: set[int]) -> list[str]:
    found = []
    for fd in sorted(open_descriptors() - before):
        try:
            found.append(f"{fd} -> {os.readlink(f'/proc/self/fd/{fd}')}")
        except FileNotFoundError:
            pass  # another thread has closed it since
    return found

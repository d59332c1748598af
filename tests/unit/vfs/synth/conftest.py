"""A box without guests: the trees under test over real host processes, which fake tasks give small guest numbers."""

from __future__ import annotations

import os
import signal
import stat as st
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from husk.vfs.node import Context, Credentials, Dir, Node, Tree
from husk.vfs.proc.proc_tree import ProcTree
from husk.vfs.synth.dev import DevTree
from husk.vfs.synth.pts import PtsTree
from husk.vfs.synth.synth_tree import SynthDir, SynthTree
from husk.vfs.synth.sysfs import SysTree

UID, GID = 4_000_000_001, 4_000_000_002
SECRET = b"/home/somebody/host-only"


class FakeTasks:
    """Guest numbers from 1 up, in the order processes and threads were made known; nothing else exists."""

    def __init__(self, root: Dir) -> None:
        self.root, self.reaper = root, 0
        self.processes: dict[int, int] = {}  # guest -> host
        self.threads: dict[int, int] = {}
        self.nodes: dict[tuple[int, int], Node] = {}  # (host, fd) -> what the vfs would know
        self.cwd: Dir | None = root
        self.loading: dict[int, tuple[bytes, bytes, list[bytes]]] = {}  # host -> path, name, words before the arguments

    def add(self, host: int) -> int:
        guest = len(self.processes) + len(self.threads) + 1
        self.processes[guest] = host
        return guest

    def add_thread(self, host: int) -> int:
        guest = len(self.processes) + len(self.threads) + 1
        self.threads[guest] = host
        return guest

    def guest_pids(self) -> list[int]:
        return [guest for guest, host in self.processes.items() if os.path.exists(f"/proc/{host}")]

    def host_of(self, guest_pid: int) -> int | None:
        return self.processes.get(guest_pid) or self.threads.get(guest_pid)

    def guest_of(self, host_pid: int) -> int:
        return next((guest for guest, host in (self.processes | self.threads).items() if host == host_pid), 0)

    def descends(self, host_pid: int, ancestor: int) -> bool:
        return False

    def ids_of(self, host_tid: int) -> None:
        return None

    def dumpable(self, host_tid: int) -> int:
        return 1

    def core_limit(self, host_tid: int) -> tuple[int, int] | None:
        return None

    def core_filter(self, host_tid: int) -> int | None:
        return None

    def keep_core_filter(self, host_tid: int, fd: int) -> None:
        pass

    def shows(self, host_pid: int) -> int:
        return self.guest_of(host_pid)

    def guest_group_of(self, host_tid: int) -> int:
        return self.guest_of(self.tgid_of(host_tid))

    def tgid_of(self, host_tid: int) -> int:
        with open(f"/proc/{host_tid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))

    def exe_of(self, host_pid: int) -> bytes | None:
        return b"/usr/bin/guest-program"

    def starting(self, host_pid: int) -> tuple[bytes, bytes, list[bytes]] | None:
        return self.loading.get(host_pid)

    def node_of_fd(self, ctx: Context, host_tid: int, fd: int) -> Node | None:
        return self.nodes.get((host_tid, fd))

    def fd_text(self, ctx: Context, host_tid: int, fd: int) -> bytes:
        return os.readlink(b"/proc/%d/fd/%d" % (host_tid, fd))

    def cwd_of(self, ctx: Context, host_tid: int) -> Dir | None:
        return self.cwd

    def root_of(self, ctx: Context, host_tid: int) -> Dir | None:
        return self.root


def guest_file(host_path: bytes, dev: int, ino: int) -> tuple[bytes, int, int] | None:
    if host_path.startswith(b"/usr/"):
        return b"/guest" + host_path, os.makedev(0, 40), ino
    return (b"", 0, 0) if b"loader" in host_path else None


class Box:
    def __init__(self) -> None:
        self.creds = Credentials(UID, GID, frozenset({100}))
        self.top = SynthTree(dev=os.makedev(0, 40))
        self.top.fstype, self.top.read_only = b"husk", False
        self.tasks = FakeTasks(self.top.root)
        self.proc = ProcTree(lambda: self.tasks, self.mounts, self.creds, dev=os.makedev(0, 41), guest_file=guest_file,
                             hostname=b"boxed")
        self.pts = PtsTree(self.creds, dev=os.makedev(0, 44))
        self.dev = DevTree(self.pts, dev=os.makedev(0, 42))
        self.sys = SysTree(dev=os.makedev(0, 43))
        assert isinstance(self.top.root, SynthDir)
        for name, tree in ((b"proc", self.proc), (b"dev", self.dev), (b"sys", self.sys)):
            point = self.top.add_dir(self.top.root, name)
            point.mounted, tree.root.covers = tree.root, point
        pts = self.dev.lookup(Context(self.creds), self.dev.root, b"pts")
        assert isinstance(pts, Dir)
        pts.mounted, self.pts.root.covers = self.pts.root, pts
        self.me = self.tasks.add(os.getpid())
        self.ctx = Context(self.creds, os.getpid())

    def mounts(self) -> list[tuple[bytes, Tree]]:
        return [(b"/", self.top), (b"/proc", self.proc), (b"/dev", self.dev), (b"/sys", self.sys)]

    def walk(self, path: bytes, *, follow: bool = True, start: Dir | None = None) -> Node:
        """Just enough of a walk: components, links, mounts."""
        here: Node = self.top.root if start is None or path.startswith(b"/") else start
        parts = [part for part in path.split(b"/") if part]
        for index, name in enumerate(parts):
            assert isinstance(here, Dir)
            if name == b"..":
                here = (here if here.parent else here.covers or here).parent or here
                continue
            found = here.tree.lookup(self.ctx, here, name)
            if found.kind == st.S_IFLNK and (follow or index + 1 < len(parts)):
                jump = found.tree.follow(self.ctx, found)
                found = jump or self.walk(found.tree.readlink(self.ctx, found), start=here)
            if isinstance(found, Dir) and found.mounted is not None:
                found = found.mounted
            here = found
        return here

    def open(self, path: bytes, flags: int = os.O_RDONLY) -> int:
        node = self.walk(path)
        return node.tree.open(self.ctx, node, flags)

    def read(self, path: bytes) -> bytes:
        with open(self.open(path), "rb") as file:
            return file.read()

    def names(self, path: bytes) -> list[bytes]:
        directory = self.walk(path)
        assert isinstance(directory, Dir)
        return [entry.name for entry in directory.tree.entries(self.ctx, directory, 0)]

    def every_file(self, path: bytes) -> Iterator[tuple[bytes, Node]]:
        """All files and links below `path`, depth first, links not followed."""
        for name in self.names(path):
            below = path + b"/" + name
            try:
                node = self.walk(below, follow=False)
            except FileNotFoundError:
                continue  # /proc/self/fd of this process lists the descriptor that listed it
            if isinstance(node, Dir):
                yield from self.every_file(below)
            else:
                yield below, node


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def child(box: Box) -> Iterator[int]:
    """A sleeping child process of the test; its guest number."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; print(flush=True); signal.pause()"],
                               stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env={"SECRET": "x y"})
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield box.tasks.add(process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


@pytest.fixture
def thread(box: Box) -> Iterator[int]:
    """A waiting thread of the test; its guest number."""
    go, ready = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        go.wait()

    other = threading.Thread(target=wait)
    other.start()
    ready.wait()
    assert other.native_id is not None
    try:
        yield box.tasks.add_thread(other.native_id)
    finally:
        go.set()
        other.join()

"""vfs: what the synthesised trees (proc, dev, sys) share — named nodes with made-up content, and descriptors of it.

Nodes here are built once and kept, so a directory keeps its placeholder. Content is made at open time, by the tree that
owns the file.
"""

from __future__ import annotations

import errno
import os
import stat as st
import time

from husk.vfs.node import ROOT_CONTEXT, Dir, Entry, Node, Stat, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.vfs.node import Context

    Fill = Callable[["SynthDir"], None]

FIRST_COOKIE = 3  # 1 and 2 are "." and ".."
MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_NOEXEC_SEAL = 1, 2, 8
F_ADD_SEALS, F_SEAL_SIZE = 1033, 1 | 2 | 4  # neither size nor seals can change
NOTE_BYTES = 64
SNAPSHOT_LABEL = b"husk-proc:"  # so a snapshot names its file: the host's /proc/PID/fd/N reads /memfd:husk-proc:PATH
_SNAPSHOT_LINK = b"/memfd:" + SNAPSHOT_LABEL
_LABEL_MAX = 249  # memfd_create(2)
_CHUNK, _LARGE_CHUNK = 1 << 13, 1 << 16  # most files are small, and room for a large one costs page faults
_snapshot_devices: list[int] = []  # the device of all memfds, once there is a snapshot


class SynthDir(Dir):
    """A directory whose names are known. `fill` runs at the first look-up inside: most boxes look into few."""

    __slots__ = ("children", "fill", "ino", "mode")

    def __init__(
        self, tree: Tree, parent: Dir | None, name: bytes, ino: int, mode: int = 0o555, fill: Fill | None = None
    ) -> None:
        super().__init__(tree, parent, name)
        self.ino, self.mode, self.fill = ino, mode, fill
        self.children: dict[bytes, Node] = {}


class SynthFile(Node):
    """A read-only regular file. `make` returns its bytes anew for each open, or is the path of a host file to open."""

    __slots__ = ("ino", "make", "mode", "name", "parent")

    is_constant = True

    def __init__(
        self, tree: Tree, parent: Dir, name: bytes, ino: int, make: Callable[[], bytes] | bytes, mode: int
    ) -> None:
        super().__init__(tree, st.S_IFREG)
        self.parent, self.name, self.ino, self.make, self.mode = parent, name, ino, make, mode


class SynthLink(Node):
    """An ordinary symbolic link with fixed text."""

    __slots__ = ("ino", "name", "parent", "target")

    def __init__(self, tree: Tree, parent: Dir, name: bytes, ino: int, target: bytes) -> None:
        super().__init__(tree, st.S_IFLNK)
        self.parent, self.name, self.ino, self.target = parent, name, ino, target


class SynthTree(Tree):
    """A tree of SynthDir, SynthFile and SynthLink, owned by root. Subclasses add nodes and ask here for the rest."""

    stable_modes = True
    is_synthetic = True

    def __init__(self, dev: int, *, mode: int = 0o555, fill: Fill | None = None) -> None:
        """`mode` and `fill` are the root's."""
        self.dev = dev
        self.born = time.time_ns()
        self._last_ino = 0
        self.root = self._top = SynthDir(self, None, b"", self.next_ino(), mode, fill)

    def next_ino(self) -> int:
        self._last_ino += 1
        return self._last_ino

    # -- building ------------------------------------------------------------------------------------------------
    def add_dir(self, parent: SynthDir, name: bytes, mode: int = 0o555, fill: Fill | None = None) -> SynthDir:
        child = SynthDir(self, parent, name, self.next_ino(), mode, fill)
        parent.children[name] = child
        return child

    def add_file(self, parent: SynthDir, name: bytes, make: Callable[[], bytes] | bytes, mode: int = 0o444) -> None:
        parent.children[name] = SynthFile(self, parent, name, self.next_ino(), make, mode)

    def add_link(self, parent: SynthDir, name: bytes, target: bytes) -> None:
        parent.children[name] = SynthLink(self, parent, name, self.next_ino(), target)

    def children(self, directory: SynthDir) -> dict[bytes, Node]:
        fill = directory.fill
        if fill is not None:
            # Cleared last: a second thread that arrives meanwhile fills again with the same names, and never sees half.
            fill(directory)
            directory.fill = None
        return directory.children

    # -- the interface of a tree ---------------------------------------------------------------------------------
    def lookup(self, ctx: Context, directory: Dir, name: bytes) -> Node:
        if isinstance(directory, SynthDir):
            child = self.children(directory).get(name)
            if child is not None:
                return child
        raise OSError(errno.ENOENT, "no such name")

    def entries(self, ctx: Context, directory: Dir, after: int) -> Iterable[Entry]:
        if not isinstance(directory, SynthDir):
            return []
        found = []
        for cookie, (name, child) in enumerate(list(self.children(directory).items()), FIRST_COOKIE):
            if cookie > after:
                found.append(Entry(name, self.ino_of(child), child.kind, cookie))
        return found

    def ino_of(self, node: Node) -> int:
        if isinstance(node, (SynthDir, SynthFile, SynthLink)):
            return node.ino
        return 0

    def stat(self, ctx: Context, node: Node) -> Stat:
        if isinstance(node, SynthDir):
            below = sum(1 for child in self.children(node).values() if child.kind == st.S_IFDIR)
            return self.made_stat(node.ino, st.S_IFDIR | node.mode, nlink=2 + below)
        if isinstance(node, SynthFile):
            return self.made_stat(node.ino, st.S_IFREG | node.mode)
        if isinstance(node, SynthLink):
            return self.made_stat(node.ino, st.S_IFLNK | 0o777, size=len(node.target))
        raise OSError(errno.EIO, "not a node of this tree")

    def made_stat(
        self,
        ino: int,
        mode: int,
        *,
        nlink: int = 1,
        uid: int = 0,
        gid: int = 0,
        rdev: int = 0,
        size: int = 0,
        when: int = 0,
    ) -> Stat:
        when = when or self.born
        return Stat(self.dev, ino, mode, nlink, uid, gid, rdev, size, 1024, 0, when, when, when)

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        place = self.name_of(node)
        if place is None:
            raise OSError(errno.EACCES, "cannot be opened")
        if flags & os.O_PATH:
            return snapshot(path_of(*place), b"", flags)  # also for a link: the label alone names the node
        if not isinstance(node, SynthFile):
            raise OSError(errno.ELOOP, "a symbolic link")
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EACCES, "read-only file")
        if isinstance(node.make, bytes):
            return os.open(node.make, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | flags & os.O_NONBLOCK)
        return snapshot(path_of(*place), node.make(), flags)

    def readlink(self, ctx: Context, node: Node) -> bytes:
        if isinstance(node, SynthLink):
            return node.target
        raise OSError(errno.EINVAL, "not a symbolic link")

    def lasting_stat(self, node: Node, info: Stat) -> int | None:
        return 0 if isinstance(node, SynthFile) else None

    # -- from a descriptor back to its node ----------------------------------------------------------------------
    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        if isinstance(node, (SynthFile, SynthLink)):
            return node.parent, node.name
        return None

    def node_of_host(self, path: bytes, dev: int, ino: int, via: bytes) -> Node | None:
        """A snapshot carries its name. A guest can give a memfd the same label, and gains nothing that way."""
        if not path.startswith(_SNAPSHOT_LINK):
            return None
        top = path_of(self.root).rstrip(b"/") + b"/"
        name = path[len(_SNAPSHOT_LINK) :].removesuffix(b" (deleted)")
        return self.node_at(name[len(top) :]) if name.startswith(top) else None

    def node_at(self, path: bytes) -> Node | None:
        """The node at a path below the root, no link followed; None where there is none."""
        here: Node = self.root
        for name in path.split(b"/"):
            try:
                if not isinstance(here, Dir):
                    return None
                here = self.lookup(ROOT_CONTEXT, here, name)
            except OSError:
                return None
        return here


def path_of(directory: Dir, name: bytes = b"") -> bytes:
    """The absolute guest path of `name` in `directory`, climbing across mount points."""
    parts = [name] if name else []
    here: Dir | None = directory
    while here is not None:
        if here.parent is None:
            here = here.covers  # None at the very top
        else:
            parts.append(here.name)
            here = here.parent
    return b"/" + b"/".join(reversed(parts))


def path_from(root: Dir, path: bytes) -> bytes | None:
    """What an absolute guest path is below another root; None: it lies outside."""
    top = path_of(root).rstrip(b"/")
    if path == top:
        return b"/"
    return path[len(top) :] if path.startswith(top + b"/") else None


def snapshot(path: bytes, content: bytes, flags: int = os.O_RDONLY, *, access: int = os.O_RDONLY) -> int:
    """A descriptor, at position 0, of a private copy of `content` that carries `path` in its label. It is read-only
    unless `access` says otherwise.

    Reading a descriptor is native, so husk is not asked again: a program that keeps /proc/stat open and rewinds it sees
    the same numbers. What is written changes that copy alone. The first descriptor never leaves this function.
    """
    label = (SNAPSHOT_LABEL + path)[:_LABEL_MAX]
    try:
        maker = os.memfd_create(label, MFD_CLOEXEC | MFD_NOEXEC_SEAL)  # type: ignore[arg-type]  # bytes work too
    except OSError:
        maker = os.memfd_create(label, MFD_CLOEXEC)  # type: ignore[arg-type]  # before Linux 6.3
    try:
        if not _snapshot_devices:
            _snapshot_devices.append(os.fstat(maker).st_dev)
        done = 0
        while done < len(content):
            done += os.write(maker, content[done:] if done else content)
        keep = flags & (os.O_PATH | os.O_NONBLOCK)
        return os.open(b"/proc/self/fd/%d" % maker, access | os.O_CLOEXEC | keep)
    finally:
        os.close(maker)


def is_snapshot(link: bytes, dev: int) -> bool:
    """Is an open file of this name and device a snapshot, or a memfd that a guest labelled like one? No directory of
    the host shows it, whatever its path is."""
    return link.startswith(_SNAPSHOT_LINK) and dev in _snapshot_devices


def leads_back(path: bytes, dev: int) -> bool:
    """Is a file of this device, opened by this path, a snapshot whose label has room for the path? Else nothing leads
    from it back to the node."""
    return dev in _snapshot_devices and len(SNAPSHOT_LABEL) + len(path) <= _LABEL_MAX


def note(path: bytes, flags: int) -> int:
    """A descriptor for writing a few bytes, which husk may keep a copy of: nothing else can be written there."""
    label = (SNAPSHOT_LABEL + path)[:_LABEL_MAX]
    import fcntl  # here, not above: few programs write there, and starting must be quick

    maker = os.memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING)  # type: ignore[arg-type]  # bytes work too
    try:
        os.ftruncate(maker, NOTE_BYTES)
        fcntl.fcntl(maker, F_ADD_SEALS, F_SEAL_SIZE)
        return os.open(b"/proc/self/fd/%d" % maker, os.O_WRONLY | os.O_CLOEXEC | flags & os.O_NONBLOCK)
    finally:
        os.close(maker)


def read_host(path: bytes, dir_fd: int | None = None) -> bytes:
    """All of a host file that has no size of its own (proc, sys). For fixed names: a guest never chooses `path`."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        parts: list[bytes] = []
        while chunk := os.read(fd, _CHUNK if len(parts) < 4 else _LARGE_CHUNK):
            parts.append(chunk)
        return b"".join(parts)
    finally:
        os.close(fd)

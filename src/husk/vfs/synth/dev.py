"""vfs: /dev — the few devices every program expects, opened on the host, and mount points.

Only devices that reveal nothing and change nothing are here, and those that the box was given; no guest can add one.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.vfs.node import Node, Stat
from husk.vfs.synth.pts import KEPT_FLAGS, PTMX
from husk.vfs.synth.synth_tree import SynthDir, SynthTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Context, Dir, Tree
    from husk.vfs.synth.pts import PtsTree

# name -> (major, minor), the same on every Linux. These names are also the host's: /dev/NAME is what gets opened.
_HARMLESS = {
    b"full": (1, 7),
    b"null": (1, 3),
    b"random": (1, 8),
    b"urandom": (1, 9),
    b"zero": (1, 5),
}
_LINKS = {
    b"fd": b"/proc/self/fd",
    b"stdin": b"/proc/self/fd/0",
    b"stdout": b"/proc/self/fd/1",
    b"stderr": b"/proc/self/fd/2",
}
_MOUNT_POINTS = {b"mqueue": 0o1777, b"pts": 0o755, b"shm": 0o1777}


class Device(Node):
    """A character device."""

    __slots__ = ("ino", "name", "parent", "rdev")

    is_constant = True

    def __init__(self, tree: Tree, parent: Dir, name: bytes, ino: int, rdev: int) -> None:
        super().__init__(tree, st.S_IFCHR)
        self.parent, self.name, self.ino, self.rdev = parent, name, ino, rdev


class PassedDevice(Device):
    """A device of the host that the box was given. `host` is its path there."""

    __slots__ = ("host",)

    def __init__(self, tree: Tree, parent: Dir, name: bytes, ino: int, rdev: int, host: bytes) -> None:
        super().__init__(tree, parent, name, ino, rdev)
        self.host = host


class DevTree(SynthTree):
    """`terminals` is what tty and ptmx lead to: the box's own, never husk's."""

    fstype = b"devtmpfs"
    read_only = False  # writing to a device is no change of the tree

    def __init__(self, terminals: PtsTree, *, dev: int) -> None:
        super().__init__(dev, mode=0o755)
        self._terminals = terminals
        for name, numbers in (*_HARMLESS.items(), (b"tty", (5, 0)), (b"ptmx", PTMX)):
            device = Device(self, self._top, name, self.next_ino(), os.makedev(*numbers))
            self._top.children[name] = device
        for name, target in _LINKS.items():
            self.add_link(self._top, name, target)
        for name, mode in _MOUNT_POINTS.items():
            self.add_dir(self._top, name, mode)

    def add_device(self, path: bytes, host: bytes, rdev: int) -> None:
        """Show a device of the host at a path below /dev, at most one directory deep."""
        folder, _, name = path.rpartition(b"/")
        parent = self._top
        if folder:
            there = parent.children.get(folder)
            parent = there if isinstance(there, SynthDir) else self.add_dir(parent, folder, 0o755)
        parent.children[name] = PassedDevice(self, parent, name, self.next_ino(), rdev, host)

    def statfs_path(self) -> bytes:
        return b"/dev"

    def ino_of(self, node: Node) -> int:
        return node.ino if isinstance(node, Device) else super().ino_of(node)

    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        return (node.parent, node.name) if isinstance(node, Device) else super().name_of(node)

    def stat(self, ctx: Context, node: Node) -> Stat:
        if isinstance(node, Device):
            return self.made_stat(node.ino, st.S_IFCHR | 0o666, rdev=node.rdev)
        return super().stat(ctx, node)

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        if not isinstance(node, Device) or flags & os.O_PATH:
            return super().open(ctx, node, flags)
        if node.name == b"ptmx":
            return self._terminals.make(flags)
        if node.name == b"tty":
            return self._terminals.open(ctx, self._terminals.controlling(ctx.tid), flags)
        host = node.host if isinstance(node, PassedDevice) else b"/dev/" + node.name
        kept = flags & KEPT_FLAGS | os.O_CLOEXEC | os.O_NOCTTY
        if flags & os.O_NOFOLLOW:
            fd = os.open(host, kept | os.O_NOFOLLOW)
        else:  # the guest would see that flag (F_GETFL)
            pin = os.open(host, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fd = os.open(b"/proc/self/fd/%d" % pin, kept)
            finally:
                os.close(pin)
        opened = os.fstat(fd)
        # A host /dev made by hand may hold anything under these names.
        if not st.S_ISCHR(opened.st_mode) or opened.st_rdev != node.rdev:
            os.close(fd)
            raise OSError(errno.ENXIO, "the host's device is not what its name says")
        return fd

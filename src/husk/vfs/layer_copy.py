"""vfs: making a lower file the guest's own — first its metadata, then, when it is written to, its content."""

from __future__ import annotations

import errno
import os
import stat as st
import time
from fcntl import ioctl

from husk.native._core import open_beneath, stat_beneath, stat_fd
from husk.vfs.hostfile import read_link
from husk.vfs.layer_nodes import Inode, LayerDir, Lower, LowerNode, Orphan
from husk.vfs.node import Context, Credentials, Tree, error
from husk.vfs.pinned import Pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.native._core import HostStat
    from husk.vfs.node import Dir, Node
    from husk.vfs.state import State

FICLONE = 0x40049409
# The host stamps files with its coarse clock. A finer one here would make directories look newer than files made
# after them.
CLOCK_REALTIME_COARSE = 5
CHUNK = 1 << 30
NOBODY = Context(Credentials(-1, -1))  # looking up takes no rights in these trees


def now() -> int:
    return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)


def copy_content(source: int, target: int) -> None:
    """Share the blocks where the file system can, else let the kernel copy, else copy."""
    try:
        ioctl(target, FICLONE, source)
        return
    except OSError:
        pass
    try:
        while os.copy_file_range(source, target, CHUNK):
            pass
        return
    except OSError as failure:
        # Where it is not offered between these two file systems it fails on the first byte; anything else is real.
        if failure.errno not in (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF):
            raise
    while chunk := os.read(source, 1 << 20):
        view = memoryview(chunk)
        while view:
            view = view[os.write(target, view) :]


class CopyUp(Tree):
    """The part of a layered tree that turns lower nodes into inodes and inodes into real files."""

    def __init__(self, state: State, dev: int) -> None:
        self.state, self.dev = state, dev
        self.on_change: Callable[[Dir, bool], None] = lambda directory, structural: None
        self.inodes: dict[tuple[int, int], Inode] = {}  # lower identity -> the inode that took its place
        self._devices: dict[int, int] = {}
        self.links_touched = False  # a hard-linked lower file was changed: its other names no longer show the host's

    def held(self, inode: Inode) -> Pinned:
        """The open file of an inode without a name, by a path of our own."""
        return Pinned(inode.via, lambda link, found: self.state.node_of(link, found.st_ino) is inode)

    def number_of(self, info: HostStat) -> int:
        """The inode number shown for a lower file: the host's, unless a second host device or a huge number could
        collide."""
        index = self._devices.get(info[0])
        if index is None:
            index = self._devices[info[0]] = len(self._devices)
        ino = info[1]
        if index == 0 and ino < 1 << 32:
            return ino
        return (ino & ((1 << 47) - 1)) | ((index + 1) << 47)

    def first_device(self, host_dev: int) -> bool:
        """Are this device's inode numbers shown as they are?"""
        return self._devices.setdefault(host_dev, len(self._devices)) == 0

    def own_dir(self, directory: LayerDir) -> None:
        """Take over a lower directory's metadata, because it is about to differ."""
        lower = directory.lower
        if directory.own or lower is None:
            return
        info = stat_beneath(lower.fd, directory.rel)
        directory.mode = info[2]
        directory.uid, directory.gid = lower.uids.get(info[4], info[4]), lower.gids.get(info[5], info[5])
        directory.atime, directory.mtime, directory.ctime = info[10], info[11], info[12]
        directory.own = True

    def own_node(self, node: LowerNode) -> Inode:
        """The inode that takes a lower node's place, under the same name and number. The content stays where it is."""
        info = node.info or stat_beneath(node.lower.fd, node.rel)
        self.links_touched |= info[3] > 1
        self.on_change(node.parent, info[3] > 1)  # other names of a hard-linked file change with it
        inode = self._inherit(node.lower, node.rel, info)
        node.parent.names[node.name] = inode
        inode.add_name(node.parent, node.name)
        return inode

    def _inherit(self, lower: Lower, rel: bytes, info: HostStat) -> Inode:
        key = info[0], info[1]
        uid, gid = lower.uids.get(info[4], info[4]), lower.gids.get(info[5], info[5])
        inode = Inode(self, self.number_of(info), info[2], uid, gid, 0)
        inode.atime, inode.mtime, inode.ctime = info[10], info[11], info[12]
        inode.nlink = info[3]
        inode.key = key
        inode.source = lower, rel
        if inode.kind == st.S_IFLNK:
            inode.target = read_link(lower.fd, rel)
            inode.source = None
        self.inodes[key] = inode
        return inode

    def own_content(self, inode: Inode, *, empty: bool) -> None:
        """Give an inode that still reads lower content a real file."""
        if inode.source is None:
            return
        if inode.parent is not None:
            self.on_change(inode.parent, inode.nlink > 1)
        lower, rel = inode.source
        number = self.state.new_number()
        name = b"%d" % number
        target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.state.files_fd)
        try:
            if not empty:
                source = open_beneath(lower.fd, rel, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    if not st.S_ISREG(stat_fd(source)[2]):
                        raise error(errno.EIO)
                    copy_content(source, target)
                finally:
                    os.close(source)
            os.utime(target, ns=(inode.atime, inode.mtime))
            inode.host_ctime = stat_fd(target)[12]
        except BaseException:
            os.unlink(name, dir_fd=self.state.files_fd)
            raise
        finally:
            os.close(target)
        inode.source = None
        inode.number = number
        self.state.keep(number, inode)

    def owned(self, node: Node) -> Inode:
        """`node` as an inode whose metadata can be changed."""
        if isinstance(node, Inode):
            return node
        if isinstance(node, LowerNode):
            return self.own_node(node)
        if isinstance(node, Orphan) and node.source is not None and node.last is not None:
            inode = self._inherit(*node.source, node.last)
            inode.nlink = 0
            return inode
        raise error(errno.EROFS)  # the host took the file away: there is nothing left to copy from

"""vfs: making a lower file the guest's own — first its metadata, then, when it is written to, its content."""

from __future__ import annotations

import errno
import os
import stat as st
import time

from husk.native._core import stat_beneath
from husk.vfs.layer.content_copy import LARGE, Copy, CopyDue, copy_content
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode, Orphan
from husk.vfs.node import Context, Credentials, Tree, error
from husk.vfs.pinned import Pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.native._core import HostStat
    from husk.vfs.layer.lower import Lower
    from husk.vfs.node import Dir, Node
    from husk.vfs.state import State

# The host stamps files with its coarse clock. A finer one here would make directories look newer than files made
# after them.
CLOCK_REALTIME_COARSE = 5
NOBODY = Context(Credentials(-1, -1))  # looking up takes no rights in these trees


def now() -> int:
    return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)


class CopyUp(Tree):
    """The part of a layered tree that turns lower nodes into inodes and inodes into real files."""

    def __init__(self, state: State, dev: int) -> None:
        self.state, self.dev = state, dev
        self.on_change: Callable[[Dir, bool], None] = lambda directory, structural: None
        self.inodes: dict[tuple[int, int], Inode] = {}  # lower identity -> the inode that took its place
        self._devices: dict[int, int] = {}
        self.copies: dict[Inode, Copy] = {}  # on their way
        self.watched = False  # some directory here is real: look before you use a file's number
        self.kept: dict[int, int] = {}  # inode number -> file that stands for a node without one in real directories
        self.twins: dict[tuple[int, int], tuple[Lower, bytes]] = {}  # of `inodes`, those whose file had several names
        self.links_touched = False  # a hard-linked lower file was changed: its other names no longer show the host's

    def held(self, inode: Inode) -> Pinned:
        """The open file of an inode without a name, by a path of our own."""
        return Pinned(inode.via, lambda link, found: self.state.node_of(link, found.st_ino) is inode)

    def home(self, inode: Inode) -> bytes:
        """Where the real file of an inode lies, beneath the state's descriptor."""
        if self.watched and inode.kind != st.S_IFLNK:
            for directory, name in inode.all_names():
                if directory.real is not None and name in directory.real.names:
                    return directory.real.entry(name)
        return b"files/%d" % inode.number

    def number_of(self, dev: int, ino: int) -> int:
        """The inode number shown for a lower file: the host's, unless a second host device or a huge number could
        collide."""
        index = self._devices.get(dev)
        if index is None:
            index = self._devices[dev] = len(self._devices)
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
        info = lower.stat(directory.rel)
        lower.saw(directory.rel, info)
        directory.mode = info.mode
        directory.uid, directory.gid = lower.uids.get(info.uid, info.uid), lower.gids.get(info.gid, info.gid)
        directory.atime, directory.mtime, directory.ctime = info.atime, info.mtime, info.ctime
        directory.xattrs = lower.xattrs(directory.rel) or None
        directory.own = True

    def own_node(self, node: LowerNode) -> Inode:
        """The inode that takes a lower node's place, under the same name and number. The content stays where it is."""
        info = node.info or node.lower.stat(node.rel)
        if (info.dev, info.ino) != node.key:
            # What was judged is not there any more: another's file must not become the guest's by a change of its mode.
            raise error(errno.ESTALE)
        self.links_touched |= info.nlink > 1
        self.on_change(node.parent, info.nlink > 1)  # other names of a hard-linked file change with it
        inode = self._inherit(node.lower, node.rel, info)
        node.parent.names[node.name] = inode
        inode.add_name(node.parent, node.name)
        return inode

    def _inherit(self, lower: Lower, rel: bytes, info: HostStat) -> Inode:
        key = info.dev, info.ino
        lower.saw(rel, info)
        uid, gid = lower.uids.get(info.uid, info.uid), lower.gids.get(info.gid, info.gid)
        inode = Inode(self, self.number_of(info.dev, info.ino), info.mode, uid, gid, 0)
        inode.atime, inode.mtime, inode.ctime = info.atime, info.mtime, info.ctime
        inode.nlink = info.nlink
        inode.key = key
        inode.source = lower, rel
        inode.xattrs = lower.xattrs(rel) or None
        if inode.kind == st.S_IFLNK:
            inode.target = lower.read_link(rel)
            inode.source = None
        self.inodes[key] = inode
        if info.nlink > 1:
            self.twins[key] = lower, rel
        return inode

    def own_content(self, inode: Inode, *, empty: bool) -> None:
        """Give an inode that still reads lower content a real file; CopyDue where that would take long. Nobody who
        watches may notice: it is written by a name that nobody watches."""
        if inode.source is None:
            return
        if inode.parent is not None:
            self.on_change(inode.parent, inode.nlink > 1)
        copy = None if empty or inode.kind != st.S_IFREG else self._large_copy(inode)
        if inode.kind == st.S_IFIFO:
            # Who meets at a FIFO of the box are guests; a host process that waits at the lower one is none.
            number = self.kept.get(inode.ino, 0)  # what stands for a FIFO is one
            if not number:
                number = self.state.new_number()
                os.mknod(b"%d" % number, st.S_IFIFO | 0o600, dir_fd=self.state.files_fd)
        elif copy is None:
            number = self._small_copy(inode, empty)
        else:
            number, copy.attached = copy.number, True
        name = b"%d" % number
        os.utime(name, ns=(inode.atime, inode.mtime), dir_fd=self.state.files_fd)
        # Nobody has written yet, so set-uid and set-gid still hold.
        made = stat_beneath(self.state.files_fd, name)
        inode.plain_mtime, inode.host_ctime = made.mtime, made.ctime
        inode.source = None
        inode.number = number
        self.state.keep(number, inode)
        if self.kept.get(inode.ino) == number:
            self.state.count(-1)
            del self.kept[inode.ino]
            if self.home(inode) != b"files/" + name:
                os.unlink(name, dir_fd=self.state.files_fd)

    def _large_copy(self, inode: Inode) -> Copy | None:
        """The copy made for `inode`, or None where it is so small that it can be made now."""
        copy = self.copies.get(inode)
        if copy is None:
            assert inode.source is not None
            if inode.source[0].stat(inode.source[1]).size < LARGE:
                return None
            copy = self.copies[inode] = Copy(
                self.state, inode, inode.source[0].content(inode.source[1], inode.key), self.kept
            )
        if not copy.done:
            raise CopyDue(copy, self.copies)
        # Where the inode got a stand-in only while the copy was made, that is where the content belongs.
        return copy if self.kept.get(inode.ino, copy.number) == copy.number else None

    def _small_copy(self, inode: Inode, empty: bool) -> int:
        assert inode.source is not None
        kept = self.kept.get(inode.ino)
        number = kept or self.state.new_number()
        name = b"%d" % number
        fresh = os.O_TRUNC if kept else os.O_CREAT | os.O_EXCL
        target = os.open(name, os.O_WRONLY | fresh | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self.state.files_fd)
        try:
            if not empty:
                source = inode.source[0].content(inode.source[1], inode.key)
                try:
                    copy_content(source, target, self.state)
                finally:
                    os.close(source)
        except BaseException:
            if not kept:
                os.unlink(name, dir_fd=self.state.files_fd)
            raise
        finally:
            os.close(target)
        return number

    def owned(self, node: Node) -> Inode:
        """`node` as an inode whose metadata can be changed."""
        if isinstance(node, Inode):
            return node
        if isinstance(node, LowerNode):
            return self.own_node(node)
        if isinstance(node, Orphan) and node.key in self.inodes:
            return self.inodes[node.key]  # a call that had to wait for a copy comes this way twice
        if isinstance(node, Orphan) and node.source is not None and node.last is not None:
            inode = self._inherit(*node.source, node.last)
            inode.nlink = 0
            return inode
        raise error(errno.EROFS)  # the host took the file away: there is nothing left to copy from

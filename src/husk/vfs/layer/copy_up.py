"""vfs: copy-up — a lower file gets an upper inode at the first change, and a real file when its content changes."""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import stat_beneath
from husk.vfs.layer.content_copy import LARGE, Copy, CopyDue, copy_content
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode
from husk.vfs.node import error
from husk.vfs.pinned import Orphan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import HostStat
    from husk.vfs.layer.inode_numbers import InodeNumbers
    from husk.vfs.layer.lower import Lower
    from husk.vfs.layer.upper_files import UpperFiles
    from husk.vfs.node import Node, Tree


class CopyUp:
    """Copies lower nodes of one tree up: metadata into an `Inode` or the directory itself, content into a real file.

    `inodes` knows the inode that replaced a lower file, by that file's identity. `twins` are those of them whose lower
    file had several names, with one of these names. `hard_links_changed`: such a file was changed, so its other names
    no longer show what the host has.
    """

    __slots__ = (
        "_announce",
        "_files",
        "_numbers",
        "_state",
        "_tree",
        "copies",
        "hard_links_changed",
        "inodes",
        "origins",
        "twins",
    )

    def __init__(self, tree: Tree, files: UpperFiles, numbers: InodeNumbers) -> None:
        self._tree, self._files, self._numbers, self._state = tree, files, numbers, files.state
        self._announce = files.state.invalidation.announce
        self.copies: dict[Inode, Copy] = {}  # large ones, under way
        self.inodes: dict[tuple[int, int], Inode] = {}
        self.origins: dict[Inode, HostStat] = {}  # of files that were copied for watchers only
        self.twins: dict[tuple[int, int], tuple[Lower, bytes]] = {}
        self.hard_links_changed = False

    def directory(self, directory: LayerDir, info: HostStat | None = None) -> None:
        """Take over a lower directory's metadata, because it is about to differ. `info`: what the host said of it."""
        lower = directory.lower
        if directory.copied_up or lower is None:
            return
        info = info or lower.stat(directory.rel)
        lower.record(directory.rel, info)
        directory.mode = info.mode
        directory.uid, directory.gid = lower.shown_owner(info)
        directory.atime, directory.mtime, directory.ctime = info.atime, info.mtime, info.ctime
        directory.xattrs = lower.xattrs(directory.rel) or None
        directory.copied_up = True

    def inode(self, node: Node) -> Inode:
        """The upper inode of `node`, whose metadata can be changed."""
        if isinstance(node, Inode):
            return node
        if isinstance(node, LowerNode):
            return self.lower_node(node)
        if isinstance(node, Orphan) and node.key in self.inodes:
            return self.inodes[node.key]  # a call that had to wait for a copy comes this way twice
        if isinstance(node, Orphan) and node.source is not None and node.last is not None:
            inode = self.new_inode(*node.source, node.last)
            inode.nlink = 0
            return inode
        raise error(errno.EROFS)  # the host removed the file: there is nothing left to copy from

    def lower_node(self, node: LowerNode) -> Inode:
        """The inode that replaces a lower node under the same name and number. The content stays where it is."""
        info = node.info or node.lower.stat(node.rel)
        if (info.dev, info.ino) != node.key:
            # A host process replaced the file after the permission check. The new file may belong to another user, so
            # a change of its mode must not make it the guest's.
            raise error(errno.ESTALE)
        self.hard_links_changed |= info.nlink > 1
        self._announce(node.parent, info.nlink > 1)  # other names of a hard-linked file change with it
        inode = self.new_inode(node.lower, node.rel, info)
        node.parent.names[node.name] = inode
        inode.add_name(node.parent, node.name)
        return inode

    def new_inode(self, lower: Lower, rel: bytes, info: HostStat) -> Inode:
        """An inode with the metadata of a lower file, and no name yet."""
        key = info.dev, info.ino
        lower.record(rel, info)
        inode = Inode(self._tree, self._numbers.shown(info.dev, info.ino), info.mode, *lower.shown_owner(info), 0)
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

    def adopt(self, inode: Inode, lower: Lower, rel: bytes, info: HostStat) -> None:
        """`inode`, of an earlier run, shows the content of a lower file."""
        inode.source, inode.key = (lower, rel), (info.dev, info.ino)
        self.inodes[inode.key] = inode

    def replace_hard_linked(self, inode: Inode, lower: Lower, rel: bytes, info: HostStat) -> None:
        """`inode`, of an earlier run, replaces a lower file under each of its names."""
        key = info.dev, info.ino
        self.inodes[key] = inode
        self.twins[key] = lower, rel
        self.hard_links_changed = True

    def content(self, inode: Inode, *, empty: bool) -> None:
        """Give an inode that still reads lower content a real file; CopyDue where copying would take long.

        A watcher must not notice, so the content is written through a name that is not watched.
        """
        if inode.source is None:
            inode.origin = None  # if the content was copied for watchers only, it is the guest's from now on
            return
        if inode.parent is not None:
            self._announce(inode.parent, inode.nlink > 1)
        copy = None if empty or inode.kind != st.S_IFREG else self._large_copy(inode)
        stand_ins = self._files.stand_ins
        if inode.kind == st.S_IFIFO:
            # Guests meet at a FIFO of the box. A host process that waits at the lower one is not part of the box.
            number = stand_ins.get(inode.ino, 0)  # the stand-in of a FIFO is one
            if not number:
                number = self._state.new_number()
                os.mknod(b"%d" % number, st.S_IFIFO | 0o600, dir_fd=self._state.files_fd)
        elif copy is None:
            number = self._small_copy(inode, empty)
        else:
            number, copy.attached = copy.number, True
        name = b"%d" % number
        os.utime(name, ns=(inode.atime, inode.mtime), dir_fd=self._state.files_fd)
        # The guest has not written yet, so set-uid and set-gid still hold.
        made = stat_beneath(self._state.files_fd, name)
        inode.plain_mtime, inode.host_ctime = made.mtime, made.ctime
        inode.source = None
        inode.number = number
        self._state.keep(number, inode)
        if stand_ins.get(inode.ino) == number:
            self._state.count(-1)
            del stand_ins[inode.ino]
            if self._files.path(inode) != b"files/" + name:
                os.unlink(name, dir_fd=self._state.files_fd)

    def content_for_watchers(self, inode: Inode) -> None:
        """Copy the content up only because the file is watched: it still counts as unchanged."""
        source = inode.source
        if source is None:
            return  # as it is
        seen = source[0].stat(source[1])
        self.content(inode, empty=False)
        inode.origin = source
        self.origins[inode] = seen

    def _large_copy(self, inode: Inode) -> Copy | None:
        """The copy made for `inode`; None where the file is so small that it can be copied now."""
        copy = self.copies.get(inode)
        stand_ins = self._files.stand_ins
        if copy is None:
            assert inode.source is not None
            lower, rel = inode.source
            if lower.stat(rel).size < LARGE:
                return None
            copy = self.copies[inode] = Copy(self._state, inode, lower.content(rel, inode.key), stand_ins)
        if not copy.done:
            raise CopyDue(copy, self.copies)
        # Where the inode got a stand-in only while the copy was made, the content belongs into the stand-in.
        return copy if stand_ins.get(inode.ino, copy.number) == copy.number else None

    def _small_copy(self, inode: Inode, empty: bool) -> int:
        assert inode.source is not None
        stand_in = self._files.stand_ins.get(inode.ino)
        number = stand_in or self._state.new_number()
        name = b"%d" % number
        fresh = os.O_TRUNC if stand_in else os.O_CREAT | os.O_EXCL
        target = os.open(name, os.O_WRONLY | fresh | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._state.files_fd)
        try:
            if not empty:
                source = inode.source[0].content(inode.source[1], inode.key)
                try:
                    copy_content(source, target, self._state)
                finally:
                    os.close(source)
        except BaseException:
            if not stand_in:
                os.unlink(name, dir_fd=self._state.files_fd)
            raise
        finally:
            os.close(target)
        return number

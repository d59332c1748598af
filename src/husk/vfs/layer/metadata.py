"""vfs: metadata of upper nodes in a layered tree — stat, mode, owner, times, size, extended attributes."""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import set_times
from husk.vfs.clock import about_now, now
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode, attribute_bytes, weight
from husk.vfs.node import ACL_ACCESS, Stat, error
from husk.vfs.permissions import without_privilege

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.layer.copy_up import CopyUp
    from husk.vfs.layer.upper_files import UpperFiles
    from husk.vfs.node import Context, Node

XATTR_CREATE, XATTR_REPLACE = 1, 2
XATTRS_MAX = 1 << 16  # bytes of all attributes of one node
PRIVILEGE = st.S_ISUID | st.S_ISGID
DAY = 24 * 3600 * 10**9
TIMED_BY_HOST = (st.S_IFREG, st.S_IFIFO)  # a write, which husk does not see, changes their time stamps


class Metadata:
    """Mode, owner and link count live in the inode; size, blocks and content times in the real file."""

    __slots__ = ("_announce", "_boxed", "_copy_up", "_dev", "_files", "_state")

    def __init__(self, dev: int, files: UpperFiles, copy_up: CopyUp, *, boxed: bool) -> None:
        self._boxed = boxed
        self._dev, self._files, self._copy_up, self._state = dev, files, copy_up, files.state
        self._announce = files.state.invalidation.announce

    def inode_stat(self, node: Inode) -> Stat:
        size, blksize, blocks = len(node.target), 4096, 0
        atime, mtime, ctime = node.atime, node.mtime, node.ctime
        if node.kind in TIMED_BY_HOST:
            info = self._files.stat(node)
            size, blksize, blocks = info.size, info.blksize, info.blocks
            if node.source is None:
                atime, mtime = info.atime, info.mtime
                # The host's change time changes with writes, and with husk's own set-up, which does not count.
                if info.ctime != node.host_ctime:
                    ctime = max(ctime, info.ctime)
                if node.mode & PRIVILEGE and node.kind == st.S_IFREG and node.plain_mtime != mtime:
                    node.mode = without_privilege(node.mode, in_group=True)
        return Stat(
            self._dev,
            node.ino,
            node.mode,
            node.nlink,
            node.uid,
            node.gid,
            0,
            size,
            blksize,
            blocks,
            atime,
            mtime,
            ctime,
            node.btime,
            boxed=self._boxed and (node.source is None or not node.source[0].is_host),
            acl=node.xattrs.get(ACL_ACCESS) if node.xattrs else None,
        )

    def set_mode(self, node: Node, mode: int) -> None:
        target = self._changeable(node)
        target.mode = st.S_IFMT(target.mode) | mode & 0o7777
        if isinstance(target, Inode) and mode & PRIVILEGE and target.kind == st.S_IFREG:
            target.plain_mtime = self._files.stat(target).mtime
        if target.xattrs and ACL_ACCESS in target.xattrs:
            from husk.vfs.access.posix_acl import with_mode

            target.xattrs[ACL_ACCESS] = with_mode(target.xattrs[ACL_ACCESS], mode)
        self._changed(target)

    def set_owner(self, node: Node, uid: int, gid: int) -> None:
        target = self._changeable(node)
        if uid != -1:
            target.uid = uid
        if gid != -1:
            target.gid = gid
        self._changed(target)

    def drop_privilege(self, ctx: Context, node: Inode) -> None:
        node.mode = without_privilege(node.mode, node.gid in ctx.creds.groups)

    def set_times(self, node: Node, atime: int | None, mtime: int | None) -> None:
        target = self._changeable(node)
        told = isinstance(target, Inode) and target.kind in TIMED_BY_HOST and target.source is None
        if isinstance(target, Inode) and told:
            info = self._files.stat(target)
            if target.mode & PRIVILEGE and target.plain_mtime == info.mtime and mtime is not None:
                target.plain_mtime = mtime
            try:
                set_times(self._state.fd, self._files.path(target), atime, mtime, False)
            except FileNotFoundError:
                if target.via:
                    with self._files.pinned(target) as path:
                        set_times(-1, path, atime, mtime, True)
        if atime is not None:
            target.atime = atime
        if mtime is not None:
            target.mtime = mtime
        if self._files.mirrored and isinstance(target, LayerDir) and (entry := self._state.mirror_path(target)):
            set_times(self._state.fd, entry, atime, mtime, False)
            told = True
        self._changed(target, told=told)

    def accessed(self, node: Inode | LayerDir) -> None:
        """A link was followed or a directory listed, which only husk knows of. The rule is relatime's: the access time
        changes once after each change, and once a day."""
        if node.mtime < node.atime > node.ctime and about_now() - node.atime < DAY:
            return
        directory = node if isinstance(node, LayerDir) else node.parent
        if directory is not None:
            self._announce(directory, False)
        node.atime = now()

    def truncate(self, ctx: Context, node: Node, size: int) -> None:
        inode = self._copy_up.inode(node)
        self._copy_up.content(inode, empty=size == 0)
        if self._files.is_open_only(inode):
            with self._files.pinned(inode) as path:
                os.truncate(path, size)
        else:
            os.truncate(b"/proc/self/fd/%d/%s" % (self._state.fd, self._files.path(inode)), size)
        self.drop_privilege(ctx, inode)

    def _changeable(self, node: Node) -> Inode | LayerDir:
        if isinstance(node, LayerDir):
            self._announce(node, False)
            self._copy_up.directory(node)
            return node
        inode = self._copy_up.inode(node)
        if inode.parent is not None:
            self._announce(inode.parent, False)
        return inode

    def _changed(self, node: Inode | LayerDir, *, told: bool = False) -> None:
        """`told`: the host file was changed too, so watchers know."""
        node.ctime = now()
        if self._files.mirrored and not told:
            self._tell_watchers(node)

    def _tell_watchers(self, node: Inode | LayerDir) -> None:
        """A watcher hears of a changed attribute if the host changes one of the mirror's entry."""
        if isinstance(node, Inode):
            for directory, name in node.all_names():
                if directory.mirror is not None and name in directory.mirror.names:
                    os.chmod(directory.mirror.entry(name), 0o600, dir_fd=self._state.fd)
                    return
            if self._files.is_open_only(node):
                with self._files.pinned(node) as path:
                    os.chmod(path, 0o600)
        elif path := self._state.mirror_path(node):
            os.chmod(path, os.stat(path, dir_fd=self._state.fd).st_mode & 0o777, dir_fd=self._state.fd)

    # -- extended attributes -----------------------------------------------------------------------------------
    # Only user.* and ACLs reach a tree; attributes of host files do not show, so nothing of the host's labels leaks in.
    def xattrs(self, node: Node) -> dict[bytes, bytes]:
        if isinstance(node, LowerNode) or (
            isinstance(node, LayerDir) and not node.copied_up and node.lower is not None
        ):
            return node.lower.xattrs(node.rel) if node.lower is not None else {}
        return (node.xattrs if isinstance(node, Inode | LayerDir) else None) or {}

    def get_xattr(self, node: Node, name: bytes) -> bytes:
        found = self.xattrs(node)
        if name not in found:
            raise error(errno.ENODATA)
        return found[name]

    def set_xattr(self, node: Node, name: bytes, value: bytes, flags: int) -> None:
        present = name in self.xattrs(node)
        if present and flags & XATTR_CREATE:
            raise error(errno.EEXIST)
        if not present and flags & XATTR_REPLACE:
            raise error(errno.ENODATA)
        target = self._changeable(node)
        if target.xattrs is None:
            target.xattrs = {}
        before = attribute_bytes(target.xattrs)
        after = before + len(value) - len(target.xattrs[name]) if present else before + len(name) + len(value)
        if after > XATTRS_MAX:
            raise error(errno.ENOSPC)
        more = weight(after) - weight(before)
        self._state.room_for(more)
        target.xattrs[name] = value
        self._state.count(more)
        self._changed(target)

    def remove_xattr(self, node: Node, name: bytes) -> None:
        self.get_xattr(node, name)
        target = self._changeable(node)
        assert target.xattrs is not None
        before = attribute_bytes(target.xattrs)
        del target.xattrs[name]
        self._state.count(weight(attribute_bytes(target.xattrs)) - weight(before))
        self._changed(target)

    def set_acl(self, node: Node, name: bytes, value: bytes | None, mode: int) -> None:
        if value is not None:
            self.set_xattr(node, name, value, 0)
        elif name in self.xattrs(node):
            self.remove_xattr(node, name)
        target = self._changeable(node)
        target.mode = st.S_IFMT(target.mode) | mode
        self._changed(target)

"""vfs: metadata of upper nodes in a layered tree — stat, mode, owner, times, size, extended attributes."""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import HostStat, stat_beneath
from husk.vfs.host.host_file import host_stat
from husk.vfs.layer.copy_up import CopyUp, now
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode, attribute_bytes, weight
from husk.vfs.node import Stat, error
from husk.vfs.permissions import without_privilege

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Context, Node

XATTR_CREATE, XATTR_REPLACE = 1, 2
PRIVILEGE = st.S_ISUID | st.S_ISGID
DAY = 24 * 3600 * 10**9
TIMED_BY_HOST = (st.S_IFREG, st.S_IFIFO)  # a write, which husk does not see, changes their time stamps


class LayerMeta(CopyUp):
    """Mode, owner and link count live in our objects; size, blocks and content times in the real file."""

    def _inode_stat(self, node: Inode) -> Stat:
        size, blksize, blocks = len(node.target), 4096, 0
        atime, mtime, ctime = node.atime, node.mtime, node.ctime
        if node.kind in TIMED_BY_HOST:
            info = self._host_info(node)
            size, blksize, blocks = info.size, info.blksize, info.blocks
            if node.source is None:
                atime, mtime = info.atime, info.mtime
                # The host's change time speaks only of writes (and of our own set-up, which does not count).
                if info.ctime != node.host_ctime:
                    ctime = max(ctime, info.ctime)
                if node.mode & PRIVILEGE and node.kind == st.S_IFREG and node.plain_mtime != mtime:
                    node.mode = without_privilege(node.mode, in_group=True)
        return Stat(
            self.dev,
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
        )

    def _host_info(self, node: Inode) -> HostStat:
        if node.source is not None:
            return node.source[0].stat(node.source[1])
        try:
            return stat_beneath(self.state.fd, self.home(node))
        except FileNotFoundError:
            # No name any more: only through a descriptor some guest holds.
            try:
                return host_stat(os.stat(node.via))
            except (OSError, ValueError):
                return HostStat((0, 0, 0, 0, 0, 0, 0, 0, 4096, 0, node.atime, node.mtime, node.ctime))

    def has_file(self, node: Inode) -> bool:
        """Is the real file of an inode without a name still there under its number?"""
        try:
            stat_beneath(self.state.files_fd, b"%d" % node.number)
        except FileNotFoundError:
            return False
        return True

    def host_number(self, node: Inode) -> int:
        """The number of the real file; a symlink gets one when it is first opened (O_PATH), so that a descriptor
        names it."""
        if not node.number and node.kind == st.S_IFLNK:
            number = self.state.new_number()
            os.symlink(b".", b"%d" % number, dir_fd=self.state.files_fd)
            node.number = number
            self.state.keep(number, node)
        return node.number

    def set_mode(self, ctx: Context, node: Node, mode: int) -> None:
        target = self._changeable(node)
        target.mode = st.S_IFMT(target.mode) | mode & 0o7777
        if isinstance(target, Inode) and mode & PRIVILEGE and target.kind == st.S_IFREG:
            target.plain_mtime = self._host_info(target).mtime
        self._changed(target)

    def set_owner(self, ctx: Context, node: Node, uid: int, gid: int) -> None:
        target = self._changeable(node)
        if uid != -1:
            target.uid = uid
        if gid != -1:
            target.gid = gid
        self._changed(target)

    def drop_privilege(self, ctx: Context, node: Inode) -> None:
        node.mode = without_privilege(node.mode, node.gid in ctx.creds.groups)

    def set_times(self, ctx: Context, node: Node, atime: int | None, mtime: int | None) -> None:
        target = self._changeable(node)
        told = isinstance(target, Inode) and target.kind in TIMED_BY_HOST and target.source is None
        if isinstance(target, Inode) and told:
            info = self._host_info(target)
            times = (info.atime if atime is None else atime, info.mtime if mtime is None else mtime)
            if target.mode & PRIVILEGE and target.plain_mtime == info.mtime:
                target.plain_mtime = times[1]
            try:
                os.utime(self.home(target), ns=times, dir_fd=self.state.fd, follow_symlinks=False)
            except FileNotFoundError:
                if target.via:
                    with self.held(target) as path:
                        os.utime(path, ns=times)
        if atime is not None:
            target.atime = atime
        if mtime is not None:
            target.mtime = mtime
        self._changed(target, told=told)

    def accessed(self, node: Inode | LayerDir) -> None:
        """A link was followed or a directory listed, which only we know of. The rule is relatime's: once after each
        change, and once a day."""
        moment = now()
        if node.mtime < node.atime > node.ctime and moment - node.atime < DAY:
            return
        home = node if isinstance(node, LayerDir) else node.parent
        if home is not None:
            self.on_change(home, False)
        node.atime = moment

    def truncate(self, ctx: Context, node: Node, size: int) -> None:
        inode = self.owned(node)
        self.own_content(inode, empty=size == 0)
        if inode.nlink == 0 and inode.via and not self.has_file(inode):
            with self.held(inode) as path:
                os.truncate(path, size)
        else:
            os.truncate(b"/proc/self/fd/%d/%s" % (self.state.fd, self.home(inode)), size)
        self.drop_privilege(ctx, inode)

    def _changeable(self, node: Node) -> Inode | LayerDir:
        if isinstance(node, LayerDir):
            self.on_change(node, False)
            self.own_dir(node)
            return node
        inode = self.owned(node)
        if inode.parent is not None:
            self.on_change(inode.parent, False)
        return inode

    def _changed(self, node: Inode | LayerDir, *, told: bool = False) -> None:
        node.ctime = now()
        if self.watched and not told:
            self.attribute_changed(node)

    def attribute_changed(self, node: Inode | LayerDir) -> None:
        """Whoever watches hears of it if the host changes something of the same kind."""
        if isinstance(node, Inode):
            for directory, name in node.all_names():
                if directory.real is not None and name in directory.real.names:
                    os.chmod(directory.real.entry(name), 0o600, dir_fd=self.state.fd)
                    return
        elif path := self.state.real_path(node):
            os.chmod(path, os.stat(path, dir_fd=self.state.fd).st_mode & 0o777, dir_fd=self.state.fd)

    # -- extended attributes -----------------------------------------------------------------------------------
    # Only user.* reaches a tree; attributes of host files do not show, so nothing of the host's labels leaks in.
    def _xattrs(self, node: Node) -> dict[bytes, bytes]:
        if isinstance(node, LowerNode) or (isinstance(node, LayerDir) and not node.own and node.lower is not None):
            return node.lower.xattrs(node.rel) if node.lower is not None else {}
        return (node.xattrs if isinstance(node, Inode | LayerDir) else None) or {}

    def get_xattr(self, ctx: Context, node: Node, name: bytes) -> bytes:
        found = self._xattrs(node)
        if name not in found:
            raise error(errno.ENODATA)
        return found[name]

    def list_xattr(self, ctx: Context, node: Node) -> list[bytes]:
        return list(self._xattrs(node))

    def set_xattr(self, ctx: Context, node: Node, name: bytes, value: bytes, flags: int) -> None:
        present = name in self.list_xattr(ctx, node)
        if present and flags & XATTR_CREATE:
            raise error(errno.EEXIST)
        if not present and flags & XATTR_REPLACE:
            raise error(errno.ENODATA)
        target = self._changeable(node)
        if target.xattrs is None:
            target.xattrs = {}
        before = attribute_bytes(target.xattrs)
        after = before + len(value) - len(target.xattrs[name]) if present else before + len(name) + len(value)
        if after > 1 << 16:
            raise error(errno.ENOSPC)
        more = weight(after) - weight(before)
        self.state.room_for(more)
        target.xattrs[name] = value
        self.state.count(more)
        self._changed(target)

    def remove_xattr(self, ctx: Context, node: Node, name: bytes) -> None:
        self.get_xattr(ctx, node, name)
        target = self._changeable(node)
        assert target.xattrs is not None
        before = attribute_bytes(target.xattrs)
        del target.xattrs[name]
        self.state.count(weight(attribute_bytes(target.xattrs)) - weight(before))
        self._changed(target)

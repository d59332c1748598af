"""vfs: changing names in a layered tree. The caller has checked names, kinds and permissions; here the structure
changes."""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import stat_beneath, stat_fd
from husk.vfs.host.host_file import HOST_FLAGS
from husk.vfs.layer.copy_up import NOBODY, CopyUp, now
from husk.vfs.layer.inodes import WHITEOUT, Inode, LayerDir, LowerNode, attribute_bytes, weight
from husk.vfs.node import Node, error
from husk.vfs.permissions import inherit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.node import Context, Dir

PRIVILEGE = st.S_ISUID | st.S_ISGID
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4


class LayerNames(CopyUp):
    """Everything that puts a node into `names` or takes it out."""

    # -- new nodes ---------------------------------------------------------------------------------------------
    def create(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> Inode:
        inode = self._new(ctx, directory, st.S_IFREG | mode & 0o7777)
        path = self._spot(directory, name, inode.ino)
        os.mknod(path, st.S_IFREG | 0o600, dir_fd=self.state.fd)
        if mode & PRIVILEGE:
            inode.plain_mtime = stat_beneath(self.state.fd, path).mtime
        return self._bind(directory, name, inode, inode.ino)

    def create_open(self, ctx: Context, directory: Dir, name: bytes, mode: int, flags: int) -> tuple[Inode, int]:
        inode = self._new(ctx, directory, st.S_IFREG | mode & 0o7777)
        host_flags = flags & HOST_FLAGS | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(self._spot(directory, name, inode.ino), host_flags, 0o600, dir_fd=self.state.fd)
        if mode & PRIVILEGE:
            inode.plain_mtime = stat_fd(fd).mtime
        return self._bind(directory, name, inode, inode.ino), fd

    def mknod(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> Inode:
        inode = self._new(ctx, directory, mode)
        os.mknod(self._spot(directory, name, inode.ino), st.S_IFMT(mode) | 0o600, dir_fd=self.state.fd)
        return self._bind(directory, name, inode, inode.ino)

    def bind(self, ctx: Context, directory: Dir, name: bytes, mode: int, make: Callable[[int, bytes], None]) -> Inode:
        inode = self._new(ctx, directory, st.S_IFSOCK | mode & 0o7777)
        make(self.state.fd, self._spot(directory, name, inode.ino))
        return self._bind(directory, name, inode, inode.ino)

    def symlink(self, ctx: Context, directory: Dir, name: bytes, target: bytes) -> None:
        self.state.room_for(1 + weight(len(target)))
        inode = self._new(ctx, directory, st.S_IFLNK | 0o777)
        inode.target = target
        if directory.real is not None and directory.real.full:
            directory.real.show(name, inode)
        self._bind(directory, name, inode, 0)

    def tmpfile(self, ctx: Context, directory: Dir, mode: int, flags: int) -> tuple[Node, int]:
        # Not counted: no name of it is kept, and of those without one only the newest are remembered.
        inode = self._new(ctx, directory, st.S_IFREG | mode & 0o7777)
        inode.number = inode.ino
        inode.doomed = bool(flags & os.O_EXCL)
        assert isinstance(directory, LayerDir)
        inode.parent, inode.name = directory, b"#%d" % inode.ino  # as Linux calls it, deleted from the start
        host_flags = flags & HOST_FLAGS | os.O_CLOEXEC
        try:
            fd = os.open(b".", host_flags | os.O_TMPFILE, 0o600, dir_fd=self.state.files_fd)
            self.state.remember_unnamed(stat_fd(fd).ino, inode)
        except OSError as failure:
            if failure.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                raise
            # Without O_TMPFILE on the host the file keeps its host name while it may still get a virtual one.
            fd = os.open(b"%d" % inode.ino, host_flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self.state.files_fd)
            if not flags & os.O_EXCL:
                self.state.keep(inode.number, inode)
                return inode, fd
        self.state.orphan(inode.number, inode)
        return inode, fd

    def _new(self, ctx: Context, directory: Dir, mode: int) -> Inode:
        assert isinstance(directory, LayerDir)
        self.state.room_for(1)
        self.own_dir(directory)
        mode, gid = inherit(ctx.creds, directory.mode, directory.gid, mode)
        return Inode(self, self.state.new_number(), mode, ctx.creds.uid, gid, now())

    def _spot(self, directory: Dir, name: bytes, number: int) -> bytes:
        """Where the real file of a new name is made: a watcher sees it come where its directory is."""
        if directory.real is not None and directory.real.full:
            directory.real.clear(name)
            return directory.real.entry(name)
        return b"files/%d" % number

    def _bind(self, directory: Dir, name: bytes, inode: Inode, number: int) -> Inode:
        assert isinstance(directory, LayerDir)
        inode.number = number
        self.state.count(1 + weight(len(inode.target)))
        if number:
            self.state.keep(number, inode)
        inode.nlink = 1
        if directory.real is not None and directory.real.full:
            directory.real.names.add(name)
        self._put(directory, name, inode)
        return inode

    def mkdir(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> LayerDir:
        assert isinstance(directory, LayerDir)
        self.state.room_for(1)
        self.own_dir(directory)
        mode, gid = inherit(ctx.creds, directory.mode, directory.gid, st.S_IFDIR | mode & 0o7777)
        child = LayerDir(self, directory, name, self.state.new_number())
        child.mode, child.uid, child.gid, child.own = mode, ctx.creds.uid, gid, True
        child.atime = child.mtime = child.ctime = child.btime = now()
        if directory.real is not None and directory.real.full:
            directory.real.show(name, child)
        self._put(directory, name, child)
        self.state.count(1)
        return child

    # -- names of nodes ----------------------------------------------------------------------------------------
    def link(self, ctx: Context, node: Node, directory: Dir, name: bytes) -> None:
        assert isinstance(directory, LayerDir)
        self.state.room_for(1)
        inode = self.owned(node)
        if inode.nlink == 0:
            if inode.doomed or not inode.number:
                raise error(errno.ENOENT)
            self._revive(inode)
        self.own_dir(directory)
        if inode.parent is not None:
            self.on_change(inode.parent, False)  # its link count shows under the old name, too
        if self.watched:
            from husk.vfs.layer.watch_mirror import link

            link(self, directory, name, inode)
        inode.nlink += 1
        inode.ctime = now()
        self._put(directory, name, inode)
        self.state.count(1)

    def _revive(self, inode: Inode) -> None:
        """Only a file from O_TMPFILE can come back: the host, too, refuses a file whose last name was removed."""
        name = b"%d" % inode.number
        try:
            os.stat(name, dir_fd=self.state.files_fd)
        except FileNotFoundError:
            if not inode.via:
                raise
            with self.held(inode) as path:
                os.link(path, name, dst_dir_fd=self.state.files_fd, follow_symlinks=True)
        self.state.adopt(inode.number)

    def unlink(self, ctx: Context, directory: Dir, name: bytes) -> None:
        assert isinstance(directory, LayerDir)
        node = self._with_twins(self.lookup(ctx, directory, name))
        if directory.real is not None:
            directory.real.remove(name, node)
        self._take(directory, name)
        self._forget(node)

    def rmdir(self, ctx: Context, directory: Dir, name: bytes) -> None:
        assert isinstance(directory, LayerDir)
        child = self.lookup(ctx, directory, name)
        assert isinstance(child, LayerDir)
        if not self.is_empty(ctx, child):
            raise error(errno.ENOTEMPTY)
        self.own_dir(child)
        if directory.real is not None:
            directory.real.remove(name, child)
        self._take(directory, name)
        self._forget(child)

    def is_empty(self, ctx: Context, directory: LayerDir) -> bool:
        if any(node is not WHITEOUT for node in directory.names.values()):
            return False
        return directory.lower is None or next(iter(self.entries(ctx, directory, 0)), None) is None

    def rename(self, ctx: Context, old: Dir, old_name: bytes, new: Dir, new_name: bytes, flags: int) -> None:
        assert isinstance(old, LayerDir)
        assert isinstance(new, LayerDir)
        # Whatever the host must be asked is asked first: once names change, nothing may fail.
        moving = self._movable(old, old_name)
        self.own_dir(old)
        self.own_dir(new)
        if flags & RENAME_EXCHANGE:
            other = self._movable(new, new_name)
            self._host_rename(old, old_name, moving, new, new_name, other, exchange=True)
            self._take(old, old_name)
            self._take(new, new_name)
            self._put(old, old_name, other)
            self._put(new, new_name, moving)
            self._stamp(other)
        else:
            replaced: Node | None = None
            try:
                replaced = self._with_twins(self.lookup(ctx, new, new_name))
            except FileNotFoundError:
                pass
            if isinstance(replaced, LayerDir) and not self.is_empty(ctx, replaced):
                raise error(errno.ENOTEMPTY)
            if isinstance(replaced, LayerDir):
                self.own_dir(replaced)
            self._host_rename(old, old_name, moving, new, new_name, replaced, exchange=False)
            self._take(old, old_name)
            if replaced is not None:
                self._take(new, new_name)
                self._forget(replaced)
            self._put(new, new_name, moving)
        self._stamp(moving)

    def _host_rename(
        self,
        old: LayerDir,
        old_name: bytes,
        moving: Node,
        new: LayerDir,
        new_name: bytes,
        other: Node | None,
        *,
        exchange: bool,
    ) -> None:
        if old.real is not None or new.real is not None:
            from husk.vfs.layer.watch_mirror import rename

            rename(self, (old, old_name, moving), (new, new_name, other), exchange=exchange)

    def _movable(self, directory: LayerDir, name: bytes) -> Node:
        node = self.lookup(NOBODY, directory, name)
        if isinstance(node, LayerDir):
            self.own_dir(node)
        return self.own_node(node) if isinstance(node, LowerNode) else node

    def _stamp(self, node: Node) -> None:
        if isinstance(node, LayerDir):
            self.own_dir(node)
            node.ctime = now()
        elif isinstance(node, Inode):
            node.ctime = now()

    # -- the two primitives ------------------------------------------------------------------------------------
    def _put(self, directory: LayerDir, name: bytes, node: Node) -> None:
        """Enter a name. A whiteout that stood there is simply replaced."""
        self.own_dir(directory)
        directory.names[name] = node
        if isinstance(node, LayerDir):
            directory.subdirs += 1
            node.parent, node.name = directory, name
            if node.lower is not None and node.rel:
                node.lower.moved[node.rel] = node
        elif isinstance(node, Inode):
            node.add_name(directory, name)
        directory.mtime = directory.ctime = now()

    def _take(self, directory: LayerDir, name: bytes) -> None:
        """Remove a name; where the lower directory has it too, a whiteout keeps it from showing again."""
        self.own_dir(directory)
        node = directory.names.pop(name, None)
        if directory.lower is not None and directory.shows_lower(name) and self._lower_has(directory, name):
            directory.names[name] = WHITEOUT
        if isinstance(node, LayerDir):
            directory.subdirs -= 1
        elif isinstance(node, Inode):
            node.drop_name(directory, name)
        directory.cookies.pop(name, None)
        directory.mtime = directory.ctime = now()

    def _lower_has(self, directory: LayerDir, name: bytes) -> bool:
        assert directory.lower is not None
        try:
            directory.lower.saw(directory.below(name), directory.lower.stat(directory.below(name)))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            pass  # a whiteout too many hides nothing; one too few would bring a removed file back
        return True

    def _with_twins(self, node: Node) -> Node:
        """Removing one name of a hard-linked lower file changes what its other names show: they need an inode."""
        if isinstance(node, LowerNode) and node.info is not None and node.info.nlink > 1:
            return self.own_node(node)
        return node

    def _forget(self, node: Node) -> None:
        """A name of `node` was removed for good."""
        if isinstance(node, LayerDir):
            self.own_dir(node)
            self.state.count(-1)
            self._uncount(node)
            node.removed = True
            node.lower = None
            node.names.clear()
            node.listing = []
            node.ctime = now()
        elif isinstance(node, Inode):
            self.state.count(-1)
            node.nlink -= 1
            node.ctime = now()
            if node.nlink <= 0:
                node.nlink = 0
                self.state.count(-weight(len(node.target)))
                self._uncount(node)
                if node.number:
                    self.state.orphan(node.number, node)

    def _uncount(self, node: Inode | LayerDir) -> None:
        if node.xattrs:
            self.state.count(-weight(attribute_bytes(node.xattrs)))

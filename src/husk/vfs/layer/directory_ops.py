"""vfs: changing names in a layered tree. The caller has checked names, kinds and permissions; here the structure
changes."""

from __future__ import annotations

import errno
import os
import stat as st

from husk.abi.structs import pack_stat
from husk.native._core import stat_beneath, stat_fd
from husk.vfs.clock import now
from husk.vfs.host.host_file import HOST_FLAGS
from husk.vfs.layer.inodes import WHITEOUT, Inode, LayerDir, LowerNode, attribute_bytes, weight
from husk.vfs.layer.lower import Generated
from husk.vfs.node import ACL_ACCESS, ACL_DEFAULT, ROOT_CONTEXT, error
from husk.vfs.permissions import WRITE, inherit, permitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.native._core import HostStat
    from husk.vfs.host_view import HostView
    from husk.vfs.layer.copy_up import CopyUp
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.layer.upper_files import UpperFiles
    from husk.vfs.layer.watch_mirror import WatchMirror
    from husk.vfs.node import Context, Credentials, Node, OwnDirectory

PRIVILEGE = st.S_ISUID | st.S_ISGID
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
SECOND = 10**9
UNKNOWN = (0, 0, 0, 0, 0, 0, 0)
HIDDEN = (0, 0, st.S_IFCHR, 0, 0, 0, 0)  # as overlayfs writes a whiteout


class DirectoryOps:
    """Everything that puts a node into `LayerDir.names` or takes it out."""

    __slots__ = ("_announce", "_copy_up", "_files", "_state", "_tree", "one_moment")

    def __init__(self, tree: LayeredTree, files: UpperFiles, copy_up: CopyUp) -> None:
        self._tree, self._files, self._copy_up, self._state = tree, files, copy_up, files.state
        self._announce = files.state.invalidation.announce
        self.one_moment = 0  # that all new names are dated by, while the tree is made; 0: each has its own

    # -- new nodes ---------------------------------------------------------------------------------------------
    def create(self, ctx: Context, directory: LayerDir, name: bytes, mode: int) -> Inode:
        inode = self._new(ctx, directory, st.S_IFREG | mode & 0o7777)
        path = self._new_path(directory, name, inode.ino)
        os.mknod(path, st.S_IFREG | 0o600, dir_fd=self._state.fd)
        if mode & PRIVILEGE:
            inode.plain_mtime = stat_beneath(self._state.fd, path).mtime
        return self._bind(directory, name, inode, inode.ino)

    def generate(self, directory: LayerDir, name: bytes, mode: int, content: bytes) -> None:
        inode = self._new(ROOT_CONTEXT, directory, st.S_IFREG | mode & 0o7777)
        # Whole seconds: the real file is dated so when it is made, and not every host file system keeps more.
        inode.atime = inode.mtime = inode.mtime // SECOND * SECOND
        inode.source = Generated(content, inode.mtime), name
        self._bind(directory, name, inode, 0)

    def create_open(self, ctx: Context, directory: LayerDir, name: bytes, mode: int, flags: int) -> tuple[Inode, int]:
        inode = self._new(ctx, directory, st.S_IFREG | mode & 0o7777)
        host_flags = flags & HOST_FLAGS | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(self._new_path(directory, name, inode.ino), host_flags, 0o600, dir_fd=self._state.fd)
        if mode & PRIVILEGE:
            inode.plain_mtime = stat_fd(fd).mtime
        return self._bind(directory, name, inode, inode.ino), fd

    def mknod(self, ctx: Context, directory: LayerDir, name: bytes, mode: int) -> Inode:
        inode = self._new(ctx, directory, mode)
        os.mknod(self._new_path(directory, name, inode.ino), st.S_IFMT(mode) | 0o600, dir_fd=self._state.fd)
        return self._bind(directory, name, inode, inode.ino)

    def bind(
        self, ctx: Context, directory: LayerDir, name: bytes, mode: int, make: Callable[[int, bytes], None]
    ) -> Inode:
        inode = self._new(ctx, directory, st.S_IFSOCK | mode & 0o7777)
        make(self._state.fd, self._new_path(directory, name, inode.ino))
        return self._bind(directory, name, inode, inode.ino)

    def symlink(self, ctx: Context, directory: LayerDir, name: bytes, target: bytes) -> None:
        self._state.room_for(1 + weight(len(target)))
        inode = self._new(ctx, directory, st.S_IFLNK | 0o777)
        inode.target = target
        if directory.mirror is not None and directory.mirror.complete:
            directory.mirror.show(name, inode)
        self._bind(directory, name, inode, 0)

    def tmpfile(self, ctx: Context, directory: LayerDir, mode: int, flags: int) -> tuple[Inode, int]:
        # Not counted: no name of it is kept, and of files without a name only the newest are remembered.
        inode = self._new(ctx, directory, st.S_IFREG | mode & 0o7777)
        inode.number = inode.ino
        inode.doomed = bool(flags & os.O_EXCL)
        inode.parent, inode.name = directory, b"#%d" % inode.ino  # as Linux calls it, deleted from the start
        host_flags = flags & HOST_FLAGS | os.O_CLOEXEC
        try:
            fd = os.open(b".", host_flags | os.O_TMPFILE, 0o600, dir_fd=self._state.files_fd)
            self._state.remember_unnamed(stat_fd(fd).ino, inode)
        except OSError as failure:
            if failure.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                raise
            # Without O_TMPFILE on the host the file keeps its host name while it may still get a virtual one.
            fd = os.open(b"%d" % inode.ino, host_flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._state.files_fd)
            if not flags & os.O_EXCL:
                self._state.keep(inode.number, inode)
                return inode, fd
        self._state.orphan(inode.number, inode)
        return inode, fd

    def _new(self, ctx: Context, directory: LayerDir, mode: int) -> Inode:
        self._state.room_for(1)
        self._copy_up.directory(directory)
        creds = self._owner(ctx.creds)
        mode, gid = inherit(creds, directory.mode, directory.gid, mode)
        inode = Inode(self._tree, self._state.new_number(), mode, creds.uid, gid, self.one_moment or now())
        if directory.xattrs and ACL_DEFAULT in directory.xattrs and not st.S_ISLNK(mode):
            self._inherit_acl(directory.xattrs[ACL_DEFAULT], inode)
        return inode

    def _owner(self, creds: Credentials) -> Credentials:
        """Of something new. What may go to the host later is the box's user's, whoever the caller is inside."""
        return creds if self._tree.boxed else creds.of_box()

    def _inherit_acl(self, default: bytes, child: Inode | LayerDir) -> None:
        from husk.vfs.access.posix_acl import inherited

        child.mode, access = inherited(default, child.mode)
        found = {} if access is None else {ACL_ACCESS: access}
        if isinstance(child, LayerDir):
            found[ACL_DEFAULT] = default
        if found:
            more = weight(attribute_bytes(found))
            self._state.room_for(1 + more)
            child.xattrs = found
            self._state.count(more)

    def _new_path(self, directory: LayerDir, name: bytes, number: int) -> bytes:
        """Where the real file of a new name is made. A watcher of the directory sees it appear in the mirror."""
        if directory.mirror is not None and directory.mirror.complete:
            directory.mirror.clear(name)
            return directory.mirror.entry(name)
        self._state.need_files()
        return b"files/%d" % number

    def _bind(self, directory: LayerDir, name: bytes, inode: Inode, number: int) -> Inode:
        inode.number = number
        self._state.count(1 + weight(len(inode.target)))
        if number:
            self._state.keep(number, inode)
        inode.nlink = 1
        if directory.mirror is not None and directory.mirror.complete:
            directory.mirror.names.add(name)
        self._put(directory, name, inode)
        return inode

    def own_directory(self, ctx: Context, directory: LayerDir, beneath: HostView | None) -> OwnDirectory | None:
        if directory.pending or not directory.copied_up or self._files.mirrored:
            return None
        if directory.is_hidden_or_watched() or directory.xattrs or directory.mode & st.S_ISGID:
            return None
        creds, info = self._owner(ctx.creds), self._tree.stat(ctx, directory)
        names = [(name, *_known(node)) for name, node in directory.names.items()]
        shown = None if beneath is None else (beneath.root_fd, beneath.rel, beneath.host_dev, beneath.showing)
        return self._state.files_fd, creds.uid, creds.gid, pack_stat(info), names, shown

    def new_owner(self, creds: Credentials, directory: LayerDir) -> tuple[int, int, int] | None:
        if self._files.mirrored or directory.lower is None or not directory.lower.is_host:
            return None
        if not permitted(creds, self._tree.stat(None, directory), WRITE):
            return None
        owner = self._owner(creds)
        return self._state.known_files_fd, owner.uid, owner.gid

    def begun_outside(self, directory: LayerDir, host: HostStat) -> None:
        self._copy_up.directory(directory, host)

    def made_outside(
        self, directory: LayerDir, name: bytes, number: int, mode: int, uid: int, gid: int, when: int
    ) -> Inode:
        """As `create_open` would have made it. It is not entered yet, and C has counted it."""
        inode = Inode(self._tree, number, mode, uid, gid, when)
        inode.number, inode.nlink = number, 1
        inode.add_name(directory, name)
        return inode

    def removed_outside(
        self, directory: LayerDir, name: bytes, number: int, when: int, host: HostStat | None
    ) -> Node | None:
        """As `unlink` would have done it, but for the name itself, which C takes out of the directory, or makes lead to
        what is returned. C has counted it. Whatever was done here before an exception is done again."""
        if host is not None and directory.lower is not None:
            directory.lower.record(directory.below(name), host)
        node = directory.names.get(name)
        if isinstance(node, Inode) and node.number == number:  # else a signal handler has done all of it
            node.nlink, node.ctime = 0, when
            node.drop_name(directory, name)
            self._state.orphan(number, node, removed=True)
        directory.cookies.pop(name, None)
        return None if host is None else WHITEOUT

    def made_directory_outside(
        self, directory: LayerDir, name: bytes, number: int, mode: int, uid: int, gid: int, when: int
    ) -> LayerDir:
        """As `mkdir` would have made it. It is not entered yet, and C has counted it."""
        child = LayerDir(self._tree, directory, name, number)
        child.describe(mode, uid, gid, when)
        return child

    def removed_directory_outside(
        self, directory: LayerDir, name: bytes, child: LayerDir | None, when: int, host: HostStat | None
    ) -> Node | None:
        """As `rmdir` would have done it, but for the name itself, and counting. May be done again."""
        if host is not None and directory.lower is not None:
            directory.lower.record(directory.below(name), host)
        if child is not None:
            child.removed, child.lower, child.listing, child.ctime = True, None, [], when
            child.names.clear()
        directory.cookies.pop(name, None)
        return None if host is None else WHITEOUT

    def mkdir(self, ctx: Context, directory: LayerDir, name: bytes, mode: int) -> LayerDir:
        self._state.room_for(1)
        self._copy_up.directory(directory)
        creds = self._owner(ctx.creds)
        mode, gid = inherit(creds, directory.mode, directory.gid, st.S_IFDIR | mode & 0o7777)
        child = LayerDir(self._tree, directory, name, self._state.new_number())
        child.describe(mode, creds.uid, gid, self.one_moment or now())
        if directory.xattrs and ACL_DEFAULT in directory.xattrs:
            self._inherit_acl(directory.xattrs[ACL_DEFAULT], child)
        if directory.mirror is not None and directory.mirror.complete:
            directory.mirror.show(name, child)
        self._put(directory, name, child)
        self._state.count(1)
        return child

    # -- names of nodes ----------------------------------------------------------------------------------------
    def link(self, node: Node, directory: LayerDir, name: bytes) -> None:
        self._state.room_for(1)
        inode = self._copy_up.inode(node)
        if inode.nlink == 0:
            if inode.doomed or not inode.number or inode.is_copy:  # it is not from O_TMPFILE
                raise error(errno.ENOENT)
            self._revive(inode)
        self._copy_up.directory(directory)
        if inode.parent is not None:
            self._announce(inode.parent, False)  # its link count shows under the old name, too
        if self._files.mirrored:
            self._mirror().link(directory, name, inode)
        inode.nlink += 1
        inode.ctime = now()
        self._put(directory, name, inode)
        self._state.count(1)

    def _revive(self, inode: Inode) -> None:
        """Only a file from O_TMPFILE can get a name again: the host, too, refuses a file after its last unlink."""
        name = b"%d" % inode.number
        try:
            os.stat(name, dir_fd=self._state.files_fd)
        except FileNotFoundError:
            if not inode.via:
                raise
            with self._files.pinned(inode) as path:
                os.link(path, name, dst_dir_fd=self._state.files_fd, follow_symlinks=True)
        self._state.adopt(inode.number)

    def unlink(self, directory: LayerDir, name: bytes, found: Node | None) -> None:
        lower = found.info if isinstance(found, LowerNode) else None
        node = self._with_twins(found if found is not None and lower else self._tree.lookup(None, directory, name))
        if directory.mirror is not None:
            directory.mirror.remove(name, node)
        self._take(directory, name, lower)
        self._forget(node)

    def rmdir(self, ctx: Context, directory: LayerDir, name: bytes) -> None:
        child = self._tree.lookup(ctx, directory, name)
        assert isinstance(child, LayerDir)
        if not self._is_empty(ctx, child):
            raise error(errno.ENOTEMPTY)
        self._copy_up.directory(child)
        if directory.mirror is not None:
            directory.mirror.remove(name, child)
        self._take(directory, name)
        self._forget(child)

    def _is_empty(self, ctx: Context, directory: LayerDir) -> bool:
        if any(node is not WHITEOUT for node in directory.names.values()):
            return False
        return directory.lower is None or next(iter(self._tree.entries(ctx, directory, 0)), None) is None

    def rename(
        self, ctx: Context, old: LayerDir, old_name: bytes, new: LayerDir, new_name: bytes, flags: int
    ) -> None:
        # Everything that asks the host comes first: once names change, nothing may fail.
        moving = self._movable(old, old_name)
        self._copy_up.directory(old)
        self._copy_up.directory(new)
        if flags & RENAME_EXCHANGE:
            other = self._movable(new, new_name)
            if old.mirror is not None or new.mirror is not None:
                self._mirror().exchange((old, old_name, moving), (new, new_name, other))
            self._take(old, old_name)
            self._take(new, new_name)
            self._put(old, old_name, other)
            self._put(new, new_name, moving)
            self._stamp(other)
        else:
            replaced: Node | None = None
            try:
                replaced = self._with_twins(self._tree.lookup(ctx, new, new_name))
            except FileNotFoundError:
                pass
            if isinstance(replaced, LayerDir) and not self._is_empty(ctx, replaced):
                raise error(errno.ENOTEMPTY)
            if isinstance(replaced, LayerDir):
                self._copy_up.directory(replaced)
            if old.mirror is not None or new.mirror is not None:
                self._mirror().rename((old, old_name, moving), (new, new_name, replaced))
            self._take(old, old_name)
            if replaced is not None:
                self._take(new, new_name)
                self._forget(replaced)
            self._put(new, new_name, moving)
        self._stamp(moving)

    def _mirror(self) -> WatchMirror:
        return self._tree.watch_mirror()

    def _movable(self, directory: LayerDir, name: bytes) -> Node:
        node = self._tree.lookup(None, directory, name)
        if isinstance(node, LayerDir):
            self._copy_up.directory(node)
        return self._copy_up.lower_node(node) if isinstance(node, LowerNode) else node

    def _stamp(self, node: Node) -> None:
        if isinstance(node, LayerDir):
            self._copy_up.directory(node)
            node.ctime = now()
        elif isinstance(node, Inode):
            node.ctime = now()

    # -- the two primitives ------------------------------------------------------------------------------------
    def _put(self, directory: LayerDir, name: bytes, node: Node) -> None:
        """Enter a name. A whiteout that stood there is simply replaced."""
        self._copy_up.directory(directory)
        directory.names[name] = node
        if isinstance(node, LayerDir):
            directory.subdirs += 1
            node.parent, node.name = directory, name
            if node.lower is not None and node.rel:
                node.lower.moved[node.rel] = node
        elif isinstance(node, Inode):
            node.add_name(directory, name)
        directory.mtime = directory.ctime = self.one_moment or now()

    def _take(self, directory: LayerDir, name: bytes, lower: HostStat | None = None) -> None:
        """Remove a name; where the lower directory has it too, a whiteout keeps it from showing again. `lower`: what it
        has was just looked up."""
        self._copy_up.directory(directory)
        node = directory.names.pop(name, None)
        if directory.lower is not None and directory.shows_lower(name) and self._lower_has(directory, name, lower):
            directory.names[name] = WHITEOUT
        if isinstance(node, LayerDir):
            directory.subdirs -= 1
        elif isinstance(node, Inode):
            node.drop_name(directory, name)
        directory.cookies.pop(name, None)
        directory.mtime = directory.ctime = now()

    def _lower_has(self, directory: LayerDir, name: bytes, info: HostStat | None) -> bool:
        assert directory.lower is not None
        rel = directory.below(name)
        try:
            directory.lower.record(rel, info or directory.lower.stat(rel))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            pass  # a whiteout too many hides nothing; one too few would bring a removed file back
        return True

    def _with_twins(self, node: Node) -> Node:
        """Removing one name of a hard-linked lower file changes what its other names show: they need an inode."""
        if isinstance(node, LowerNode) and node.info is not None and node.info.nlink > 1:
            return self._copy_up.lower_node(node)
        return node

    def _forget(self, node: Node) -> None:
        """A name of `node` was removed for good."""
        if isinstance(node, LayerDir):
            self._copy_up.directory(node)
            self._state.count(-1)
            self._uncount(node)
            node.removed = True
            node.lower = None
            node.names.clear()
            node.listing = []
            node.ctime = now()
        elif isinstance(node, Inode):
            self._state.count(-1)
            node.nlink -= 1
            node.ctime = now()
            if node.nlink <= 0:
                node.nlink = 0
                self._state.count(-weight(len(node.target)))
                self._uncount(node)
                if node.number:
                    self._state.orphan(node.number, node, lingers=node.is_copy)

    def _uncount(self, node: Inode | LayerDir) -> None:
        if node.xattrs:
            self._state.count(-weight(attribute_bytes(node.xattrs)))


def _known(node: Node) -> tuple[int, int, int, int, int, int, int]:
    """What C is told of a name (node.OwnName). Of a file, if its name is all it has besides its content: to remove that
    is to remove the real file. Of a directory, the number by which C may know it. And that a name is free, though the
    host has it."""
    if node is WHITEOUT:
        return HIDDEN
    if isinstance(node, LayerDir) and node.mounted is None and node.mirror is None:
        return node.owner, 0, st.S_IFDIR, 0, 0, 0, 0
    if not isinstance(node, Inode) or node.kind != st.S_IFREG or node.source is not None or node.xattrs:
        return UNKNOWN
    if node.nlink != 1 or node.others or node.is_copy:  # what was copied may stay when its name goes
        return UNKNOWN
    mode = 0 if node.mode & PRIVILEGE else node.mode
    return node.number, node.ino, mode, node.uid, node.gid, node.ctime, node.host_ctime

"""vfs: calls that make, remove and rename names. Checks come in Linux's order, then the tree acts."""

from __future__ import annotations

import errno
import stat as st

from husk.vfs.node import Dir, error
from husk.vfs.permissions import SEARCH, WRITE, may_hard_link, new_mode, permitted, require, sticky_forbids
from husk.vfs.walk import PATH_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.layer.leftovers import Leftovers
    from husk.vfs.mount_table import MountTable
    from husk.vfs.node import Context, Node
    from husk.vfs.walk import Trail, Walker

NOREPLACE, EXCHANGE = 1, 2


class Naming:
    """mkdir, rmdir, unlink, symlink, link, mknod, bind and rename."""

    __slots__ = ("_invalidate", "_leftovers", "_lock", "_walker")

    def __init__(self, table: MountTable, walker: Walker, leftovers: Leftovers) -> None:
        self._lock, self._invalidate, self._walker, self._leftovers = table.lock, table.invalidate, walker, leftovers

    def mkdir(self, ctx: Context, start: Dir, path: bytes, mode: int) -> Dir:
        with self._lock:
            directory, name = self._free_name(ctx, start, path, st.S_IFDIR)
            self._landlocked(ctx, directory, st.S_IFDIR)
            self._may_create(ctx, directory)
            self._invalidate(directory, False)
            made = directory.tree.mkdir(ctx, directory, name, new_mode(ctx, directory, mode & 0o1777))
            ctx.changed("added", directory, name)
            return made

    def symlink(self, ctx: Context, target: bytes, start: Dir, path: bytes) -> None:
        with self._lock:
            if not target:
                raise error(errno.ENOENT)
            if len(target) >= PATH_MAX:
                raise error(errno.ENAMETOOLONG)
            directory, name = self._free_name(ctx, start, path, st.S_IFLNK)
            self._landlocked(ctx, directory, st.S_IFLNK)
            self._may_create(ctx, directory)
            self._invalidate(directory, False)
            directory.tree.symlink(ctx, directory, name, target)
            ctx.changed("added", directory, name)

    def mknod(self, ctx: Context, start: Dir, path: bytes, mode: int) -> None:
        with self._lock:
            kind = st.S_IFMT(mode) or st.S_IFREG
            if kind == st.S_IFDIR:
                raise error(errno.EPERM)
            if kind not in (st.S_IFREG, st.S_IFIFO, st.S_IFSOCK, st.S_IFCHR, st.S_IFBLK):
                raise error(errno.EINVAL)
            directory, name = self._free_name(ctx, start, path, kind)
            self._landlocked(ctx, directory, kind)
            self._may_create(ctx, directory)
            if kind in (st.S_IFCHR, st.S_IFBLK):
                raise error(errno.EPERM)
            bits = new_mode(ctx, directory, mode & 0o7777)
            self._invalidate(directory, False)
            if kind == st.S_IFREG:
                directory.tree.create(ctx, directory, name, bits)
            else:
                directory.tree.mknod(ctx, directory, name, kind | bits)
            ctx.changed("added", directory, name)

    def bind(self, ctx: Context, start: Dir, path: bytes, mode: int, make: Callable[[int, bytes], None]) -> Node:
        """The name of a socket: `make(directory_fd, host_name)` binds the real one there. EADDRINUSE where the name is
        taken."""
        with self._lock:
            try:
                directory, name = self._free_name(ctx, start, path, st.S_IFSOCK)
            except FileExistsError:
                raise error(errno.EADDRINUSE) from None
            self._landlocked(ctx, directory, st.S_IFSOCK)
            self._may_create(ctx, directory)
            self._invalidate(directory, False)
            # Linux applies the umask of a socket itself, so a default ACL does not take its place.
            node = directory.tree.bind(ctx, directory, name, mode & 0o7777 & ~ctx.umask(), make)
            ctx.changed("added", directory, name)
            return node

    def link(self, ctx: Context, old_start: Dir, old: bytes, new_start: Dir, new: bytes, follow: bool) -> None:
        with self._lock:
            trail = self._walker.trail(ctx, old_start)
            node = self._walker.resolve(ctx, old_start, old, trail, follow)
            self._link_node(ctx, node, new_start, new, trail.where)

    def link_node(self, ctx: Context, node: Node, new_start: Dir, new: bytes) -> None:
        with self._lock:
            self._link_node(ctx, node, new_start, new)

    def _link_node(self, ctx: Context, node: Node, start: Dir, path: bytes, where: Dir | None = None) -> None:
        """`where` is the directory in which the node was found."""
        # That a directory gets no second name is said last: a slash behind the new name is looked at before.
        directory, name = self._free_name(ctx, start, path, st.S_IFREG if node.kind == st.S_IFDIR else node.kind)
        if node.tree is not directory.tree:
            raise error(errno.EXDEV)
        if ctx.domain is not None:
            place = node.tree.name_of(node) or node.tree.old_name_of(node)
            where = where or (place[0] if place is not None else None)
            ctx.domain.require_move(ctx, (where, node), directory, None, link=True, exchange=False)
        node.tree.may_change(node)
        info = node.tree.stat(ctx, node)
        if not may_hard_link(ctx.creds, info):
            raise error(errno.EPERM)
        self._may_create(ctx, directory)
        if node.kind == st.S_IFDIR:
            raise error(errno.EPERM)
        self._invalidate(directory, False)
        node.tree.link(ctx, node, directory, name)
        ctx.changed("added", directory, name)

    # -- removing ----------------------------------------------------------------------------------------------
    def rmdir(self, ctx: Context, start: Dir, path: bytes) -> Dir:
        """The directory that the name was in."""
        with self._lock:
            trail = self._walker.trail(ctx, start)
            directory = self._walker.parent_of(ctx, start, path, trail)
            if not trail.plain:
                raise error({b"..": errno.ENOTEMPTY, b".": errno.EINVAL}.get(trail.last, errno.EBUSY))
            self._may_write(directory)
            node = self._walker.last(ctx, directory, trail)
            directory.tree.may_remove(directory, trail.last, node)
            self._landlocked(ctx, directory, 0, removed=st.S_IFDIR)
            self._may_delete(ctx, directory, node, is_dir=True)
            assert isinstance(node, Dir)
            if node.mounted is not None:
                raise error(errno.EBUSY)
            self._invalidate(directory, False)
            self._invalidate(node, not directory.tree.removal_is_local(node), True)
            directory.tree.rmdir(ctx, directory, trail.last)
            ctx.changed("deleted", directory, trail.last)
            return directory

    def unlink(self, ctx: Context, start: Dir, path: bytes) -> Dir:
        """The directory that the name was in."""
        with self._lock:
            trail = self._walker.trail(ctx, start)
            directory = self._walker.parent_of(ctx, start, path, trail)
            if not trail.plain:
                raise error(errno.EISDIR)
            self._may_write(directory)
            node = self._walker.last(ctx, directory, trail)
            if trail.slash:
                raise error(errno.EISDIR if node.kind == st.S_IFDIR else errno.ENOTDIR)
            directory.tree.may_remove(directory, trail.last, node)
            self._landlocked(ctx, directory, 0, removed=st.S_IFREG)
            self._may_delete(ctx, directory, node, is_dir=False)
            # On the host links come and go without a word, and are read each time.
            self._invalidate(directory, node.kind == st.S_IFLNK and not directory.tree.writes_to_host)
            directory.tree.unlink(ctx, directory, trail.last, node)
            ctx.changed("deleted", directory, trail.last)
            self._leftovers.tidy()
            return directory

    # -- renaming ----------------------------------------------------------------------------------------------
    def rename(self, ctx: Context, old_start: Dir, old: bytes, new_start: Dir, new: bytes, flags: int = 0) -> Dir:
        """The directory that the new name is in."""
        with self._lock:
            if flags & ~(NOREPLACE | EXCHANGE) or flags == NOREPLACE | EXCHANGE:
                raise error(errno.EINVAL)
            from_trail, to_trail = self._walker.trail(ctx, old_start), self._walker.trail(ctx, new_start)
            source_dir = self._walker.parent_of(ctx, old_start, old, from_trail)
            target_dir = self._walker.parent_of(ctx, new_start, new, to_trail)
            if source_dir.tree is not target_dir.tree:
                raise error(errno.EXDEV)
            if not from_trail.plain:
                raise error(errno.EBUSY)
            if not to_trail.plain:
                raise error(errno.EEXIST if flags & NOREPLACE else errno.EBUSY)
            self._may_write(source_dir)
            self._rename(ctx, source_dir, from_trail, target_dir, to_trail, flags)
            self._leftovers.tidy()
            return target_dir

    def _rename(self, ctx: Context, old: Dir, from_trail: Trail, new: Dir, to_trail: Trail, flags: int) -> None:
        tree = old.tree
        source = self._walker.last(ctx, old, from_trail)
        target = self._peek(ctx, new, to_trail)
        if target is not None and flags & NOREPLACE:
            raise error(errno.EEXIST)
        if flags & EXCHANGE:
            if target is None:
                raise error(errno.ENOENT)
            if target.kind != st.S_IFDIR and to_trail.slash:
                raise error(errno.ENOTDIR)
        if source.kind != st.S_IFDIR and (from_trail.slash or (not flags & EXCHANGE and to_trail.slash)):
            raise error(errno.ENOTDIR)
        if isinstance(source, Dir) and _is_above(source, new):
            raise error(errno.EINVAL)
        if isinstance(target, Dir) and _is_above(target, old):
            raise error(errno.EINVAL if flags & EXCHANGE else errno.ENOTEMPTY)
        if target is not None and self._same(ctx, source, target):
            return
        is_dir = isinstance(source, Dir)
        if ctx.domain is not None:
            ctx.domain.require_move(ctx, (old, source), new, target, link=False, exchange=bool(flags & EXCHANGE))
        tree.may_remove(old, from_trail.last, source, moving=True)
        tree.may_make(new, to_trail.last, source.kind, moved=True)
        if target is not None:
            tree.may_remove(new, to_trail.last, target, moving=bool(flags & EXCHANGE))
        if target is not None and flags & EXCHANGE:
            tree.may_make(old, from_trail.last, target.kind, moved=True)
        self._may_delete(ctx, old, source, is_dir=is_dir)
        if target is None:
            self._may_create(ctx, new)
        else:
            self._may_delete(ctx, new, target, is_dir=isinstance(target, Dir) if flags & EXCHANGE else is_dir)
        for moved in (source, target) if flags & EXCHANGE else (source,):
            # Moving a directory rewrites its `..`, which takes write permission on it.
            if old is not new and isinstance(moved, Dir):
                require(ctx.creds, tree.stat(ctx, moved), WRITE)
        if any(isinstance(node, Dir) and node.mounted is not None for node in (source, target)):
            raise error(errno.EBUSY)
        structural = any(node is not None and node.kind in (st.S_IFDIR, st.S_IFLNK) for node in (source, target))
        self._invalidate(old, structural)
        self._invalidate(new, structural)
        tree.rename(ctx, old, from_trail.last, new, to_trail.last, flags)
        if flags & EXCHANGE:
            ctx.exchanged(old, from_trail.last, new, to_trail.last)
        else:
            ctx.renamed(old, from_trail.last, new, to_trail.last, source, replaced=target is not None)

    def _peek(self, ctx: Context, directory: Dir, trail: Trail) -> Node | None:
        try:
            return self._walker.last(ctx, directory, trail)
        except FileNotFoundError:
            return None

    def _same(self, ctx: Context, one: Node, other: Node) -> bool:
        if one is other:
            return True
        if one.kind != other.kind or one.kind == st.S_IFDIR:
            return False
        return one.tree.stat(ctx, one).ino == other.tree.stat(ctx, other).ino

    # -- checks shared by all ----------------------------------------------------------------------------------
    def _free_name(self, ctx: Context, start: Dir, path: bytes, kind: int) -> tuple[Dir, bytes]:
        """filename_create: the directory and a name in it that nothing has yet, for something of `kind`."""
        trail = self._walker.trail(ctx, start)
        directory = self._walker.parent_of(ctx, start, path, trail)
        if not trail.plain or self._peek(ctx, directory, trail) is not None:
            raise error(errno.EEXIST)
        if (trail.slash and kind != st.S_IFDIR) or directory.tree.fixed_names:
            raise error(errno.ENOENT)
        self._may_write(directory)
        directory.tree.may_make(directory, trail.last, kind)
        return directory, trail.last

    def _landlocked(self, ctx: Context, directory: Dir, made: int, removed: int = 0) -> None:
        """Judge by the rules that the program made for itself: something of kind `made` or `removed` in `directory`."""
        if ctx.domain is not None:
            from husk.vfs.access.landlock_rules import MAKE, REMOVE_DIR, REMOVE_FILE

            want = MAKE[made] if made else REMOVE_DIR if removed == st.S_IFDIR else REMOVE_FILE
            ctx.domain.require(ctx, directory, None, want)

    def _may_write(self, directory: Dir) -> None:
        if directory.tree.read_only:
            raise error(errno.EROFS)

    def _may_create(self, ctx: Context, directory: Dir) -> None:
        if directory.removed:
            raise error(errno.ENOENT)
        require(ctx.creds, directory.tree.stat(ctx, directory), WRITE | SEARCH)

    def _may_delete(self, ctx: Context, directory: Dir, node: Node, *, is_dir: bool) -> None:
        tree = directory.tree
        info = tree.stat(ctx, directory)
        if tree.fixed_names:
            raise error(tree.removal_error(directory))
        if not permitted(ctx.creds, info, WRITE | SEARCH):
            raise error(errno.EACCES)
        if info.mode & st.S_ISVTX and sticky_forbids(ctx.creds, info, tree.stat(ctx, node)):
            raise error(errno.EPERM)
        if is_dir and node.kind != st.S_IFDIR:
            raise error(errno.ENOTDIR)
        if not is_dir and node.kind == st.S_IFDIR:
            raise error(errno.EISDIR)


def _is_above(upper: Dir, directory: Dir | None) -> bool:
    while directory is not None:
        if directory is upper:
            return True
        directory = directory.parent
    return False

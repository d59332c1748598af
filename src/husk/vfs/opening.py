"""vfs: open(2) — from a name and flags to a host descriptor, with every error in Linux's order."""

from __future__ import annotations

import errno
import os
import stat as st

from husk.vfs.layer.content_copy import with_copies
from husk.vfs.node import Dir, error
from husk.vfs.permissions import READ, SEARCH, WRITE, new_mode, permitted, require, require_owner
from husk.vfs.walk import MAX_LINKS, RESOLVE_NO_SYMLINKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.access.landlock_rules import Domain
    from husk.vfs.mount_table import MountTable
    from husk.vfs.node import Context, Node, Stat
    from husk.vfs.placeholders import Placeholders
    from husk.vfs.running_programs import RunningPrograms
    from husk.vfs.walk import Trail, Walker

TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY
WANTS = (READ, WRITE, READ | WRITE, READ | WRITE)  # by access mode; 3 asks for both and gets neither


class Opened:
    """`host_fd` belongs to the caller. `without`: Landlock rights that the open file must lack. For a FIFO whose
    opening may block it is an O_PATH descriptor, and `fifo_flags` (else -1) are the flags to open it with
    (`Context.open_fifo`), without holding the vfs's lock. `made`: the file is new, and its name is noted. `info`: what
    stat said of a file that was opened for reading."""

    __slots__ = ("fifo_flags", "host_fd", "info", "made", "node", "without")

    def __init__(
        self,
        host_fd: int,
        node: Node,
        fifo_flags: int = -1,
        without: int = 0,
        *,
        made: bool = False,
        info: Stat | None = None,
    ) -> None:
        self.host_fd, self.node, self.fifo_flags, self.without, self.made = host_fd, node, fifo_flags, without, made
        self.info = info


class Opening:
    """Descriptors for names and nodes."""

    __slots__ = ("_invalidate", "_lock", "_placeholders", "_programs", "_state", "_walker")

    def __init__(
        self, table: MountTable, walker: Walker, placeholders: Placeholders, programs: RunningPrograms
    ) -> None:
        self._lock, self._invalidate, self._state = table.lock, table.invalidate, table.state
        self._walker, self._placeholders, self._programs = walker, placeholders, programs

    def open(self, ctx: Context, start: Dir, path: bytes, flags: int, mode: int, resolve: int = 0) -> Opened:
        if flags & os.O_PATH:
            flags &= os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
        return with_copies(self._lock, lambda: self._open(ctx, start, path, flags, mode, resolve))

    def _open(self, ctx: Context, start: Dir, path: bytes, flags: int, mode: int, resolve: int) -> Opened:
        if flags & TMPFILE and not flags & os.O_PATH:
            return self._tmpfile(ctx, start, path, flags, mode, resolve)
        trail = self._walker.trail(ctx, start, resolve)
        if flags & os.O_CREAT:
            if flags & os.O_DIRECTORY:
                raise error(errno.EINVAL)
            return self._create(ctx, start, path, flags, mode, trail)
        node = self._walker.resolve(ctx, start, path, trail, not flags & os.O_NOFOLLOW)
        return self._finish(ctx, node, flags, trail.where)

    def open_node(self, ctx: Context, node: Node, flags: int) -> Opened:
        """Open a node that is already known, as through /proc/self/fd/N."""
        if flags & os.O_PATH:
            flags &= os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
        flags &= ~(os.O_CREAT | os.O_EXCL)
        return with_copies(self._lock, lambda: self._finish(ctx, node, flags))

    def _create(self, ctx: Context, start: Dir, path: bytes, flags: int, mode: int, trail: Trail) -> Opened:
        while True:
            directory: Dir | None = self._walker.parent_of(ctx, start, path, trail)
            assert directory is not None
            if not trail.plain:
                node: Node = self._walker.resolve(ctx, directory, trail.last, trail, True) if trail.last else directory
                raise error(errno.EEXIST if flags & os.O_EXCL else errno.EISDIR)
            if trail.slash:
                raise error(errno.EISDIR)
            try:
                node = self._walker.last(ctx, directory, trail)
            except FileNotFoundError:
                try:
                    return self._make(ctx, directory, trail.last, flags, mode)
                except FileExistsError:
                    # A host process was faster, in a directory it shares with the box.
                    if flags & os.O_EXCL:
                        raise
                    continue
            if flags & os.O_EXCL:
                raise error(errno.EEXIST)
            if node.kind != st.S_IFLNK or flags & os.O_NOFOLLOW:
                break
            # A link at the end is followed by hand: even where it dangles, the file is created at its far end.
            trail.links += 1
            if trail.links > MAX_LINKS or trail.resolve & RESOLVE_NO_SYMLINKS:
                raise error(errno.ELOOP)
            if node.tree.follow(ctx, node) is not None or (trail.resolve and node.tree.is_magic(node)):
                trail.links -= 1
                node = self._walker.resolve(ctx, directory, trail.last, trail, True)
                directory = trail.where
                break
            start, path = directory, node.tree.readlink(ctx, node)
        if isinstance(node, Dir):
            raise error(errno.EISDIR)
        return self._finish(ctx, node, flags, directory)

    def _make(self, ctx: Context, directory: Dir, name: bytes, flags: int, mode: int) -> Opened:
        tree = directory.tree
        if directory.removed or tree.fixed_names:
            raise error(errno.ENOENT)
        if tree.read_only:
            raise error(errno.EROFS)
        tree.may_make(directory, name, st.S_IFREG)
        without = 0
        if ctx.domain is not None:
            without = self._require_new(ctx, ctx.domain, directory, flags)
        require(ctx.creds, tree.stat(ctx, directory), WRITE | SEARCH)
        self._invalidate(directory, False)
        # The mode of a new file binds the next open, not this one.
        bits = new_mode(ctx, directory, mode & 0o7777)
        node, fd = tree.create_open(ctx, directory, name, bits, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
        ctx.changed("added", directory, name)
        return Opened(fd, node, without=without, made=True)

    def _require_new(self, ctx: Context, domain: Domain, directory: Dir, flags: int) -> int:
        """Judge a new file before it is made: Linux makes it, and then may refuse to open it."""
        from husk.vfs.access.landlock_rules import MAKE_REG

        domain.require(ctx, directory, None, MAKE_REG)
        return domain.require_new_file(ctx, directory, flags)

    def _tmpfile(self, ctx: Context, start: Dir, path: bytes, flags: int, mode: int, resolve: int) -> Opened:
        if not flags & os.O_DIRECTORY or flags & os.O_CREAT or flags & os.O_ACCMODE not in (os.O_WRONLY, os.O_RDWR):
            raise error(errno.EINVAL)
        trail = self._walker.trail(ctx, start, resolve)
        directory = self._walker.resolve(ctx, start, path, trail, not flags & os.O_NOFOLLOW)
        if not isinstance(directory, Dir):
            raise error(errno.ENOTDIR)
        tree = directory.tree
        if tree.read_only:
            raise error(errno.EROFS)
        tree.may_change(directory)
        require(ctx.creds, tree.stat(ctx, directory), WRITE | SEARCH)
        if directory.removed:
            raise error(errno.EPERM)  # ext4's answer
        without = 0 if ctx.domain is None else ctx.domain.require_new_file(ctx, directory, flags)
        node, fd = tree.tmpfile(ctx, directory, new_mode(ctx, directory, mode & 0o7777), flags)
        return Opened(fd, node, without=without)

    def _finish(self, ctx: Context, node: Node, flags: int, where: Dir | None = None) -> Opened:
        """do_open and may_open: the node exists. `where` is the directory in which it was found."""
        kind, tree = node.kind, node.tree
        if flags & os.O_DIRECTORY and kind != st.S_IFDIR:
            raise error(errno.ENOTDIR)
        tree.may_use(node)
        if flags & os.O_PATH:
            if isinstance(node, Dir):
                return Opened(self._placeholders.open_path_only(node, flags), node)
            o_path_fd = tree.open(ctx, node, os.O_PATH) if tree.host_backed else -1
            return Opened(self._state.stand_in(node, o_path_fd, flags), node)
        want = WANTS[flags & os.O_ACCMODE]
        if flags & os.O_TRUNC:
            want |= WRITE
        if want & WRITE and kind != st.S_IFDIR:
            tree.may_change(node)
        if kind == st.S_IFREG and flags & os.O_TRUNC and tree.read_only:
            raise error(errno.EROFS)
        if kind == st.S_IFLNK:
            raise error(errno.ELOOP)
        if kind == st.S_IFDIR and want & WRITE:
            raise error(errno.EISDIR)
        info = tree.stat(ctx, node)
        require(ctx.creds, info, want)
        if flags & os.O_NOATIME:
            require_owner(ctx.creds, info)
        without = 0 if ctx.domain is None else ctx.domain.require_open(ctx, where, node, flags)
        # Placeholders, devices and synthesised files do not support O_DIRECT, and the host would not say so.
        if flags & os.O_DIRECT and (kind in (st.S_IFDIR, st.S_IFCHR) or (kind == st.S_IFREG and not tree.host_backed)):
            raise error(errno.EINVAL)
        if isinstance(node, Dir):
            path = self._state.mirror_path(node)
            if path:  # a watcher sees it opened
                searchable = permitted(ctx.creds.of_box(), info, SEARCH)
                return Opened(self._state.mirror_fd(path, flags, searchable=searchable), node)
            return Opened(self._placeholders.open(ctx, node, flags, info), node)
        if kind == st.S_IFSOCK:
            raise error(errno.ENXIO)
        if kind == st.S_IFREG and (flags & os.O_TRUNC or flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)):
            if tree.read_only:
                raise error(errno.EROFS)
            self._programs.require_not_running(info)
            fd = tree.open(ctx, node, flags)
            if flags & os.O_TRUNC:
                ctx.changed("changed", node)
            else:
                ctx.opened_for_writing(node, info.mtime)
            return Opened(fd, node, without=without)
        if kind == st.S_IFIFO:
            # Linux allows it on a read-only file system. But `ro` promises that nothing of the host is written to.
            if tree.read_only and flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR):
                raise error(errno.EROFS)
            pin = tree.pin_fifo(ctx, node, flags)
            flags &= ~(os.O_NOFOLLOW | os.O_CREAT)  # what is opened now is the link to the pin
            if not flags & os.O_NONBLOCK and flags & os.O_ACCMODE != os.O_RDWR:
                return Opened(pin, node, flags)
            try:
                return Opened(ctx.open_fifo(pin, flags), node)
            finally:
                os.close(pin)
        return Opened(tree.open(ctx, node, flags), node, without=without, info=info)

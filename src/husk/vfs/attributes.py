"""vfs: calls that show or change metadata — stat, access, mode, owner, times, size, extended attributes."""

from __future__ import annotations

import errno
import stat as st

from husk.vfs.clock import now
from husk.vfs.layer.content_copy import with_copies
from husk.vfs.node import ACL_ACCESS, ACLS, Dir, Entry, error
from husk.vfs.permissions import (
    READ,
    SEARCH,
    WRITE,
    chmod_result,
    is_owner,
    permitted,
    require,
    require_chown,
    require_owner,
    without_privilege,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final, Literal

    from husk.vfs.mount_table import MountTable
    from husk.vfs.node import Context, Node, Stat
    from husk.vfs.running_programs import RunningPrograms
    from husk.vfs.walk import Walker

NOW: Final[Literal["now"]] = "now"
XATTR_SIZE_MAX = 65536
XATTR_NAME_MAX = 255


class Attributes:
    """Everything about one node that is not its name or its content."""

    __slots__ = ("_invalidate", "_lock", "_programs", "_state", "_walker")

    def __init__(self, table: MountTable, walker: Walker, programs: RunningPrograms) -> None:
        self._lock, self._invalidate, self._state = table.lock, table.invalidate, table.state
        self._walker, self._programs = walker, programs

    def stat(self, ctx: Context, start: Dir, path: bytes, follow: bool = True) -> Stat:
        with self._lock:
            node = self._walker.resolve(ctx, start, path, self._walker.trail(ctx, start), follow)
            return node.tree.stat(ctx, node)

    def stat_node(self, ctx: Context, node: Node) -> Stat:
        with self._lock:
            return node.tree.stat(ctx, node)

    def readlink(self, ctx: Context, start: Dir, path: bytes) -> bytes:
        with self._lock:
            node = self._walker.resolve(ctx, start, path, self._walker.trail(ctx, start), False)
            if node.kind != st.S_IFLNK:
                raise error(errno.EINVAL)
            return node.tree.readlink(ctx, node)

    def access(self, ctx: Context, start: Dir, path: bytes, mode: int, follow: bool = True) -> None:
        with self._lock:
            node = self._walker.resolve(ctx, start, path, self._walker.trail(ctx, start), follow)
            self._access(ctx, node, mode)

    def access_node(self, ctx: Context, node: Node, mode: int) -> None:
        with self._lock:
            self._access(ctx, node, mode)

    def _access(self, ctx: Context, node: Node, mode: int) -> None:
        if not mode:
            return
        node.tree.may_use(node)
        if mode & WRITE:
            node.tree.may_change(node)
        require(ctx.creds, node.tree.stat(ctx, node), mode & 7)
        if mode & WRITE and node.tree.read_only and node.kind in (st.S_IFREG, st.S_IFDIR, st.S_IFLNK):
            raise error(errno.EROFS)

    def entries(self, ctx: Context, directory: Dir, after: int) -> Iterable[Entry]:
        """Entries after cookie `after`, `.` and `..` first."""
        with self._lock:
            dots: list[Entry] = []
            if after < 1:
                dots.append(Entry(b".", directory.tree.stat(ctx, directory).ino, st.S_IFDIR, 1))
            if after < 2:
                above = self._walker.up(directory, self._walker.trail(ctx, directory))
                dots.append(Entry(b"..", above.tree.number(ctx, above), st.S_IFDIR, 2))
            if directory.removed:
                return dots if not after else ()
            return _chain(dots, directory.tree.entries(ctx, directory, max(after, 2)))

    # -- changing ----------------------------------------------------------------------------------------------
    def chmod(self, ctx: Context, node: Node, mode: int) -> None:
        with self._lock:
            tree = node.tree
            if tree.read_only:
                raise error(errno.EROFS)
            tree.may_change(node)
            if node.kind == st.S_IFLNK:
                raise error(errno.EOPNOTSUPP)
            info = tree.stat(ctx, node)
            require_owner(ctx.creds, info)
            self._before(node)
            tree.set_mode(ctx, node, chmod_result(ctx.creds, info, mode))
            self._search_changed(ctx, node)
            ctx.changed("metadata", node)

    def chown(self, ctx: Context, node: Node, uid: int, gid: int) -> None:
        """-1 leaves one alone."""
        with self._lock:
            tree, creds = node.tree, ctx.creds
            if tree.read_only:
                raise error(errno.EROFS)
            tree.may_change(node)
            info = tree.stat(ctx, node)
            require_chown(creds, info, uid, gid)
            mode = info.mode
            if node.kind not in (st.S_IFDIR, st.S_IFLNK):
                mode = without_privilege(mode, info.gid in creds.groups)
            if mode != info.mode:
                require_owner(creds, info)
            self._before(node)
            tree.set_owner(ctx, node, uid, gid)
            if mode != info.mode:
                tree.set_mode(ctx, node, mode & 0o7777)
            self._search_changed(ctx, node)
            ctx.changed("metadata", node)

    def _before(self, node: Node) -> None:
        if isinstance(node, Dir):
            self._invalidate(node, True)

    def _search_changed(self, ctx: Context, node: Node) -> None:
        if isinstance(node, Dir):
            node.searchable = False
            if node.placeholder is not None:
                self._state.set_search(node, permitted(ctx.creds.of_box(), node.tree.stat(ctx, node), SEARCH))

    def utimens(
        self, ctx: Context, node: Node, atime: int | Literal["now"] | None, mtime: int | Literal["now"] | None
    ) -> None:
        """None leaves a time alone. Setting both to `NOW` takes write permission; all else takes the owner."""
        with self._lock:
            if atime is None and mtime is None:
                return
            tree = node.tree
            if tree.read_only:
                raise error(errno.EROFS)
            tree.may_change(node)
            info = tree.stat(ctx, node)
            if not is_owner(ctx.creds, info):
                if atime != NOW or mtime != NOW:
                    raise error(errno.EPERM)
                require(ctx.creds, info, WRITE)
            moment = now() if NOW in (atime, mtime) else 0
            tree.set_times(ctx, node, moment if atime == NOW else atime, moment if mtime == NOW else mtime)
            ctx.changed("metadata", node)

    def truncate(self, ctx: Context, start: Dir, path: bytes, size: int) -> None:
        if size < 0:
            raise error(errno.EINVAL)
        with_copies(self._lock, lambda: self._truncate(ctx, start, path, size))

    def _truncate(self, ctx: Context, start: Dir, path: bytes, size: int) -> None:
        trail = self._walker.trail(ctx, start)
        node = self._walker.resolve(ctx, start, path, trail, True)
        if node.kind != st.S_IFREG:
            raise error(errno.EISDIR if node.kind == st.S_IFDIR else errno.EINVAL)
        info = node.tree.stat(ctx, node)
        require(ctx.creds, info, WRITE)
        if node.tree.read_only:
            raise error(errno.EROFS)
        node.tree.may_change(node)
        if ctx.domain is not None:
            from husk.vfs.access.landlock_rules import TRUNCATE

            ctx.domain.require(ctx, trail.where, node, TRUNCATE)
        self._programs.require_not_running(info)
        if size > info.size:
            ctx.may_grow(size)
        node.tree.truncate(ctx, node, size)
        ctx.changed("changed", node)

    # -- extended attributes -----------------------------------------------------------------------------------
    def get_xattr(self, ctx: Context, node: Node, name: bytes) -> bytes:
        with self._lock:
            if name in ACLS and self._may_have_acl(node):
                node.tree.may_use(node)
                return node.tree.get_xattr(ctx, node, name)
            self._xattr(ctx, node, name, READ)
            return node.tree.get_xattr(ctx, node, name)

    def list_xattr(self, ctx: Context, node: Node) -> list[bytes]:
        with self._lock:
            try:
                node.tree.may_use(node)
            except PermissionError:
                return []  # Linux asks for no permission here, and `ls -l` lists every name
            return node.tree.list_xattr(ctx, node)

    def set_xattr(self, ctx: Context, node: Node, name: bytes, value: bytes, flags: int) -> None:
        with self._lock:
            if flags & ~3:
                raise error(errno.EINVAL)
            if len(value) > XATTR_SIZE_MAX:
                raise error(errno.E2BIG)
            if name in ACLS:
                self._set_acl(ctx, node, name, value)
                return
            self._xattr(ctx, node, name, WRITE)
            node.tree.set_xattr(ctx, node, name, value, flags)
            ctx.changed("metadata", node)

    def remove_xattr(self, ctx: Context, node: Node, name: bytes) -> None:
        with self._lock:
            if name in ACLS:
                self._set_acl(ctx, node, name, b"")
                return
            self._xattr(ctx, node, name, WRITE)
            node.tree.remove_xattr(ctx, node, name)
            ctx.changed("metadata", node)

    def _may_have_acl(self, node: Node) -> bool:
        return node.tree.keeps_acls and node.kind != st.S_IFLNK

    def _set_acl(self, ctx: Context, node: Node, name: bytes, value: bytes) -> None:
        """Linux's order: the value's form, the kind of file, the owner, and only then whether the ACL makes sense."""
        tree = node.tree
        if tree.read_only:
            raise error(errno.EROFS)
        tree.may_change(node)
        from husk.vfs.access.posix_acl import check, mode_of, pack, parse

        entries = parse(value)
        if not self._may_have_acl(node):
            raise error(errno.EOPNOTSUPP)
        if name != ACL_ACCESS and node.kind != st.S_IFDIR:
            if entries:
                raise error(errno.EACCES)
            return
        info = tree.stat(ctx, node)
        require_owner(ctx.creds, info)
        if entries:
            check(entries)
        mode, is_plain = info.mode, not entries
        if name == ACL_ACCESS:
            if entries:
                mode, is_plain = mode_of(entries, mode)
            mode = chmod_result(ctx.creds, info, mode)
        self._before(node)
        tree.set_acl(ctx, node, name, None if is_plain else pack(entries), mode & 0o7777)
        self._search_changed(ctx, node)
        ctx.changed("metadata", node)

    def _xattr(self, ctx: Context, node: Node, name: bytes, want: int) -> None:
        """xattr_permission: users may use user.* only, and only on files and directories."""
        if not 0 < len(name) <= XATTR_NAME_MAX:
            raise error(errno.ERANGE)
        if want & WRITE and node.tree.read_only:
            raise error(errno.EROFS)
        if want & WRITE:
            node.tree.may_change(node)
        absent = errno.EPERM if want & WRITE else errno.ENODATA
        if name.startswith((b"trusted.", b"security.")):
            raise error(absent)
        if name.startswith(b"system."):
            raise error(errno.EOPNOTSUPP)
        is_user = name.startswith(b"user.")
        if is_user and node.kind not in (st.S_IFREG, st.S_IFDIR):
            raise error(absent)
        info = node.tree.stat(ctx, node)
        if is_user and want & WRITE and node.kind == st.S_IFDIR and info.mode & st.S_ISVTX:
            require_owner(ctx.creds, info)
        require(ctx.creds, info, want)
        if not is_user:
            raise error(errno.EOPNOTSUPP)
        node.tree.may_use(node)
        if name == b"user.":
            raise error(errno.EINVAL)


def _chain(dots: list[Entry], rest: Iterable[Entry]) -> Iterator[Entry]:
    yield from dots
    yield from rest

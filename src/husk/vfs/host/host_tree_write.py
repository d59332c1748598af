"""vfs: a host directory that is mounted read-write.

The directory of a name is opened first, beneath the root and without following links; the name is then used relative
to that descriptor only. husk may run as root: a guest must not make a set-uid or set-gid file on the host, and every
change is made with the mount owner's credentials (`_as_owner`). So a race lost against another process of the host is
only as bad as the owner's own mistake. Making a file as root and giving it to the owner afterwards was rejected: its
name may lead to a file of root by then.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import is_fixed, make_as, open_beneath, set_times, stat_beneath
from husk.vfs.host.host_file import HOST_FLAGS, changed_stat
from husk.vfs.host.host_tree import HostDir, HostTree, Reached, identities
from husk.vfs.node import error
from husk.vfs.permissions import is_owner
from husk.vfs.pinned import Orphan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from husk.vfs.node import Context, Dir, Node

    T = TypeVar("T")

EXCHANGE = 2
OPENED = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW


class _At:
    """A host directory held open while names in it are used."""

    __slots__ = ("directory", "fd", "tree")

    def __init__(self, tree: HostTree, directory: Dir) -> None:
        self.tree, self.directory, self.fd = tree, directory, -1

    def __enter__(self) -> int:
        assert isinstance(self.directory, HostDir)
        self.fd = open_beneath(self.tree.fd, self.directory.rel(), OPENED)
        found = os.fstat(self.fd)
        if (found.st_dev, found.st_ino) != self.directory.key:
            os.close(self.fd)
            raise error(errno.ENOENT)
        return self.fd

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class WritableHostTree(HostTree):
    """A host directory with everything a guest may do in it. `owner`, where given, is the host owner of what the guest
    creates."""

    read_only = False

    def __init__(
        self,
        dev: int,
        host_path: bytes,
        *,
        uids: dict[int, int] | None = None,
        gids: dict[int, int] | None = None,
        owner: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(dev, host_path, uids=uids, gids=gids)
        self.owner = owner

    # -- new nodes ---------------------------------------------------------------------------------------------
    def create(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> Node:
        node, fd = self.create_open(ctx, directory, name, mode, os.O_WRONLY)
        os.close(fd)
        return node

    def create_open(self, ctx: Context, directory: Dir, name: bytes, mode: int, flags: int) -> tuple[Node, int]:
        """Only the descriptor that makes the file is not bound by the new file's mode."""
        with _At(self, directory) as at:
            host_flags = flags & HOST_FLAGS | os.O_CREAT | os.O_EXCL | os.O_NOCTTY | os.O_CLOEXEC
            fd = self._new(directory, name, lambda: _file(name, host_flags, harmless(mode), at))
            try:
                node = self.lookup(ctx, directory, name)
                self._named(directory, name)
                return node, fd
            except BaseException:
                os.close(fd)
                raise

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        if flags & os.O_TRUNC:  # truncating a set-uid file as root would leave it set-uid
            return self._as_owner(lambda: super(WritableHostTree, self).open(ctx, node, flags))
        return super().open(ctx, node, flags)

    def _as_owner(self, make: Callable[[], T], *, group: int = -1) -> T:
        """Call `make` as the mount's owner, without root's capabilities over other users' files. `group`: act with
        this group instead; the vfs has checked that the guest is in it."""
        if self.owner is None:
            return make()
        return make_as(self.owner[0], group if group >= 0 else self.owner[1], make)

    def _new(self, directory: Dir, name: bytes, make: Callable[[], T]) -> T:
        """Make a name that a look-up did not find. If it is there all the same, a rule may hide it: that is said."""
        try:
            return self._as_owner(make)
        except FileExistsError:
            if self.rules is not None and isinstance(directory, HostDir):
                self.rules.must_be_free(self.fd, directory.below(name))
            raise

    def mkdir(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> HostDir:
        with _At(self, directory) as at:
            self._new(directory, name, lambda: _directory(name, mode & 0o1777, at))
        child = self.lookup(ctx, directory, name)
        assert isinstance(child, HostDir)
        # One that is not as new was put there by another process meanwhile.
        if self.rules is not None and child.last is not None and child.last.mtime == child.last.ctime:
            self.rules.made_directory(child.key)
            self.rules.named(child.rel(), st.S_IFDIR, child.key)
        return child

    def _named(self, directory: Dir, name: bytes) -> None:
        """Tell the rules what the guest itself made, or moved there."""
        if self.rules is not None and isinstance(directory, HostDir):
            rel = directory.below(name)
            try:
                found = stat_beneath(self.fd, rel)
            except OSError:
                return  # gone meanwhile
            self.rules.named(rel, st.S_IFMT(found.mode), (found.dev, found.ino))

    def mknod(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> Node:
        with _At(self, directory) as at:
            self._new(
                directory,
                name,
                lambda: _special(lambda: os.mknod(name, st.S_IFMT(mode) | mode & 0o777, dir_fd=at), name, mode, at),
            )
        return self.lookup(ctx, directory, name)

    def bind(self, ctx: Context, directory: Dir, name: bytes, mode: int, make: Callable[[int, bytes], None]) -> Node:
        with _At(self, directory) as at:
            self._new(directory, name, lambda: _special(lambda: make(at, name), name, st.S_IFSOCK | mode, at))
        return self.lookup(ctx, directory, name)

    def symlink(self, ctx: Context, directory: Dir, name: bytes, target: bytes) -> None:
        with _At(self, directory) as at:
            self._new(directory, name, lambda: os.symlink(target, name, dir_fd=at))
        self._named(directory, name)

    def tmpfile(self, ctx: Context, directory: Dir, mode: int, flags: int) -> tuple[Node, int]:
        wanted = flags & (HOST_FLAGS | os.O_EXCL | os.O_TMPFILE) & ~os.O_NOFOLLOW | os.O_CLOEXEC
        with _At(self, directory) as at:
            fd = self._as_owner(lambda: _file(b".", wanted, harmless(mode), at))
        via = b"/proc/self/fd/%d" % fd
        return Orphan(self, via, (directory, b""), self.uids, self.gids, key=None), fd

    # -- names of nodes ----------------------------------------------------------------------------------------
    def link(self, ctx: Context, node: Node, directory: Dir, name: bytes) -> None:
        with _At(self, directory) as to:
            if isinstance(node, Orphan):
                with node.pinned() as path:
                    self._new(directory, name, lambda: os.link(path, name, dst_dir_fd=to, follow_symlinks=True))
            else:
                with Reached(self, node) as path:  # a symbolic link that was reached is not followed further
                    self._new(directory, name, lambda: os.link(path, name, dst_dir_fd=to, follow_symlinks=True))
        self._named(directory, name)

    def unlink(self, ctx: Context, directory: Dir, name: bytes, found: Node | None = None) -> None:
        with _At(self, directory) as at:
            gone = self._may_move(at, name) if self.rules is not None else None
            self._as_owner(lambda: os.unlink(name, dir_fd=at))
        if self.rules is not None and gone is not None:
            self.rules.gone(gone)

    def removal_is_local(self, directory: Dir) -> bool:
        # What is known below it the host has removed, and husk has not noticed.
        return isinstance(directory, HostDir) and not directory.children and not self.lost_some

    def rmdir(self, ctx: Context, directory: Dir, name: bytes) -> None:
        assert isinstance(directory, HostDir)
        self.lost_some = False  # if it was set, everything has just been forgotten
        with _At(self, directory) as at:
            gone = self._may_move(at, name)
            self._as_owner(lambda: os.rmdir(name, dir_fd=at))
        if self.rules is not None and gone is not None:
            self.rules.gone(gone)
        self._drop(directory, name)

    def rename(self, ctx: Context, old: Dir, old_name: bytes, new: Dir, new_name: bytes, flags: int) -> None:
        assert isinstance(old, HostDir)
        assert isinstance(new, HostDir)
        with _At(self, old) as at, _At(self, new) as to:
            self._may_move(at, old_name)
            replaced = self._may_move(to, new_name)
            self._may_take(new, new_name, old.children.get(old_name))
            if flags & EXCHANGE:
                self._may_take(old, old_name, new.children.get(new_name))
            if flags:
                self._as_owner(lambda: rename_with_flags(at, old_name, to, new_name, flags))
            else:
                self._as_owner(lambda: os.rename(old_name, new_name, src_dir_fd=at, dst_dir_fd=to))
        if self.rules is not None and replaced is not None and not flags & EXCHANGE:
            self.rules.gone(replaced)
        self._named(new, new_name)
        if flags & EXCHANGE:
            self._named(old, old_name)
        moved = old.children.pop(old_name, None)
        other = new.children.pop(new_name, None)
        if other is not None:
            if flags & EXCHANGE:
                other.parent, other.name = old, old_name
                old.children[old_name] = other
            else:
                other.removed = True
                other.fresh = None
        if moved is not None:
            moved.parent, moved.name = new, new_name
            new.children[new_name] = moved

    def _may_take(self, directory: HostDir, name: bytes, moved: HostDir | None) -> None:
        if self.rules is not None and moved is not None:
            self.rules.may_take(directory.below(name), moved.key)

    def _may_move(self, at: int, name: bytes) -> tuple[int, int] | None:
        """EBUSY, as for a mount point, where husk's own state lies in it, or a mount covers it. Else the identity of
        what is there."""
        try:
            found = stat_beneath(at, name)
        except FileNotFoundError:
            return None
        if is_fixed(self.fd, found.dev, found.ino):
            raise error(errno.EBUSY)
        identity = found.dev, found.ino
        if self.rules is not None:
            self.rules.must_not_name(identity)
        return identity

    def plain_changes(self, directory: Dir) -> bool:
        if self.owner is not None or not isinstance(directory, HostDir) or directory.removed:
            return False
        return self.rules is None or not self.rules.name_any(identities(directory))

    # -- metadata ----------------------------------------------------------------------------------------------
    def set_mode(self, ctx: Context, node: Node, mode: int) -> None:
        if isinstance(node, HostDir) and node.removed and node.last is not None:
            node.last = changed_stat(node.last, mode=st.S_IFDIR | mode & 0o7777)
            return
        self.distrust(node)
        wanted = mode & 0o7777 if node.kind == st.S_IFDIR else harmless(mode)
        with Reached(self, node, to_change=True) as path:
            group = os.stat(path).st_gid if wanted & st.S_ISGID else -1
            self._as_owner(lambda: os.chmod(path, wanted), group=group)

    def set_owner(self, ctx: Context, node: Node, uid: int, gid: int) -> None:
        shown = self.stat(ctx, node)
        # An id that is only shown as the guest's stays as it is on the host, where the guest's own group differs.
        uid, gid = -1 if uid == shown.uid else uid, -1 if gid == shown.gid else gid
        if gid == ctx.creds.gid:
            gid = next((host for host, shown in self.gids.items() if shown == gid), gid)
        self.distrust(node)
        try:
            with Reached(self, node, to_change=True) as path:  # of a symbolic link it is the link itself
                self._as_owner(lambda: os.chown(path, uid, gid), group=gid)
        except OSError:
            raise error(errno.EPERM) from None

    def set_times(self, ctx: Context, node: Node, atime: int | None, mtime: int | None) -> None:
        shown = self.stat(ctx, node)
        # Not the owner: the vfs allows only "now" for both times, for which write permission suffices.
        owner = is_owner(ctx.creds, shown)
        self.distrust(node)
        with Reached(self, node, to_change=True) as path:
            self._as_owner(lambda: set_times(-1, path, atime, mtime, True) if owner else os.utime(path))

    def truncate(self, ctx: Context, node: Node, size: int) -> None:
        # Not by opening it: a watcher sees that, too.
        with Reached(self, node, to_change=True) as path:
            self._as_owner(lambda: os.truncate(path, size))

    def set_xattr(self, ctx: Context, node: Node, name: bytes, value: bytes, flags: int) -> None:
        with Reached(self, node, to_change=True) as path:
            self._as_owner(lambda: os.setxattr(path, name, value, flags))

    def remove_xattr(self, ctx: Context, node: Node, name: bytes) -> None:
        with Reached(self, node, to_change=True) as path:
            self._as_owner(lambda: os.removexattr(path, name))


# husk's umask must not show; but a watcher of the directory must not see a change that changes nothing.


def _file(name: bytes, flags: int, mode: int, at: int) -> int:
    fd = os.open(name, flags, mode, dir_fd=at)
    try:
        if os.fstat(fd).st_mode & 0o7777 != mode:
            os.fchmod(fd, mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _directory(name: bytes, mode: int, at: int) -> None:
    os.mkdir(name, mode, dir_fd=at)
    wanted = mode | os.fstat(at).st_mode & st.S_ISGID
    # A watcher sees a directory being opened, so it is opened only where there is a reason.
    if os.stat(name, dir_fd=at, follow_symlinks=False).st_mode & 0o7777 != wanted:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        try:
            os.fchmod(fd, wanted)
        finally:
            os.close(fd)


def _special(make: Callable[[], None], name: bytes, mode: int, at: int) -> None:
    make()
    pin = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        made = os.fstat(pin).st_mode
        if made & 0o7777 != mode & 0o777 and st.S_IFMT(made) == st.S_IFMT(mode):
            os.chmod(b"/proc/self/fd/%d" % pin, mode & 0o777)
    finally:
        os.close(pin)


def rename_with_flags(at: int, old: bytes, to: int, new: bytes, flags: int) -> None:
    """renameat2, which Python does not offer. Rare enough that loading ctypes for it does not matter."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(at, old, to, new, flags) < 0:
        raise error(ctypes.get_errno())


def harmless(mode: int) -> int:
    """A file's mode without set-uid and set-gid: on the host its owner may be root."""
    return mode & 0o1777

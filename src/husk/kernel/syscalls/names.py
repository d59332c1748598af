"""mkdir(2), rmdir(2), unlink(2), rename(2), link(2), symlink(2), mknod(2) and their *at forms: names come and go."""

from __future__ import annotations

import errno
import stat as st

from husk.kernel.call import AT_FDCWD, Call, Reply, held_node, i32, path, start_dir, u32, working_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.node import Dir

AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = 0x200, 0x400, 0x1000
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4


def mkdir(call: Call) -> Reply:
    return _mkdir(call, AT_FDCWD, path(call, 0), u32(call, 1))


def mkdirat(call: Call) -> Reply:
    return _mkdir(call, i32(call, 0), path(call, 1), u32(call, 2))


def rmdir(call: Call) -> Reply:
    return _unlink(call, AT_FDCWD, path(call, 0), AT_REMOVEDIR)


def unlink(call: Call) -> Reply:
    return _unlink(call, AT_FDCWD, path(call, 0), 0)


def unlinkat(call: Call) -> Reply:
    flags = u32(call, 2)
    if flags & ~AT_REMOVEDIR:
        raise OSError(errno.EINVAL, "unknown flag")
    return _unlink(call, i32(call, 0), path(call, 1), flags)


def rename(call: Call) -> Reply:
    return _rename(call, AT_FDCWD, path(call, 0), AT_FDCWD, 1, 0)


def renameat(call: Call) -> Reply:
    return _rename(call, i32(call, 0), path(call, 1), i32(call, 2), 3, 0)


def renameat2(call: Call) -> Reply:
    flags = u32(call, 4)
    if flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT):
        raise OSError(errno.EINVAL, "unknown flag")
    if flags & RENAME_EXCHANGE and flags & (RENAME_NOREPLACE | RENAME_WHITEOUT):
        raise OSError(errno.EINVAL, "exchange stands alone")
    if flags & RENAME_WHITEOUT:
        raise OSError(errno.EPERM, "whiteouts are devices, which an unprivileged user cannot make")
    return _rename(call, i32(call, 0), path(call, 1), i32(call, 2), 3, flags)


def link(call: Call) -> Reply:
    return _link(call, AT_FDCWD, path(call, 0), AT_FDCWD, 1, 0)


def linkat(call: Call) -> Reply:
    flags = u32(call, 4)
    if flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH):
        raise OSError(errno.EINVAL, "unknown flag")
    return _link(call, i32(call, 0), path(call, 1), i32(call, 2), 3, flags)


def symlink(call: Call) -> Reply:
    return _symlink(call, path(call, 0), AT_FDCWD, path(call, 1))


def symlinkat(call: Call) -> Reply:
    return _symlink(call, path(call, 0), i32(call, 1), path(call, 2))


def mknod(call: Call) -> Reply:
    mode = _node_mode(u32(call, 1))
    return _mknod(call, AT_FDCWD, path(call, 0), mode)


def mknodat(call: Call) -> Reply:
    mode = _node_mode(u32(call, 2))
    return _mknod(call, i32(call, 0), path(call, 1), mode)


# -- what they mean ----------------------------------------------------------------------------------------------------


def _mkdir(call: Call, dirfd: int, name: bytes, mode: int) -> Reply:
    start = start_dir(call, dirfd, name)
    made = call.vfs.mkdir(call, start, name, mode & 0o1777)
    call.made_directory = start, name, made
    if made.parent is not None:
        _teach(call, made.parent, start, name.rstrip(b"/"))
    return 0


def _unlink(call: Call, dirfd: int, name: bytes, flags: int) -> Reply:
    start = start_dir(call, dirfd, name)
    remove = call.vfs.rmdir if flags & AT_REMOVEDIR else call.vfs.unlink
    _teach(call, remove(call, start, name), start, name)
    return 0


def _rename(call: Call, old_fd: int, old: bytes, new_fd: int, new_argument: int, flags: int) -> Reply:
    start = start_dir(call, old_fd, old)
    to, new = _second_name(call, new_fd, new_argument, lambda: call.vfs.parent(call, start, old))
    directory = call.vfs.rename(call, start, old, to, new, flags)
    _teach(call, directory, to, new)
    return 0


def _teach(call: Call, directory: Dir, start: Dir, name: bytes) -> None:
    """C may do the next change in `directory`, in which `name` came or went."""
    if directory.tree.writes_to_host or directory.tree.may_be_told(directory):
        call.made = start, name


def _second_name(call: Call, dirfd: int, argument: int, first: Callable[[], object]) -> tuple[Dir, bytes]:
    """Where the second name starts, and the name. Linux walks the first one before it looks at the second one's text or
    descriptor, so the first one's error wins."""
    try:
        name = path(call, argument)
        return start_dir(call, dirfd, name), name
    except OSError:
        first()
        raise


def _link(call: Call, old_fd: int, old: bytes, new_fd: int, new_argument: int, flags: int) -> Reply:
    if not old and flags & AT_EMPTY_PATH:
        node = working_directory(call) if old_fd == AT_FDCWD else held_node(call, old_fd)
        if node is None:
            raise OSError(errno.EXDEV, "not a file of this box")
        new = path(call, new_argument)
        call.vfs.link_node(call, node, start_dir(call, new_fd, new), new)
        return 0
    start, follow = start_dir(call, old_fd, old), bool(flags & AT_SYMLINK_FOLLOW)
    to, new = _second_name(call, new_fd, new_argument, lambda: call.vfs.walk(call, start, old, follow=follow))
    call.vfs.link(call, start, old, to, new, follow)
    return 0


def _symlink(call: Call, target: bytes, dirfd: int, name: bytes) -> Reply:
    if not target:
        raise OSError(errno.ENOENT, "a link to nothing")
    call.vfs.symlink(call, target, start_dir(call, dirfd, name), name)
    return 0


def _node_mode(mode: int) -> int:
    """may_mknod: the kind is looked at before the name."""
    kind = st.S_IFMT(mode) or st.S_IFREG
    if kind not in (st.S_IFREG, st.S_IFIFO, st.S_IFSOCK, st.S_IFCHR, st.S_IFBLK):
        raise OSError(errno.EPERM if kind == st.S_IFDIR else errno.EINVAL, "not made by mknod")
    return kind | mode & 0o7777


def _mknod(call: Call, dirfd: int, name: bytes, mode: int) -> Reply:
    # A device needs a capability that no guest has; the vfs says so, after it has looked at the name.
    call.vfs.mknod(call, start_dir(call, dirfd, name), name, mode)
    return 0

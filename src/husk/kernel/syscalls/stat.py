"""stat(2), lstat(2), fstat(2), newfstatat(2), statx(2), statfs(2), fstatfs(2), access(2), faccessat(2), faccessat2(2),
readlink(2), readlinkat(2): asking about a name or a descriptor."""

from __future__ import annotations

import errno
import os
import stat as st

from husk.abi.structs import pack_stat, pack_statfs, pack_statx
from husk.kernel.call import (
    AT_FDCWD,
    Call,
    Reply,
    held_node,
    i32,
    identified,
    path,
    start_dir,
    u32,
    working_directory,
)
from husk.kernel.fd_tables import stat_held
from husk.vfs.node import Node, Stat

AT_SYMLINK_NOFOLLOW, AT_EACCESS, AT_NO_AUTOMOUNT, AT_EMPTY_PATH = 0x100, 0x200, 0x800, 0x1000
AT_STATX_SYNC_TYPE = 0x6000
STATX_RESERVED = 0x80000000
OVERLAY, TMPFS = 0x794C7630, 0x01021994
# What /proc/PID/fd/N of a descriptor without a name begins with, and the file system that holds such things.
NAMELESS = {b"pipe:": 0x50495045, b"socket:": 0x534F434B, b"anon_inode:": 0x09041934}


def stat(call: Call) -> Reply:
    return _stat(call, AT_FDCWD, path(call, 0), 0, call.args[1])


def lstat(call: Call) -> Reply:
    return _stat(call, AT_FDCWD, path(call, 0), AT_SYMLINK_NOFOLLOW, call.args[1])


def fstat(call: Call) -> Reply:
    call.raw.write(call.args[1], pack_stat(_stat_fd(call, i32(call, 0))))
    return 0


def newfstatat(call: Call) -> Reply:
    flags = u32(call, 3)
    if flags & ~(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH):
        raise OSError(errno.EINVAL, "unknown flag")
    return _stat(call, i32(call, 0), _path_or_empty(call, 1, flags), flags, call.args[2])


def statx(call: Call) -> Reply:
    flags, mask = u32(call, 2), u32(call, 3)
    known = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE
    if mask & STATX_RESERVED or flags & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE or flags & ~known:
        raise OSError(errno.EINVAL, "unknown flag")
    found = _find(call, i32(call, 0), _path_or_empty(call, 1, flags), flags)
    root = st.S_ISDIR(found.mode) and call.vfs.is_mount_root(call, found)
    call.raw.write(call.args[4], pack_statx(found, mount_root=root))
    return 0


def statfs(call: Call) -> Reply:
    node = call.vfs.walk(call, start_dir(call, AT_FDCWD, name := path(call, 0)), name)
    return _statfs(call, node)


def fstatfs(call: Call) -> Reply:
    fd = i32(call, 0)
    node = held_node(call, fd)
    if node is None:
        magic = next((number for start, number in NAMELESS.items() if call.raw.fd_link(fd).startswith(start)), TMPFS)
        call.raw.write(call.args[1], pack_statfs(None, magic))
        return 0
    return _statfs(call, node)


def access(call: Call) -> Reply:
    mode = _access_mode(call, 1)
    return _access(call, AT_FDCWD, path(call, 0), mode, 0)


def faccessat(call: Call) -> Reply:
    mode = _access_mode(call, 2)
    return _access(call, i32(call, 0), path(call, 1), mode, 0)


def faccessat2(call: Call) -> Reply:
    mode, flags = _access_mode(call, 2), u32(call, 3)
    if flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH):
        raise OSError(errno.EINVAL, "unknown flag")
    return _access(call, i32(call, 0), path(call, 1), mode, flags)


def readlink(call: Call) -> Reply:
    room = _room(call, 2)
    return _readlink(call, AT_FDCWD, path(call, 0), call.args[1], room)


def readlinkat(call: Call) -> Reply:
    room = _room(call, 3)
    return _readlink(call, i32(call, 0), path(call, 1), call.args[2], room)


# -- what they mean ----------------------------------------------------------------------------------------------------


def _path_or_empty(call: Call, n: int, flags: int) -> bytes:
    """With AT_EMPTY_PATH a null pointer stands for the empty name (Linux 6.11 and later)."""
    return b"" if flags & AT_EMPTY_PATH and not call.args[n] else path(call, n)


def _stat(call: Call, dirfd: int, name: bytes, flags: int, to: int) -> Reply:
    call.raw.write(to, pack_stat(_find(call, dirfd, name, flags)))
    return 0


def _find(call: Call, dirfd: int, name: bytes, flags: int) -> Stat:
    if not name and flags & AT_EMPTY_PATH:
        return call.vfs.stat_node(call, working_directory(call)) if dirfd == AT_FDCWD else _stat_fd(call, dirfd)
    start = start_dir(call, dirfd, name)
    call.looked_up = start, name
    return call.vfs.stat(call, start, name, not flags & AT_SYMLINK_NOFOLLOW)


def _stat_fd(call: Call, fd: int) -> Stat:
    node, link, held = identified(call, fd)
    if node is None:
        if st.S_ISREG(held.st_mode):
            call.kernel.names.held_unknown(link, held, call.kernel.identity.showing(held.st_dev))
        return stat_held(call, fd)
    try:
        found = call.vfs.stat_node(call, node)
    except FileNotFoundError:  # a host process took the name away; the open file is still there
        found = stat_held(call, fd)
        found.dev = node.tree.dev
        return found
    if node.kind == st.S_IFREG and not call.vfs.is_copied(node, held):
        # Perhaps its name is gone: then the open file alone says how large it is.
        host = call.raw.fd_stat(fd)
        # The stand-in for an O_PATH descriptor is empty, so its size means nothing.
        if host.size or not call.vfs.state.is_path_only(call.raw.fd_link(fd)):
            found.size, found.blocks = host.size, host.blocks
    if node.is_constant and not call.vfs.state.is_path_only(link):
        call.kernel.names.held_constant(held, found)
    return found


def _statfs(call: Call, node: Node) -> Reply:
    from husk.vfs.mounts import MAGIC, mount_flags  # here, not above: few programs ask, and starting must be quick

    tree = node.tree
    host_path = tree.statfs_path()
    host = os.statvfs(host_path) if host_path else None
    packed = pack_statfs(host, MAGIC.get(tree.fstype, OVERLAY), fsid=tree.dev, flags=mount_flags(tree))
    call.raw.write(call.args[1], packed)
    return 0


def _access_mode(call: Call, n: int) -> int:
    mode = i32(call, n)
    if mode & ~(os.R_OK | os.W_OK | os.X_OK):
        raise OSError(errno.EINVAL, "unknown mode")
    return mode


def _access(call: Call, dirfd: int, name: bytes, mode: int, flags: int) -> Reply:
    if not name and flags & AT_EMPTY_PATH:
        node = working_directory(call) if dirfd == AT_FDCWD else held_node(call, dirfd)
        if node is not None:
            call.vfs.access_node(call, node, mode)
        return 0
    start = start_dir(call, dirfd, name)
    call.looked_up = start, name
    call.vfs.access(call, start, name, mode, not flags & AT_SYMLINK_NOFOLLOW)
    return 0


def _room(call: Call, n: int) -> int:
    size = i32(call, n)
    if size <= 0:
        raise OSError(errno.EINVAL, "no room")
    return size


def _readlink(call: Call, dirfd: int, name: bytes, to: int, size: int) -> Reply:
    if not name and dirfd != AT_FDCWD:  # an O_PATH descriptor of the link itself
        node = held_node(call, dirfd)
        if node is None or node.kind != st.S_IFLNK:
            raise OSError(errno.ENOENT, "not a symbolic link")
        target = node.tree.readlink(call, node)
    else:
        start = start_dir(call, dirfd, name)
        call.looked_up = start, name
        target = call.vfs.readlink(call, start, name)
    target = target[:size]
    call.raw.write(to, target)
    return len(target)

"""chmod(2), chown(2), utime(2), truncate(2), fallocate(2), and their f*, l* and *at forms: attributes of files."""

from __future__ import annotations

import errno
import fcntl
import os
import stat as st
import struct

from husk.kernel.call import (
    AT_FDCWD,
    CONTINUE,
    Call,
    Refused,
    Reply,
    duplicate,
    held_node,
    i32,
    i64,
    open_link,
    path,
    start_dir,
    u32,
    working_directory,
)
from husk.vfs.node import Node
from husk.vfs.vfs import NOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    When = int | Literal["now"] | None

AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = 0x100, 0x1000
UTIME_NOW, UTIME_OMIT = 0x3FFFFFFF, 0x3FFFFFFE
F_SEAL_EXEC = 0x20  # set by MFD_NOEXEC_SEAL
TAKES_NOTHING = (0x3, 0x8, 0x20)  # modes of fallocate: punch a hole (and keep the size), collapse, insert a hole


def chmod(call: Call) -> Reply:
    return _chmod(call, _node(call, AT_FDCWD, path(call, 0), 0), u32(call, 1))


def fchmod(call: Call) -> Reply:
    fd = i32(call, 0)
    node = _held(call, fd)
    return _chmod(call, node, u32(call, 1)) if node is not None else _chmod_nameless(call, fd, u32(call, 1))


def fchmodat(call: Call) -> Reply:
    return _chmod(call, _node(call, i32(call, 0), path(call, 1), 0), u32(call, 2))


def fchmodat2(call: Call) -> Reply:
    flags = _at_flags(call, 3)
    return _chmod(call, _node(call, i32(call, 0), path(call, 1), flags), u32(call, 2))


def chown(call: Call) -> Reply:
    return _chown(call, _node(call, AT_FDCWD, path(call, 0), 0), i32(call, 1), i32(call, 2))


def lchown(call: Call) -> Reply:
    return _chown(call, _node(call, AT_FDCWD, path(call, 0), AT_SYMLINK_NOFOLLOW), i32(call, 1), i32(call, 2))


def fchown(call: Call) -> Reply:
    return _chown(call, _held(call, i32(call, 0)), i32(call, 1), i32(call, 2))


def fchownat(call: Call) -> Reply:
    flags = _at_flags(call, 4)
    return _chown(call, _node(call, i32(call, 0), path(call, 1), flags), i32(call, 2), i32(call, 3))


def utime(call: Call) -> Reply:
    node_of = path(call, 0)
    if call.args[1]:
        seconds = struct.unpack("<qq", call.raw.read(call.args[1], 16))
        when: tuple[When, When] = (seconds[0] * 10**9, seconds[1] * 10**9)
    else:
        when = (NOW, NOW)
    return _utimes(call, _node(call, AT_FDCWD, node_of, 0), *when)


def utimes(call: Call) -> Reply:
    name, when = path(call, 0), _timevals(call, 1)
    return _utimes(call, _node(call, AT_FDCWD, name, 0), *when)


def futimesat(call: Call) -> Reply:
    when = _timevals(call, 2)
    if not call.args[1]:
        if i32(call, 0) == AT_FDCWD:
            raise OSError(errno.EFAULT, "no name")
        return _utimes(call, _held(call, i32(call, 0)), *when)
    return _utimes(call, _node(call, i32(call, 0), path(call, 1), 0), *when)


def utimensat(call: Call) -> Reply:
    raw = struct.unpack("<qqqq", call.raw.read(call.args[2], 32)) if call.args[2] else None
    if raw is not None and raw[1] == raw[3] == UTIME_OMIT:
        return 0  # Linux does not even look the file up
    if call.args[1]:
        name = path(call, 1)
        node = _node(call, i32(call, 0), name, _at_flags(call, 3))
    else:
        if i32(call, 0) == AT_FDCWD:
            raise OSError(errno.EFAULT, "no name")
        if u32(call, 3):
            raise OSError(errno.EINVAL, "flags need a name")
        node = _held(call, i32(call, 0))
    # Only now are the numbers looked at.
    when = (NOW, NOW) if raw is None else (_timespec(raw[0], raw[1]), _timespec(raw[2], raw[3]))
    return _utimes(call, node, *when)


def truncate(call: Call) -> Reply:
    size = i64(call, 1)
    if size < 0:
        raise OSError(errno.EINVAL, "a negative size")
    name = path(call, 0)
    call.vfs.truncate(call, start_dir(call, AT_FDCWD, name), name, size)
    return 0


def fallocate(call: Call) -> Reply:
    """Its arguments are all in registers, so the host does what husk judged.

    husk enforces the disk limit by looking now and then, and this call can take all the space in a moment, past
    RLIMIT_FSIZE where the file's size stays. Some file systems lack the call, so programs can write instead, which is
    slower. Rejected: counting ahead. husk does not learn when the host has done the call, so it would count twice."""
    if call.kernel.disk_is_limited and u32(call, 1) not in TAKES_NOTHING:
        open_link(call, i32(call, 0))
        raise Refused(errno.EOPNOTSUPP, "the box's disk is limited, and one call could take all of it; write instead")
    return CONTINUE


# -- what they mean ----------------------------------------------------------------------------------------------------


def _at_flags(call: Call, n: int) -> int:
    flags = u32(call, n)
    if flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH):
        raise OSError(errno.EINVAL, "unknown flag")
    return flags


def _node(call: Call, dirfd: int, name: bytes, flags: int) -> Node | None:
    if not name and flags & AT_EMPTY_PATH:
        return working_directory(call) if dirfd == AT_FDCWD else held_node(call, dirfd)
    return call.vfs.walk(call, start_dir(call, dirfd, name), name, follow=not flags & AT_SYMLINK_NOFOLLOW)


def _held(call: Call, fd: int) -> Node | None:
    open_link(call, fd)
    return held_node(call, fd)


def _chmod(call: Call, node: Node | None, mode: int) -> Reply:
    if node is not None:
        call.vfs.chmod(call, node, mode & 0o7777)
    return 0


def _chmod_nameless(call: Call, fd: int, mode: int) -> Reply:
    """A socket's mode becomes that of the name it is bound to later. Any other file without a name may come from husk's
    caller, as standard input: the call is accepted, without effect, unless a seal forbids it."""
    dup = duplicate(call, fd)
    try:
        now = os.fstat(dup).st_mode
        if st.S_ISSOCK(now):
            os.fchmod(dup, mode & 0o777)
        elif (now ^ mode) & 0o111 and st.S_ISREG(now) and _sealed_executable(dup):
            raise OSError(errno.EPERM, "the file is sealed with F_SEAL_EXEC")
    finally:
        os.close(dup)
    return 0


def _sealed_executable(fd: int) -> bool:
    try:
        return bool(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & F_SEAL_EXEC)
    except OSError:
        return False  # only memory files have seals


def _chown(call: Call, node: Node | None, uid: int, gid: int) -> Reply:
    if node is not None:
        call.vfs.chown(call, node, uid, gid)
    return 0


def _utimes(call: Call, node: Node | None, atime: When, mtime: When) -> Reply:
    if node is not None:
        call.vfs.utimens(call, node, atime, mtime)
    return 0


def _timevals(call: Call, n: int) -> tuple[When, When]:
    if not call.args[n]:
        return NOW, NOW
    a, a_us, m, m_us = struct.unpack("<qqqq", call.raw.read(call.args[n], 32))
    if not (0 <= a_us < 10**6 and 0 <= m_us < 10**6):
        raise OSError(errno.EINVAL, "microseconds out of range")
    return a * 10**9 + a_us * 1000, m * 10**9 + m_us * 1000


def _timespec(seconds: int, ns: int) -> When:
    if ns == UTIME_NOW:
        return NOW
    if ns == UTIME_OMIT:
        return None
    if not 0 <= ns < 10**9:
        raise OSError(errno.EINVAL, "nanoseconds out of range")
    return seconds * 10**9 + ns

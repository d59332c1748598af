"""open(2), openat(2), openat2(2), creat(2): turn a guest name into a guest descriptor."""

from __future__ import annotations

import errno
import os
import stat as st
from _struct import unpack_from  # the bare C module: see cli/cmd_run.py

from husk.kernel.call import ANSWERED, AT_FDCWD, Call, GiveFd, Reply, held_dir, i32, path, start_dir, u32
from husk.vfs.node import Dir

O_TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY
# The flags open(2) knows. open and openat ignore other bits; openat2 gives EINVAL.
KNOWN_FLAGS = (
    os.O_ACCMODE
    | os.O_CREAT
    | os.O_EXCL
    | os.O_NOCTTY
    | os.O_TRUNC
    | os.O_APPEND
    | os.O_NONBLOCK
    | os.O_DSYNC
    | os.O_SYNC
    | 0o20000
    | os.O_DIRECT
    | 0o100000
    | os.O_DIRECTORY
    | os.O_NOFOLLOW
    | os.O_NOATIME
    | os.O_CLOEXEC
    | os.O_PATH
    | O_TMPFILE
)
RESOLVE_ALL = 0x3F
RESOLVE_IN_ROOT, RESOLVE_CACHED = 0x10, 0x20


def open(call: Call) -> Reply:
    flags = _build_flags(u32(call, 1) & KNOWN_FLAGS)
    return _open(call, AT_FDCWD, path(call, 0), flags, u32(call, 2))


def openat(call: Call) -> Reply:
    flags = _build_flags(u32(call, 2) & KNOWN_FLAGS)
    return _open(call, i32(call, 0), path(call, 1), flags, u32(call, 3))


def creat(call: Call) -> Reply:
    return _open(call, AT_FDCWD, path(call, 0), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, u32(call, 1))


def openat2(call: Call) -> Reply:
    size = call.args[3]
    if size < 24:
        raise OSError(errno.EINVAL, "struct open_how is too small")
    if size > 4096:
        raise OSError(errno.E2BIG, "struct open_how is too large")
    how = call.raw.read(call.args[2], size)
    if any(how[24:]):
        raise OSError(errno.E2BIG, "struct open_how has fields husk does not know")
    flags, mode, resolve = unpack_from("<QQQ", how)
    if flags & ~KNOWN_FLAGS or resolve & ~RESOLVE_ALL or mode & ~0o7777:
        raise OSError(errno.EINVAL, "unknown flag")
    if mode and not flags & (os.O_CREAT | O_TMPFILE):
        raise OSError(errno.EINVAL, "a mode without anything to create")
    if flags & os.O_PATH and flags & ~(os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC):
        raise OSError(errno.EINVAL, "O_PATH takes few companions")
    flags = _build_flags(flags)
    if resolve & RESOLVE_CACHED:
        raise OSError(errno.EAGAIN, "nothing is promised to be cached")
    return _open(call, i32(call, 0), path(call, 1), flags, mode, resolve)


def open_path(call: Call, dirfd: int, name: bytes, cloexec: int, follow: bool) -> Reply:
    """open_tree(2) without its privileged flag."""
    return _open(call, dirfd, name, os.O_PATH | cloexec | (0 if follow else os.O_NOFOLLOW), 0)


def _build_flags(flags: int) -> int:
    """The checks of Linux's build_open_flags, which come before the name."""
    if not flags & os.O_PATH and flags & os.O_CREAT and flags & os.O_DIRECTORY:
        raise OSError(errno.EINVAL, "a directory is not made by open")
    nameless = not flags & os.O_PATH and flags & O_TMPFILE
    if nameless and (not flags & os.O_DIRECTORY or flags & os.O_ACCMODE == os.O_RDONLY):
        raise OSError(errno.EINVAL, "a file without a name that could not be written")
    return flags


def _open(call: Call, dirfd: int, name: bytes, flags: int, mode: int, resolve: int = 0) -> Reply:
    # Linux looks for a free descriptor before it looks at the name: nothing is made or truncated without one.
    if name and flags & (os.O_CREAT | os.O_TRUNC) and not flags & os.O_PATH and call.raw.table_is_full():
        raise OSError(errno.EMFILE, "no descriptor is free")
    # With RESOLVE_IN_ROOT even an absolute name begins at the descriptor.
    start = held_dir(call, dirfd) if name and resolve & RESOLVE_IN_ROOT else start_dir(call, dirfd, name)
    cloexec = bool(flags & os.O_CLOEXEC)
    if not flags & (os.O_ACCMODE | os.O_CREAT | os.O_TRUNC):
        call.looked_up = start, name
    # O_CLOEXEC describes the descriptor, not the file: the vfs must not see it.
    opened = call.vfs.open(call, start, name, flags & ~os.O_CLOEXEC, mode & 0o7777, resolve)
    call.kernel.events.opened(call, name, flags, opened)
    if isinstance(opened.node, Dir):
        call.found = opened.node
    if flags & os.O_CREAT and (opened.made or opened.node.tree.writes_to_host):
        call.made = start, name
    if opened.without:
        from husk.kernel.syscalls.restricting import reopen_without

        opened.host_fd = reopen_without(call, opened.node, opened.host_fd, opened.without)
    # Imported here: few programs open a FIFO or a terminal, and every start would pay for it.
    if opened.fifo_flags >= 0:
        from husk.kernel.blocking import later, patiently

        pin, fifo_flags = opened.host_fd, opened.fifo_flags

        def wait() -> Reply:
            return GiveFd(patiently(call, lambda: call.open_fifo(pin, fifo_flags)), cloexec=cloexec, alone=True)

        return later(call, wait, pin)
    if opened.node.kind == st.S_IFCHR and not flags & os.O_PATH:
        from husk.kernel.syscalls.tty import hand_over

        return hand_over(call, opened.node, opened.host_fd, flags)
    if flags & os.O_PATH:
        call.kernel.names.opened_path(opened.node, opened.host_fd)
        return _give_path(call, opened.host_fd, cloexec=cloexec)
    call.kernel.names.opened(opened.node, opened.host_fd, opened.info, made=opened.made)
    shared = bool(flags & os.O_ACCMODE) or opened.node.kind == st.S_IFIFO or call.kernel.names.watched
    return GiveFd(opened.host_fd, cloexec=cloexec, alone=shared)


def _give_path(call: Call, fd: int, *, cloexec: bool) -> Reply:
    """seccomp puts no O_PATH descriptor into a guest's table, so the guest is made to receive one as a message."""
    try:
        if call.raw.give_path(fd, cloexec) != -errno.EBUSY:
            return ANSWERED
        # Another process traces the thread. Then it gets an open file without access, by the mode that Linux keeps for
        # "neither read nor write"; a directory has no such mode.
        mode = os.O_RDONLY if st.S_ISDIR(os.fstat(fd).st_mode) else os.O_ACCMODE
        return GiveFd(os.open(b"/proc/self/fd/%d" % fd, mode | os.O_CLOEXEC), cloexec=cloexec)
    finally:
        os.close(fd)

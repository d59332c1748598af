"""vfs: reopening /proc/PID/fd/N — a file that no tree has a name for.

husk may run as root, and inherited stdio may be a host file, so the host's own permission check says nothing here. The
rule: the new descriptor never gives more access than the one the guest holds. Linux allows more for pipes and memfds
(it checks the inode's owner), but husk cannot tell who made an inherited one.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.proc.view import HostTask


def reopen(task: HostTask, fd: int, flags: int) -> int:
    """A new descriptor (host, close-on-exec) of the file that the task's descriptor `fd` is open on."""
    pin = pin_held(task, fd, flags)
    try:
        return os.open(b"/proc/self/fd/%d" % pin, flags & ~(os.O_NOFOLLOW | os.O_CREAT) | os.O_CLOEXEC | os.O_NOCTTY)
    finally:
        os.close(pin)


def pin_held(task: HostTask, fd: int, flags: int) -> int:
    """An O_PATH descriptor of that file, which may be opened with `flags`.

    The guest may exchange descriptors meanwhile. So husk pins the file first, then reads access mode and identity at
    once (one fdinfo text has both for one open file), and compares the identity with what was pinned.
    """
    pin = os.open(b"fd/%d" % fd, os.O_PATH | os.O_CLOEXEC, dir_fd=task.fd)
    try:
        kind = st.S_IFMT(os.fstat(pin).st_mode)
        if kind == st.S_IFSOCK:
            raise OSError(errno.ENXIO, "a socket cannot be opened")
        if kind in (st.S_IFDIR, st.S_IFLNK):
            raise OSError(errno.EACCES, "not a file")
        held = _fields(task.read(b"fdinfo/%d" % fd))
        mine = _fields(read_host(b"/proc/self/fdinfo/%d" % pin))
        if (held[b"mnt_id"], held[b"ino"]) != (mine[b"mnt_id"], mine[b"ino"]):
            raise OSError(errno.ENOENT, "the descriptor changed meanwhile")
        _no_more_than(int(held[b"flags"], 8), flags)
    except BaseException:
        os.close(pin)
        raise
    return pin


def _no_more_than(held: int, wanted: int) -> None:
    if wanted & os.O_PATH:
        return
    have, want = held & os.O_ACCMODE, wanted & os.O_ACCMODE
    if held & os.O_PATH or have not in (os.O_RDWR, want) or (wanted & os.O_TRUNC and have == os.O_RDONLY):
        raise OSError(errno.EACCES, "the guest does not hold it with that access")


def _fields(text: bytes) -> dict[bytes, bytes]:
    return {key: value.strip() for key, _, value in (line.partition(b":") for line in text.split(b"\n"))}

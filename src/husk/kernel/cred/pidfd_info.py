"""kernel: PIDFD_GET_INFO — what a pidfd tells of its process, asked of the host and shown in the guest's numbers."""

from __future__ import annotations

import errno
import os
import struct

from husk.kernel.call import Call, duplicate, open_link

PIDFD = b"anon_inode:[pidfd]"
CGROUP = 4  # PIDFD_INFO_CGROUPID
CREDENTIALS = 2  # PIDFD_INFO_CREDS
# mask and cgroup; pid, tgid and ppid; real, effective, saved and file-system ids, in pairs of uid and gid
NUMBERS = struct.Struct("<QQ3I8I")
ROOT_CGROUP = 1  # its number in every hierarchy; /proc/PID/cgroup shows the root, too


def answer_pidfd_info(call: Call, fd: int, command: int, address: int) -> int:
    """`command` is one of `abi.ioctls.PROCESS`, whose number has the size of the answer in it."""
    import fcntl  # not above: a box that never asks should not pay for it

    if open_link(call, fd) != PIDFD:
        raise OSError(errno.ENOTTY, "not a pidfd")
    if not address:
        raise OSError(errno.EINVAL, "nowhere to put the answer")
    answer = bytearray(call.raw.read(address, command >> 16 & 0x3FFF))
    pidfd = duplicate(call, fd)
    try:
        if os.readlink(b"/proc/self/fd/%d" % pidfd) != PIDFD:
            raise OSError(errno.ENOTTY, "the guest has put another file under the number")
        fcntl.ioctl(pidfd, command, answer)
    finally:
        os.close(pidfd)
    _show(call, answer)
    call.raw.write(address, bytes(answer))
    return 0


def _show(call: Call, answer: bytearray) -> None:
    """Change what the host said of the process to what the guest may know."""
    tasks = call.kernel.tasks
    mask, _, pid, tgid, ppid, *ids = NUMBERS.unpack_from(answer)
    if not (tasks.guest_of(tgid) if tgid else tasks.own_namespace):
        # Without a pid namespace a guest can open a pidfd of any process. One that has ended has no number any more.
        raise OSError(errno.ESRCH, "no process of this box")
    if mask & CREDENTIALS:
        kept = tasks.ids_of(tgid)
        box = call.vfs.context.creds
        uids, gids = (kept.uids, kept.gids) if kept is not None else ((box.uid,) * 4, (box.gid,) * 4)
        ids = [each for pair in zip(uids, gids, strict=True) for each in pair]
    cgroup = ROOT_CGROUP if mask & CGROUP else 0
    if ppid == tasks.reaper and tasks.own_namespace:
        ppid = 1  # as getppid says
    else:
        ppid = ppid and tasks.shows(ppid)
    pid, tgid = pid and tasks.guest_of(pid), tgid and tasks.guest_of(tgid)
    NUMBERS.pack_into(answer, 0, mask, cgroup, pid, tgid, ppid, *ids)

"""inotify_add_watch(2): watch a file. The queue is the host's own, and the other inotify calls are native."""

from __future__ import annotations

import errno
import os

from husk.kernel.call import AT_FDCWD, Call, Refused, Reply, duplicate, i32, open_link, path, start_dir, u32

IN_ALL_EVENTS, IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED = 0xFFF, 0x2000, 0x4000, 0x8000
IN_ONLYDIR, IN_DONT_FOLLOW, IN_EXCL_UNLINK = 0x01000000, 0x02000000, 0x04000000
IN_MASK_CREATE, IN_MASK_ADD, IN_ISDIR, IN_ONESHOT = 0x10000000, 0x20000000, 0x40000000, 0x80000000
KNOWN = IN_ALL_EVENTS | IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK
KNOWN |= IN_MASK_CREATE | IN_MASK_ADD | IN_ISDIR | IN_ONESHOT


def inotify_add_watch(call: Call) -> Reply:
    fd, mask = i32(call, 0), u32(call, 2)
    if not mask & KNOWN:
        raise OSError(errno.EINVAL, "nothing to watch for")
    link = open_link(call, fd)
    if mask & IN_MASK_ADD and mask & IN_MASK_CREATE:
        raise OSError(errno.EINVAL, "add to a watch that is not to exist")
    if link != b"anon_inode:inotify":
        raise OSError(errno.EINVAL, "not an inotify descriptor")
    return _watch(call, fd, path(call, 1), mask)


def _watch(call: Call, fd: int, name: bytes, mask: int) -> Reply:
    start = start_dir(call, AT_FDCWD, name)
    try:
        # Held for this call only: the queue dies with the guest's last descriptor of it. If the guest has put another
        # file under the number meanwhile, the host says EINVAL.
        instance = duplicate(call, fd)
    except Refused as refused:
        raise Refused(errno.ENOSYS, refused.strerror) from None
    call.kernel.names.watch()
    try:
        return call.vfs.watch(call, start, name, mask, instance)
    finally:
        os.close(instance)

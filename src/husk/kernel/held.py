"""kernel: descriptors without a name in the vfs — pipes, sockets, memfds, and the host files husk was started with."""

from __future__ import annotations

from husk.vfs.node import Stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.call import Call


def stat_held(call: Call, fd: int) -> Stat:
    """fstat(2) of a descriptor without a vfs node, with host ids told as the guest's own."""
    dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atime, mtime, ctime = call.raw.fd_stat(fd)
    ids = call.kernel.identity
    return Stat(
        dev, ino, mode, nlink, ids.guest_uid(uid), ids.guest_gid(gid), rdev, size, blksize, blocks, atime, mtime, ctime
    )

"""chroot(2), mount(2), umount2(2), mount_setattr(2), open_tree(2), fsconfig(2), quotactl(2), quotactl_fd(2),
name_to_handle_at(2), open_by_handle_at(2), fanotify_mark(2): calls no guest is allowed, refused in Linux's order.

Linux looks at the name, and often at the other arguments, before it says EPERM. Programs probe with these calls and go
by the errno, so the checks that come first for an ordinary user are made here. Nearly all are `judged` in the registry:
a handler that returns has found nothing else wrong, and the dispatcher refuses the call with the errno of its row.
"""

from __future__ import annotations

import errno
import os

from husk.kernel.call import AT_FDCWD, Call, Refused, Reply, i32, path, start_dir, text, u32
from husk.kernel.cred.virtual_ids import SYS_CHROOT
from husk.kernel.syscalls.open import open_path
from husk.vfs.node import Dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Node

AT_SYMLINK_NOFOLLOW, AT_SYMLINK_FOLLOW, AT_NO_AUTOMOUNT, AT_EMPTY_PATH = 0x100, 0x400, 0x800, 0x1000
AT_RECURSIVE, AT_HANDLE_FID, AT_HANDLE_MNT_ID_UNIQUE = 0x8000, 0x200, 0x001
UMOUNT_KNOWN, UMOUNT_NOFOLLOW = 0x0F, 0x08
OPEN_TREE_CLONE = 0x1
MOUNT_ATTR_SIZE, PAGE = 32, 4096
FSCONFIG_LAST = 8
Q_SYNC, QUOTA_TYPES = 0x800001, 3
MOST_HANDLE = 128


def chroot(call: Call) -> Reply:
    node = _walk(call, AT_FDCWD, path(call, 0))
    if not isinstance(node, Dir):
        raise OSError(errno.ENOTDIR, "not a directory")
    call.vfs.access_node(call, node, os.X_OK)
    virtual = call.kernel.virtual_ids_or_none
    if virtual is None or not virtual.of(call.tid).may(SYS_CHROOT):
        raise Refused(errno.EPERM, "only root of an image may change its root; Linux wants CAP_SYS_CHROOT for it")
    os.close(call.vfs.placeholder_fd(call, node, os.O_PATH | os.O_DIRECTORY))
    call.vfs.state.keep_placeholder(node)  # so that this very object stays what stands for the directory
    tgid = call.raw.tgid()
    if not call.raw.valid():
        raise OSError(errno.ESRCH, "the caller is gone")
    # What the name cache answers is right for one root only.
    call.kernel.names.turn_off()
    call.kernel.virtual_roots.change(tgid, node)
    return 0


def mount(call: Call) -> None:
    for n in (2, 0):  # the type, then the device, in the order in which Linux copies them
        if call.args[n]:
            text(call, n)
    if call.args[4]:
        call.raw.read(call.args[4], 1)
    _walk(call, AT_FDCWD, path(call, 1))


def umount2(call: Call) -> None:
    flags = u32(call, 1)
    if flags & ~UMOUNT_KNOWN:
        raise OSError(errno.EINVAL, "unknown flag")
    _walk(call, AT_FDCWD, path(call, 0), follow=not flags & UMOUNT_NOFOLLOW)


def mount_setattr(call: Call) -> None:
    if u32(call, 2) & ~(AT_EMPTY_PATH | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT):
        raise OSError(errno.EINVAL, "unknown flag")
    if call.args[4] > PAGE:
        raise OSError(errno.E2BIG, "struct mount_attr is too large")
    if call.args[4] < MOUNT_ATTR_SIZE:
        raise OSError(errno.EINVAL, "struct mount_attr is too small")


def open_tree(call: Call) -> Reply:
    """Without OPEN_TREE_CLONE it is open with O_PATH, which any guest may do."""
    flags = u32(call, 2)
    known = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | OPEN_TREE_CLONE | os.O_CLOEXEC
    if flags & ~known or flags & (AT_RECURSIVE | OPEN_TREE_CLONE) == AT_RECURSIVE:
        raise OSError(errno.EINVAL, "unknown flag")
    if flags & OPEN_TREE_CLONE:
        raise Refused(errno.EPERM, "opens a copy of a mount; a box's mounts are chosen from outside")
    return open_path(call, i32(call, 0), path(call, 1), flags & os.O_CLOEXEC, not flags & AT_SYMLINK_NOFOLLOW)


def fsconfig(call: Call) -> None:
    """No guest can have a descriptor of a file system being made: fsopen is refused."""
    if i32(call, 0) < 0:
        raise OSError(errno.EINVAL, "no descriptor")
    if u32(call, 1) > FSCONFIG_LAST:
        raise OSError(errno.EOPNOTSUPP, "unknown command")
    call.raw.fd_link(i32(call, 0))


def quotactl(call: Call) -> Reply:
    command, special = u32(call, 0), call.args[1]
    if command & 0xFF >= QUOTA_TYPES:
        raise OSError(errno.EINVAL, "no such kind of quota")
    if not special:
        if command >> 8 == Q_SYNC:
            return 0  # of all file systems; no file system of the box has quotas
        raise OSError(errno.ENODEV, "no device")
    _walk(call, AT_FDCWD, path(call, 1))
    raise OSError(errno.ENOTBLK, "the box has no block devices")


def quotactl_fd(call: Call) -> None:
    call.raw.fd_link(i32(call, 0))
    if u32(call, 1) & 0xFF >= QUOTA_TYPES:
        raise OSError(errno.EINVAL, "no such kind of quota")


def name_to_handle_at(call: Call) -> None:
    flags = u32(call, 4)
    if flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH | AT_HANDLE_FID | AT_HANDLE_MNT_ID_UNIQUE):
        raise OSError(errno.EINVAL, "unknown flag")
    name = path(call, 1)
    if name or not flags & AT_EMPTY_PATH:
        _walk(call, i32(call, 0), name, follow=bool(flags & AT_SYMLINK_FOLLOW))
    elif i32(call, 0) != AT_FDCWD:
        call.raw.fd_link(i32(call, 0))


def open_by_handle_at(call: Call) -> None:
    size = int.from_bytes(call.raw.read(call.args[1], 8)[:4], "little")
    if not 0 < size <= MOST_HANDLE:
        raise OSError(errno.EINVAL, "no handle is that long")
    if i32(call, 0) != AT_FDCWD:
        call.raw.fd_link(i32(call, 0))


def fanotify_mark(call: Call) -> None:
    """No guest can have a fanotify descriptor: fanotify_init is refused."""
    call.raw.fd_link(i32(call, 0))


# -- what they mean ----------------------------------------------------------------------------------------------------


def _walk(call: Call, dirfd: int, name: bytes, *, follow: bool = True) -> Node:
    return call.vfs.walk(call, start_dir(call, dirfd, name), name, follow=follow)

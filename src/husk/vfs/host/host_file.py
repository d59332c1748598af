"""vfs: host files as trees open and describe them — the few steps that layered and host trees share.

Everything starts from a directory descriptor and a relative name that follows no link; no guest name is resolved here.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import HostStat, guard_root, open_beneath, stat_fd, unguard_root
from husk.vfs.node import Stat, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.pinned import Orphan

    Key = tuple[int, int] | None  # device and inode number; None fits nothing
    May = Callable[[HostStat], bool]

# Status flags that mean something to a host file; the vfs handles the rest.
HOST_FLAGS = (
    os.O_ACCMODE
    | os.O_APPEND
    | os.O_ASYNC
    | os.O_DIRECT
    | os.O_DSYNC
    | os.O_NOATIME
    | os.O_NOFOLLOW
    | os.O_NONBLOCK
    | os.O_PATH
    | os.O_SYNC
    | os.O_TRUNC
)


NOWHERE = b"\0"  # stands before no path


def open_top(path: bytes) -> int:
    """The host directory at the top of a tree, by an absolute path without symbolic links. ELOOP if a component has
    become a link: other users may change directories above a mount, and their link leads elsewhere."""
    root = os.open(b"/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(root, path.lstrip(b"/"), os.O_PATH | os.O_DIRECTORY)
    finally:
        os.close(root)


def open_guarded(path: bytes) -> int:
    """The same for a tree of a box, with a guard (native/host/guard.c): at least against file systems that speak for
    the kernel. `close_guarded` closes it."""
    fd = open_top(path)
    try:
        guard_root(fd, [], [], False, None)
    except BaseException:
        os.close(fd)
        raise
    return fd


def close_guarded(fd: int) -> None:
    unguard_root(fd)
    os.close(fd)


def read_link(root: int, rel: bytes) -> bytes:
    fd = open_beneath(root, rel, os.O_PATH | os.O_NOFOLLOW)
    try:
        return os.readlink(b"", dir_fd=fd)
    finally:
        os.close(fd)


def beneath(root: bytes, path: bytes) -> bytes | None:
    """`path` relative to `root`, None if it is not below it."""
    if root == b"/":
        return path[1:]
    if path.startswith(root) and path[len(root) : len(root) + 1] == b"/":
        return path[len(root) + 1 :]
    return None


def place_now(fd: int, path: bytes) -> bytes:
    """The host path of the directory `fd`, which was at `path` before. The host may rename it, or move its mount."""
    link = b"/proc/self/fd/%d" % fd
    now = os.readlink(link)
    if now == path:
        return path
    if not _is_mounted(fd):
        return NOWHERE
    return now.removesuffix(b" (deleted)") if os.fstat(fd).st_nlink == 0 else now


def _is_mounted(fd: int) -> bool:
    """False: its mount was taken off, and paths in it begin nowhere. They must not be mistaken for the host's."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as about:
            number = next((line.split()[1] for line in about if line.startswith(b"mnt_id:")), b"")
        with open("/proc/self/mountinfo", "rb") as mounts:
            return any(line.split(b" ", 1)[0] == number for line in mounts)
    except OSError:
        return False


def open_lower(root: int, rel: bytes, flags: int, kind: int, key: Key, may: May | None = None) -> int:
    """Open a host file that a look-up found to be of `kind`. `key` is the file that the guest was allowed to open.

    Between look-up and open another process, such as a box with the same mount, may have put something else under that
    name, and husk may run as root. A FIFO must not block husk, a device must not be touched; and another file is opened
    only if `may` says that the guest may open that one, too.
    """
    if flags & os.O_PATH:
        return _meant(open_beneath(root, rel, flags & (os.O_PATH | os.O_NOFOLLOW)), key, None)
    if kind not in (st.S_IFREG, st.S_IFIFO):
        raise error(errno.ENXIO if kind == st.S_IFSOCK else errno.EACCES)
    try:
        fd = _open_meant(root, rel, flags | os.O_NONBLOCK, key, may)
    except PermissionError:
        # O_NOATIME takes the file's owner on the host. Where husk is not that user, the access time changes.
        if not flags & os.O_NOATIME:
            raise
        fd = _open_meant(root, rel, flags & ~os.O_NOATIME | os.O_NONBLOCK, key, may)
    try:
        if stat_fd(fd).mode & 0o170000 != kind:
            raise error(errno.ESTALE)
        if not flags & os.O_NONBLOCK:
            os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open_meant(root: int, rel: bytes, flags: int, key: Key, may: May | None) -> int:
    if not flags & os.O_TRUNC:
        return _meant(open_beneath(root, rel, flags), key, may)
    # Opening by name would already have truncated it.
    if flags & os.O_NOFOLLOW:  # F_GETFL shows it, so this one has to be opened by its name
        fd = _meant(open_beneath(root, rel, flags & ~os.O_TRUNC), key, may)
        try:
            os.close(os.open(b"/proc/self/fd/%d" % fd, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC))
        except BaseException:
            os.close(fd)
            raise
        return fd
    pin = _meant(open_beneath(root, rel, os.O_PATH | os.O_NOFOLLOW), key, may)
    try:
        return os.open(b"/proc/self/fd/%d" % pin, flags & ~os.O_NOFOLLOW | os.O_CLOEXEC)
    finally:
        os.close(pin)


def _meant(fd: int, key: Key, may: May | None) -> int:
    """`fd`, which is closed if it is not the file that was meant."""
    try:
        found = stat_fd(fd)
        if (found.dev, found.ino) != key and (may is None or not may(found)):
            raise error(errno.ESTALE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def host_stat(found: os.stat_result) -> HostStat:
    """What `os.stat` found, as the C core would give it."""
    return HostStat(
        (
            found.st_dev,
            found.st_ino,
            found.st_mode,
            found.st_nlink,
            found.st_uid,
            found.st_gid,
            found.st_rdev,
            found.st_size,
            found.st_blksize,
            found.st_blocks,
            found.st_atime_ns,
            found.st_mtime_ns,
            found.st_ctime_ns,
        )
    )


def changed_stat(info: HostStat, *, mode: int | None = None, nlink: int | None = None) -> HostStat:
    """A copy with another mode or link count."""
    dev, ino, old_mode, old_nlink, *rest = info
    return HostStat((dev, ino, old_mode if mode is None else mode, old_nlink if nlink is None else nlink, *rest))


def stat_as(info: HostStat, dev: int, ino: int, uid: int, gid: int) -> Stat:
    """What the guest is shown of a host file: its own numbers and owners, all else as the host says."""
    _, _, mode, nlink, _, _, rdev, size, blksize, blocks, atime, mtime, ctime = info
    return Stat(dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atime, mtime, ctime)


def orphan_stat(node: Orphan, dev: int) -> Stat:
    info = node.last
    try:
        found = os.stat(node.via)
    except (OSError, ValueError):
        if info is None:
            # Nothing is known; the caller holds the file and may know better.
            info = HostStat((0, 0, node.kind | 0o444, 1, 0, 0, 0, 0, 4096, 0, 0, 0, 0))
    else:
        info = host_stat(found)
    shown = stat_as(info, dev, info.ino, node.uids.get(info.uid, info.uid), node.gids.get(info.gid, info.gid))
    shown.nlink = max(info.nlink - node.hidden, 0)
    return shown

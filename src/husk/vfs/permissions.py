"""vfs: permission checks. Pure decisions over `Stat` and `Credentials`, as Linux takes them for a user without
capabilities or, with `Credentials.over_files` and for the box's own files, for one with those that concern files.

husk may run as root, so the host's own checks protect nothing: these are the wall. No look-ups here, no side effects.
"""

from __future__ import annotations

import errno
import stat as st

from husk.vfs.node import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Context, Credentials, Dir, Stat

READ, WRITE, SEARCH = 4, 2, 1
OVERFLOW_ID = 65534  # Linux, too, shows it as the owner that a user namespace has no number for
EXECUTE = SEARCH


def permitted(creds: Credentials, info: Stat, want: int) -> bool:
    """The classes are exclusive: where the owner bits refuse the owner, the other bits do not help."""
    if creds.over_files and info.boxed:
        # CAP_DAC_OVERRIDE: everything, except executing a file without any execute bit.
        return st.S_ISDIR(info.mode) or not want & EXECUTE or bool(info.mode & 0o111)
    if _is_stranger(creds, info):
        return not want & ~info.mode & 7 and permitted(creds.of_box(), info, want)
    if info.uid == creds.uid:
        bits = info.mode >> 6
    elif info.acl is not None and info.mode & 0o070:  # Linux, too, does not look at an ACL whose mask allows nothing
        from husk.vfs.access.posix_acl import allows

        return allows(info.acl, creds, info.gid, want)
    elif info.gid in creds.groups:
        bits = info.mode >> 3
    else:
        bits = info.mode
    return not want & ~bits & 7


def _is_stranger(creds: Credentials, info: Stat) -> bool:
    """Is this a file of the host, and the caller one who became another user inside? Its ids mean nothing there."""
    return creds.stranger and not info.boxed


def id_map(host: int, own: int) -> dict[int, int]:
    """Map host ids to guest ids: `host` is shown as `own`, the guest's id. Another host user may have the number `own`
    (the first user of most machines has 1000), so that one is shown as the overflow id, never as the guest."""
    return {**overflow_map(own), host: own} if host != own else {}


def overflow_map(own: int) -> dict[int, int]:
    """The same map where no host user is the guest."""
    return {own: OVERFLOW_ID if own != OVERFLOW_ID else OVERFLOW_ID - 1}


def require(creds: Credentials, info: Stat, want: int) -> None:
    if not permitted(creds, info, want):
        raise error(errno.EACCES)


def is_owner(creds: Credentials, info: Stat) -> bool:
    if _is_stranger(creds, info):
        return False
    return info.uid == creds.uid or (creds.over_files and info.boxed)


def require_owner(creds: Credentials, info: Stat) -> None:
    if not is_owner(creds, info):
        raise error(errno.EPERM)


def require_chown(creds: Credentials, info: Stat, uid: int, gid: int) -> None:
    """May the owner and group be changed? -1 leaves one alone. Without capabilities, only to a group that the owner is
    in."""
    if creds.over_files and info.boxed:
        return
    if _is_stranger(creds, info) and (uid, gid) != (-1, -1):
        raise error(errno.EPERM)
    if uid != -1 and not info.uid == uid == creds.uid:
        raise error(errno.EPERM)
    if gid != -1 and (info.uid != creds.uid or (gid not in creds.groups and gid != info.gid)):
        raise error(errno.EPERM)


def sticky_forbids(creds: Credentials, directory: Stat, victim: Stat) -> bool:
    return bool(directory.mode & st.S_ISVTX) and not is_owner(creds, victim) and not is_owner(creds, directory)


def chmod_result(creds: Credentials, info: Stat, mode: int) -> int:
    """The permission bits a chmod really sets: a user outside the file's group cannot make it set-gid."""
    mode &= 0o7777
    if info.gid not in creds.groups and not (creds.over_files and info.boxed):
        mode &= ~st.S_ISGID
    return mode


def without_privilege(mode: int, in_group: bool) -> int:
    """The mode after a write or chown, which drop set-uid and set-gid.

    Set-gid without group execution means mandatory locking, not privilege: members of the group keep it.
    """
    if mode & st.S_IXGRP or not in_group:
        mode &= ~st.S_ISGID
    return mode & ~st.S_ISUID


def inherit(creds: Credentials, directory_mode: int, directory_gid: int, mode: int) -> tuple[int, int]:
    """(mode, gid) of something created in a directory."""
    if not directory_mode & st.S_ISGID:
        return mode, creds.gid
    if st.S_ISDIR(mode):
        mode |= st.S_ISGID
    elif mode & (st.S_ISGID | st.S_IXGRP) == st.S_ISGID | st.S_IXGRP and directory_gid not in creds.groups:
        mode &= ~st.S_ISGID
    return mode, directory_gid


def new_mode(ctx: Context, directory: Dir, mode: int) -> int:
    """The permissions of something new: a default ACL takes the umask's place."""
    return mode if directory.tree.has_default_acl(directory) else mode & ~ctx.umask()


def may_hard_link(creds: Credentials, info: Stat) -> bool:
    """fs.protected_hardlinks, on in every distribution: another user's file must be harmless and fully accessible."""
    if is_owner(creds, info):
        return True
    if not st.S_ISREG(info.mode) or info.mode & st.S_ISUID:
        return False
    if info.mode & (st.S_ISGID | st.S_IXGRP) == st.S_ISGID | st.S_IXGRP:
        return False
    return permitted(creds, info, READ | WRITE)

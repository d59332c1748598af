"""vfs: who may do what. Pure decisions over `Stat` and `Credentials`, as Linux takes them for a user without
capabilities, or, where somebody is `over_files`, with those that concern files alone.

The supervisor may be root, so the host's own checks protect nothing: these are the wall. No look-ups here, no side
effects.
"""

from __future__ import annotations

import errno
import stat as st

from husk.vfs.node import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Credentials, Stat

READ, WRITE, SEARCH = 4, 2, 1
STRANGER = 65534  # what Linux, too, shows as the owner for whom a user namespace has no number
EXECUTE = SEARCH


def permitted(creds: Credentials, info: Stat, want: int) -> bool:
    """The classes are exclusive: an owner whom the owner bits refuse is not helped by the others."""
    if creds.over_files:
        # CAP_DAC_OVERRIDE: everything, but a program that nobody may execute is none.
        return st.S_ISDIR(info.mode) or not want & EXECUTE or bool(info.mode & 0o111)
    if info.uid == creds.uid:
        bits = info.mode >> 6
    elif info.gid in creds.groups:
        bits = info.mode >> 3
    else:
        bits = info.mode
    return not want & ~bits & 7


def shown_as(host: int, own: int) -> dict[int, int]:
    """As whom owners on the host are shown where the id `host` is the guest's, who is `own` inside. Somebody else may
    have that very number on the host, the first user of most machines has 1000: nobody may take them for the guest."""
    return {**strangers(own), host: own} if host != own else {}


def strangers(own: int) -> dict[int, int]:
    """The same where nobody on the host is the guest."""
    return {own: STRANGER if own != STRANGER else STRANGER - 1}


def require(creds: Credentials, info: Stat, want: int) -> None:
    if not permitted(creds, info, want):
        raise error(errno.EACCES)


def is_owner(creds: Credentials, info: Stat) -> bool:
    return info.uid == creds.uid or creds.over_files


def require_owner(creds: Credentials, info: Stat) -> None:
    if not is_owner(creds, info):
        raise error(errno.EPERM)


def require_giving(creds: Credentials, info: Stat, uid: int, gid: int) -> None:
    """Whether a file may be given to somebody, -1 being who has it: without capabilities only to a group that its
    owner is in."""
    if creds.over_files:
        return
    if uid != -1 and not info.uid == uid == creds.uid:
        raise error(errno.EPERM)
    if gid != -1 and (info.uid != creds.uid or (gid not in creds.groups and gid != info.gid)):
        raise error(errno.EPERM)


def sticky_forbids(creds: Credentials, directory: Stat, victim: Stat) -> bool:
    return bool(directory.mode & st.S_ISVTX) and not is_owner(creds, victim) and not is_owner(creds, directory)


def chmod_result(creds: Credentials, info: Stat, mode: int) -> int:
    """The permission bits a chmod really sets: a stranger to the group cannot make a file set-gid."""
    mode &= 0o7777
    if info.gid not in creds.groups and not creds.over_files:
        mode &= ~st.S_ISGID
    return mode


def without_privilege(mode: int, in_group: bool) -> int:
    """What a write or a change of owner leaves of set-uid and set-gid.

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


def may_hard_link(creds: Credentials, info: Stat) -> bool:
    """fs.protected_hardlinks, on in every distribution: a stranger's file must be harmless and fully accessible."""
    if is_owner(creds, info):
        return True
    if not st.S_ISREG(info.mode) or info.mode & st.S_ISUID:
        return False
    if info.mode & (st.S_ISGID | st.S_IXGRP) == st.S_ISGID | st.S_IXGRP:
        return False
    return permitted(creds, info, READ | WRITE)

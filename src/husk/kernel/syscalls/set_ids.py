"""setuid(2), setgid(2), setreuid(2), setregid(2), setresuid(2), setresgid(2): change the caller's user and group ids.

A box has one user and one group. In its user namespace the host would say EINVAL for any other id, and Linux says EPERM
to a process without capabilities. Only registers are judged; the host then does what remains.
"""

from __future__ import annotations

import errno

from husk.kernel.call import CONTINUE, Call, Reply, u32

UNCHANGED = 0xFFFFFFFF  # -1


def setuid(call: Call) -> Reply:
    return _only(call, call.creds.uid, u32(call, 0))


def setgid(call: Call) -> Reply:
    return _only(call, call.creds.gid, u32(call, 0))


def setreuid(call: Call) -> Reply:
    return _to(call, call.creds.uid, 2)


def setregid(call: Call) -> Reply:
    return _to(call, call.creds.gid, 2)


def setresuid(call: Call) -> Reply:
    return _to(call, call.creds.uid, 3)


def setresgid(call: Call) -> Reply:
    return _to(call, call.creds.gid, 3)


# -- what they mean ----------------------------------------------------------------------------------------------------


def _only(call: Call, own: int, wanted: int) -> Reply:
    if wanted == UNCHANGED:
        raise OSError(errno.EINVAL, "no id")
    if wanted != own:
        raise OSError(errno.EPERM, "the caller does not have this id")
    return CONTINUE


def _to(call: Call, own: int, count: int) -> Reply:
    for place in range(count):
        if u32(call, place) != UNCHANGED:
            _only(call, own, u32(call, place))
    return CONTINUE

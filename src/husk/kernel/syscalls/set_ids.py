"""getuid(2), setuid(2), their relatives for groups and for several ids at once, getgroups(2), setgroups(2), capget(2)
and capset(2): who the caller is.

A box has one user and one group on the host. In its user namespace the host would say EINVAL for any other id, and
Linux says EPERM to a process without capabilities; only registers are judged, and the host then does what remains. In a
box whose user is root of its image, husk keeps ids of its own for each process (`cred/virtual_ids`), and the host is
not asked.
"""

from __future__ import annotations

import errno
import struct

from husk.kernel.call import CONTINUE, Call, Reply, i32, u32
from husk.kernel.cred.virtual_ids import EFFECTIVE, FILES, REAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.cred.virtual_ids import ProcessIds

UNCHANGED = 0xFFFFFFFF  # -1
MOST_GROUPS = 65536
CAP_VERSIONS = {0x19980330: 1, 0x20071026: 2, 0x20080522: 2}  # and how many words each set has
CAP_NEWEST = 0x20080522


def getuid(call: Call) -> Reply:
    return _told(call, lambda ids: ids.uids[REAL])


def geteuid(call: Call) -> Reply:
    return _told(call, lambda ids: ids.uids[EFFECTIVE])


def getgid(call: Call) -> Reply:
    return _told(call, lambda ids: ids.gids[REAL])


def getegid(call: Call) -> Reply:
    return _told(call, lambda ids: ids.gids[EFFECTIVE])


def getresuid(call: Call) -> Reply:
    return _three(call, lambda ids: ids.uids)


def getresgid(call: Call) -> Reply:
    return _three(call, lambda ids: ids.gids)


def setuid(call: Call) -> Reply:
    return _change(call, lambda ids: ids.with_uid(u32(call, 0)), lambda: _only(call, call.creds.uid, u32(call, 0)))


def setgid(call: Call) -> Reply:
    return _change(call, lambda ids: ids.with_gid(u32(call, 0)), lambda: _only(call, call.creds.gid, u32(call, 0)))


def setreuid(call: Call) -> Reply:
    pair = u32(call, 0), u32(call, 1)
    return _change(call, lambda ids: ids.with_reuid(*pair), lambda: _to(call, call.creds.uid, 2))


def setregid(call: Call) -> Reply:
    pair = u32(call, 0), u32(call, 1)
    return _change(call, lambda ids: ids.with_regid(*pair), lambda: _to(call, call.creds.gid, 2))


def setresuid(call: Call) -> Reply:
    three = u32(call, 0), u32(call, 1), u32(call, 2)
    return _change(call, lambda ids: ids.with_resuid(*three), lambda: _to(call, call.creds.uid, 3))


def setresgid(call: Call) -> Reply:
    three = u32(call, 0), u32(call, 1), u32(call, 2)
    return _change(call, lambda ids: ids.with_resgid(*three), lambda: _to(call, call.creds.gid, 3))


def setfsuid(call: Call) -> Reply:
    return _set_for_files(call, lambda ids: ids.uids[FILES], lambda ids: ids.with_fsuid(u32(call, 0)))


def setfsgid(call: Call) -> Reply:
    return _set_for_files(call, lambda ids: ids.gids[FILES], lambda ids: ids.with_fsgid(u32(call, 0)))


def getgroups(call: Call) -> Reply:
    ids = _virtual(call)
    if ids is None:
        return CONTINUE
    room, groups = i32(call, 0), sorted(ids.groups)
    if room < 0 or 0 < room < len(groups):
        raise OSError(errno.EINVAL, "no room for all groups")
    if room:
        call.raw.write(call.args[1], b"".join(group.to_bytes(4, "little") for group in groups))
    return len(groups)


def setgroups(call: Call) -> Reply:
    ids = _virtual(call)
    if ids is None:
        return CONTINUE
    ids.with_groups(ids.groups)  # EPERM comes first
    count = u32(call, 0)
    if count > MOST_GROUPS:
        raise OSError(errno.EINVAL, "too many groups")
    words = call.raw.read(call.args[1], 4 * count) if count else b""
    groups = frozenset(int.from_bytes(words[at : at + 4], "little") for at in range(0, len(words), 4))
    if UNCHANGED in groups:
        raise OSError(errno.EINVAL, "no id")
    return _change(call, lambda now: now.with_groups(groups), lambda: CONTINUE)


def capget(call: Call) -> Reply:
    ids = _virtual(call)
    if ids is None:
        return CONTINUE
    words, pid = _cap_header(call)
    if not words:
        if call.args[1]:
            raise OSError(errno.EINVAL, "no such version")
        return 0
    if pid:
        host = call.kernel.tasks.host_of(pid) if pid > 0 else None
        if host is None:
            raise OSError(errno.ESRCH if pid > 0 else errno.EINVAL, "no process of this box")
        ids = call.kernel.virtual_ids.of(host)
    if call.args[1]:
        sets = struct.pack("<3I", ids.effective, ids.permitted, 0)
        call.raw.write(call.args[1], sets + bytes(12 * (words - 1)))
    return 0


def capset(call: Call) -> Reply:
    if _virtual(call) is None:
        return CONTINUE
    words, pid = _cap_header(call)
    if not words:
        raise OSError(errno.EINVAL, "no such version")
    if pid and call.kernel.tasks.host_of(pid) != call.tid:
        raise OSError(errno.EPERM, "only the caller's own")
    sets = struct.unpack(f"<{3 * words}I", call.raw.read(call.args[1], 12 * words))
    low_and_high = zip(sets[:3], sets[3:] or (0, 0, 0), strict=True)
    effective, permitted, inheritable = (low | high << 32 for low, high in low_and_high)

    def give_up(ids: ProcessIds) -> ProcessIds:
        if inheritable & ~ids.permitted:
            raise OSError(errno.EPERM, "capabilities can only be given up")
        return ids.with_capabilities(permitted, effective)

    return _change(call, give_up, lambda: CONTINUE)


def keep_capabilities(call: Call, *, sets: bool) -> Reply:
    """prctl's PR_GET_KEEPCAPS and PR_SET_KEEPCAPS."""
    ids = _virtual(call)
    if ids is None:
        return CONTINUE
    if not sets:
        return int(ids.keeps)
    if call.args[1] > 1:
        raise OSError(errno.EINVAL, "neither kept nor lost")
    return _change(call, lambda now: now.keeping(keeps=bool(call.args[1])), lambda: CONTINUE)


# -- what they mean ----------------------------------------------------------------------------------------------------


def _virtual(call: Call) -> ProcessIds | None:
    """None: in this box the host knows who the caller is."""
    virtual = call.kernel.virtual_ids_or_none
    return None if virtual is None else virtual.of(call.tid)


def _told(call: Call, which: Callable[[ProcessIds], int]) -> Reply:
    ids = _virtual(call)
    return CONTINUE if ids is None else which(ids)


def _three(call: Call, which: Callable[[ProcessIds], tuple[int, ...]]) -> Reply:
    ids = _virtual(call)
    if ids is None:
        return CONTINUE
    for place, one in enumerate(which(ids)[:FILES]):
        call.raw.write(call.args[place], one.to_bytes(4, "little"))
    return 0


def _change(call: Call, new: Callable[[ProcessIds], ProcessIds], otherwise: Callable[[], Reply]) -> Reply:
    ids = _virtual(call)
    if ids is None:
        return otherwise()
    tgid, wanted = call.raw.tgid(), new(ids)
    if not call.raw.valid():
        raise OSError(errno.ESRCH, "the caller is gone")
    # What the name cache answers is right for one user only.
    call.kernel.names.turn_off()
    call.kernel.virtual_ids.change(tgid, wanted)
    return 0


def _set_for_files(call: Call, which: Callable[[ProcessIds], int], new: Callable[[ProcessIds], ProcessIds]) -> Reply:
    """These return the id before, and never fail."""
    ids = _virtual(call)
    if ids is None:
        return CONTINUE
    _change(call, new, lambda: CONTINUE)
    return which(ids)


def _cap_header(call: Call) -> tuple[int, int]:
    """How many words the sets have (0: another version, and the caller was told the newest), and which process."""
    version, pid = struct.unpack("<Ii", call.raw.read(call.args[0], 8))
    words = CAP_VERSIONS.get(version, 0)
    if not words:
        call.raw.write(call.args[0], CAP_NEWEST.to_bytes(4, "little"))
    return words, pid


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

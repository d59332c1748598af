"""kernel/cred: user ids, groups and capabilities of a process, in a box whose user is root of its image.

On the host every process of the box has the same ids and no capability, whatever is set here: what changes is how husk
judges the box's own files, and what a program is told. A process that becomes another user loses root's rights over the
box's files. Over a host mount it never gains any (`Credentials.base`). Children inherit by their tag (`inherited`).
Linux's rules only; decoding is in `syscalls/set_ids`.
"""

from __future__ import annotations

import _thread
import errno

from husk.kernel.tasks import arguments_at
from husk.vfs.node import Credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.cred.inherited import Inherited

UNCHANGED = 0xFFFFFFFF  # -1
# What husk can give: rights over files of the box, and changing who one is and where names begin. Numbers as in
# linux/capability.h.
CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL, SETGID, SETUID = range(8)
SYS_CHROOT = 18
SERVED = (1 << 8) - 1 | 1 << SYS_CHROOT
OVER_FILES = 1 << CHOWN | 1 << DAC_OVERRIDE | 1 << FOWNER
MOST_GROUP_SETS = 4096
REAL, EFFECTIVE, SAVED, FILES = range(4)


class ProcessIds:
    """Who a process is. Ids in the order real, effective, saved, for files; never changed, but replaced."""

    __slots__ = ("effective", "gids", "groups", "keeps", "permitted", "uids")

    def __init__(
        self,
        uids: tuple[int, int, int, int],
        gids: tuple[int, int, int, int],
        groups: frozenset[int],
        permitted: int,
        effective: int,
        *,
        keeps: bool = False,
    ) -> None:
        self.uids, self.gids, self.groups = uids, gids, groups
        self.permitted, self.effective = permitted, effective
        self.keeps = keeps  # PR_SET_KEEPCAPS

    def may(self, capability: int) -> bool:
        return bool(self.effective >> capability & 1)

    # -- user ids ------------------------------------------------------------------------------------------------------
    def with_uid(self, uid: int) -> ProcessIds:
        """setuid(2)"""
        return self._with_uids(_set_one(self.uids, uid, free=self.may(SETUID)))

    def with_reuid(self, real: int, effective: int) -> ProcessIds:
        return self._with_uids(_set_two(self.uids, real, effective, free=self.may(SETUID)))

    def with_resuid(self, real: int, effective: int, saved: int) -> ProcessIds:
        return self._with_uids(_set_three(self.uids, (real, effective, saved), free=self.may(SETUID)))

    def with_fsuid(self, uid: int) -> ProcessIds:
        if uid not in self.uids and not self.may(SETUID):
            return self
        return self._with_uids((self.uids[REAL], self.uids[EFFECTIVE], self.uids[SAVED], uid))

    def _with_uids(self, new: tuple[int, int, int, int]) -> ProcessIds:
        """capabilities(7): what becomes of them when user ids change to and from 0."""
        permitted, effective, old = self.permitted, self.effective, self.uids
        if 0 in old[:FILES] and 0 not in new[:FILES] and not self.keeps:
            permitted = effective = 0
        if old[EFFECTIVE] == 0 != new[EFFECTIVE]:
            effective = 0
        elif old[EFFECTIVE] != 0 == new[EFFECTIVE]:
            effective = permitted
        if old[FILES] == 0 != new[FILES]:
            effective &= ~(OVER_FILES | 1 << DAC_READ_SEARCH | 1 << FSETID)
        elif old[FILES] != 0 == new[FILES]:
            effective |= permitted & (OVER_FILES | 1 << DAC_READ_SEARCH | 1 << FSETID)
        return ProcessIds(new, self.gids, self.groups, permitted, effective, keeps=self.keeps)

    # -- groups --------------------------------------------------------------------------------------------------------
    def with_gid(self, gid: int) -> ProcessIds:
        return self._with_gids(_set_one(self.gids, gid, free=self.may(SETGID)))

    def with_regid(self, real: int, effective: int) -> ProcessIds:
        return self._with_gids(_set_two(self.gids, real, effective, free=self.may(SETGID)))

    def with_resgid(self, real: int, effective: int, saved: int) -> ProcessIds:
        return self._with_gids(_set_three(self.gids, (real, effective, saved), free=self.may(SETGID)))

    def with_fsgid(self, gid: int) -> ProcessIds:
        if gid not in self.gids and not self.may(SETGID):
            return self
        return self._with_gids((self.gids[REAL], self.gids[EFFECTIVE], self.gids[SAVED], gid))

    def _with_gids(self, new: tuple[int, int, int, int]) -> ProcessIds:
        return ProcessIds(self.uids, new, self.groups, self.permitted, self.effective, keeps=self.keeps)

    def with_groups(self, groups: frozenset[int]) -> ProcessIds:
        if not self.may(SETGID):
            raise OSError(errno.EPERM, "the caller may not choose its groups")
        return ProcessIds(self.uids, self.gids, groups, self.permitted, self.effective, keeps=self.keeps)

    # -- capabilities --------------------------------------------------------------------------------------------------
    def with_capabilities(self, permitted: int, effective: int) -> ProcessIds:
        if permitted & ~self.permitted or effective & ~permitted:
            raise OSError(errno.EPERM, "capabilities can only be given up")
        return ProcessIds(self.uids, self.gids, self.groups, permitted, effective, keeps=self.keeps)

    def keeping(self, *, keeps: bool) -> ProcessIds:
        return ProcessIds(self.uids, self.gids, self.groups, self.permitted, self.effective, keeps=keeps)

    def in_program(self) -> ProcessIds:
        """After execve. Set-user-id bits count for nothing, as always with no_new_privs."""
        user, group = self.uids[EFFECTIVE], self.gids[EFFECTIVE]
        permitted = SERVED if 0 in self.uids[:SAVED] else 0
        uids, gids = (self.uids[REAL], user, user, user), (self.gids[REAL], group, group, group)
        return ProcessIds(uids, gids, self.groups, permitted, permitted if user == 0 else 0)


NOBODY = ProcessIds((65534,) * 4, (65534,) * 4, frozenset(), 0, 0)


class VirtualIds:
    """The ids of all processes of such a box. `base` are those that it starts with."""

    __slots__ = ("_base", "_first", "_group_numbers", "_groups", "_inherited", "_lock", "changed")

    def __init__(self, base: Credentials, inherited: Inherited) -> None:
        self._base, self._inherited = base, inherited
        self._first = ProcessIds((base.uid,) * 4, (base.gid,) * 4, base.groups, SERVED, SERVED)
        self._lock = _thread.allocate_lock()
        self._groups: list[frozenset[int]] = [base.groups]
        self._group_numbers = {base.groups: 0}
        self.changed = False  # does some process have others than at the start?

    def of(self, host_tid: int) -> ProcessIds:
        kept = self._inherited.surely_of(host_tid) if self.changed else {}
        if kept is None:
            return NOBODY  # who may have given up what the box's user may do
        if "uid0" not in kept:
            return self._first
        uids, gids = (tuple(kept[f"{kind}{place}"] for place in range(4)) for kind in ("uid", "gid"))
        groups, keeps = self._groups[kept["groups"]], bool(kept["keeps"])
        ids = ProcessIds(_four(uids), _four(gids), groups, kept["permitted"], kept["effective"], keeps=keeps)
        return ids if kept["ids_at"] == arguments_at(host_tid) else ids.in_program()

    def change(self, host_pid: int, new: ProcessIds) -> None:
        with self._lock:
            self.changed = True
            number = self._group_numbers.get(new.groups)
            if number is None:
                if len(self._groups) >= MOST_GROUP_SETS:
                    raise OSError(errno.ENOMEM, "the box has used too many sets of groups")
                number = self._group_numbers[new.groups] = len(self._groups)
                self._groups.append(new.groups)
        ids = {f"uid{place}": one for place, one in enumerate(new.uids)}
        ids |= {f"gid{place}": one for place, one in enumerate(new.gids)}
        ids |= {"groups": number, "permitted": new.permitted, "effective": new.effective, "keeps": new.keeps}
        known = self._inherited.change(host_pid, **ids, ids_at=arguments_at(host_pid))
        if not known:
            raise OSError(errno.EPERM, "the host does not let husk tell processes apart")

    def credentials(self, host_tid: int) -> Credentials:
        """With which a call of this thread is judged."""
        ids, base = self.of(host_tid), self._base
        if ids is self._first:
            return base
        uid, gid, over = ids.uids[FILES], ids.gids[FILES], not OVER_FILES & ~ids.effective
        return Credentials(uid, gid, ids.groups, over_files=over, base=base)


def _four(ids: tuple[int, ...]) -> tuple[int, int, int, int]:
    real, effective, saved, files = ids
    return real, effective, saved, files


# -- the rules that user and group ids share --------------------------------------------------------------------------
def _set_one(old: tuple[int, int, int, int], new: int, *, free: bool) -> tuple[int, int, int, int]:
    if new == UNCHANGED:
        raise OSError(errno.EINVAL, "no id")
    if free:
        return new, new, new, new
    if new not in (old[REAL], old[SAVED]):
        raise OSError(errno.EPERM, "the caller does not have this id")
    return old[REAL], new, old[SAVED], new


def _set_two(old: tuple[int, int, int, int], real: int, effective: int, *, free: bool) -> tuple[int, int, int, int]:
    if not free and (real not in (UNCHANGED, *old[:SAVED]) or effective not in (UNCHANGED, *old[:FILES])):
        raise OSError(errno.EPERM, "the caller does not have this id")
    now_real = old[REAL] if real == UNCHANGED else real
    now = old[EFFECTIVE] if effective == UNCHANGED else effective
    saved = now if real != UNCHANGED or (effective != UNCHANGED and effective != old[REAL]) else old[SAVED]
    return now_real, now, saved, now


def _set_three(old: tuple[int, int, int, int], new: tuple[int, int, int], *, free: bool) -> tuple[int, int, int, int]:
    if not free and not all(one in (UNCHANGED, *old[:FILES]) for one in new):
        raise OSError(errno.EPERM, "the caller does not have this id")
    real, effective, saved = (was if one == UNCHANGED else one for was, one in zip(old[:FILES], new, strict=True))
    return real, effective, saved, effective

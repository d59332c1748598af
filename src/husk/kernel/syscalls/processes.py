"""getpgid(2), setpgid(2), getsid(2), getpriority(2), setpriority(2), ioprio_*(2), prlimit64(2), sched_*(2),
get_robust_list(2): calls on a process by number; clone3(2), getrlimit(2), setrlimit(2), prctl(2) and uname(2). And the
owners of descriptors, which fcntl(2) and ioctl(2) set.

Native inside a pid namespace (uname: a uts namespace). Without one any process of the same user could be named, so the
number is checked here; only registers are judged, and the host may then run the call by itself.
"""

from __future__ import annotations

import errno
import os
import struct

from husk.abi.registry import by_name
from husk.abi.registry.rows_processes import NEW_NAMESPACE
from husk.kernel.call import ANSWERED, CONTINUE, Call, Refused, Reply, answered_remotely, i32, open_link
from husk.kernel.tasks import arguments_at, stat_fields
from husk.vfs.synth.synth_tree import read_host

PRIO_PROCESS, PRIO_PGRP, PRIO_USER = range(3)  # getpriority's `which`
RLIMIT_CORE, RLIMIT_LOCKS, RLIMIT_BYTES, UNLIMITED = 4, 10, 16, (1 << 64) - 1
IOPRIO_WHO_PROCESS = 1
PR_GET_DUMPABLE, PR_GET_KEEPCAPS, PR_SET_KEEPCAPS = 3, 7, 8
F_OWNER_TID, F_OWNER_PID, F_OWNER_PGRP = range(3)
OWNER_BYTES, NO_GROUP = 8, -(1 << 31)
HOSTNAME, UTS_FIELD = b"husk", 65
CLONE_VM, CLONE_SIGHAND, CLONE_PIDFD, CLONE_PARENT, CLONE_THREAD = 0x100, 0x800, 0x1000, 0x8000, 0x10000
CLONE_PARENT_SETTID, CLONE_UNTRACED, CLONE_NEWTIME = 0x100000, 0x800000, 0x80
CLONE_CLEAR_SIGHAND, CLONE_INTO_CGROUP = 1 << 32, 1 << 33
CLONE_KNOWN = 0x3_FFBF_FF80  # not CLONE_DETACHED, and not the signal, which has a field
BOTH_NUMBERS = CLONE_PIDFD | CLONE_PARENT_SETTID
CLONE_ARGS, CLONE_ARGS_SMALLEST = struct.Struct("<11Q"), 64
PAGE, MOST_NAMESPACES, LAST_SIGNAL, USER_END = 4096, 32, 64, (1 << 47) - 4096
PER_LINUX32 = 8


def _on_pid(call: Call) -> Reply:
    return _confined(call, i32(call, 0))


def _on_process_only(process: int, call: Call) -> Reply:
    """`which` may also be a process group or a user: those reach beyond the box."""
    which = i32(call, 0)
    if not process <= which <= process + 2:
        return CONTINUE  # neither process nor group nor user: EINVAL, says the host
    if which != process:
        raise OSError(errno.EPERM, "groups and users reach beyond the box")
    return _confined(call, i32(call, 1))


def _confined(call: Call, pid: int) -> Reply:
    """ESRCH for a process that the guest cannot see, as if it did not exist."""
    if pid < 0:
        return CONTINUE  # EINVAL or ESRCH, the host knows
    if pid and not call.kernel.tasks.guest_of(pid):
        raise OSError(errno.ESRCH, "no process of this box")
    return CONTINUE


def _shown(call: Call) -> Reply:
    """The parent of the first program is husk's reaper, whose group, session and scheduling anyone may
    see, as those of any parent."""
    return CONTINUE if i32(call, 0) == call.kernel.tasks.reaper else _on_pid(call)


get_robust_list = _on_pid
getpgid = getsid = _shown
sched_setaffinity = sched_setattr = sched_setparam = sched_setscheduler = _on_pid
sched_getaffinity = sched_getattr = sched_getparam = sched_getscheduler = sched_rr_get_interval = _shown


def setpgid(call: Call) -> Reply:
    """Into any group of the session but the reaper's. Before Linux 6.12.101, 6.18.40 and 7.1.5 Landlock's signal scope
    did not hold for the owner of a descriptor that is a group, if the caller is in that group (CVE-2026-72183)."""
    _confined(call, i32(call, 0))  # as for Linux, a process that is not there comes first
    if i32(call, 1) == call.kernel.tasks.reaper:
        raise Refused(errno.EPERM, "the group of husk's reaper, which a signal to the group would reach")
    return CONTINUE


def prlimit64(call: Call) -> Reply:
    if i32(call, 1) == RLIMIT_CORE:
        return _core_limit(call, i32(call, 0), call.args[2], call.args[3])
    if i32(call, 1) == RLIMIT_LOCKS:
        return _locks_limit_stays(call)
    # Asking for it inside a pid namespace comes here too; the number is the namespace's, so the host may answer.
    return CONTINUE if call.kernel.walls.pid else _on_pid(call)


def setrlimit(call: Call) -> Reply:
    """Only that of core files comes here."""
    call.raw.read(call.args[1], RLIMIT_BYTES)  # EFAULT also where the address is 0
    return _core_limit(call, 0, call.args[1], 0)


def getrlimit(call: Call) -> Reply:
    """Only those of core files and of file locks come here."""
    if i32(call, 0) == RLIMIT_CORE:
        soft, hard = _shown_core_limit(call, call.tid)
        call.raw.write(call.args[1], soft.to_bytes(8, "little") + hard.to_bytes(8, "little"))
        return 0
    call.raw.write(call.args[1], UNLIMITED.to_bytes(8, "little") * 2)
    return 0


def _core_limit(call: Call, guest_pid: int, new_at: int, old_at: int) -> Reply:
    """What the host enforces stays as it is: the row of setrlimit says why. The guest sees what it set."""
    new = call.raw.read(new_at, RLIMIT_BYTES) if new_at else b""  # EFAULT comes first
    if guest_pid < 0:
        raise OSError(errno.ESRCH, "no process")
    host = call.kernel.tasks.host_of(guest_pid) if guest_pid else call.tid
    if host is None:
        raise OSError(errno.ESRCH, "no process of this box")
    soft, hard = _shown_core_limit(call, host)
    if new:
        wanted = int.from_bytes(new[:8], "little"), int.from_bytes(new[8:], "little")
        if wanted[0] > wanted[1]:
            raise OSError(errno.EINVAL, "the soft limit is above the hard one")
        if wanted[1] > hard:
            raise OSError(errno.EPERM, "the hard limit can only be lowered")
        call.kernel.inherited.change(host, core_soft=wanted[0], core_hard=wanted[1])
    if old_at:
        call.raw.write(old_at, soft.to_bytes(8, "little") + hard.to_bytes(8, "little"))
    return 0


def _shown_core_limit(call: Call, host_tid: int) -> tuple[int, int]:
    known = call.kernel.tasks.core_limit(host_tid)
    if known is None:
        words = read_host(b"/proc/%d/limits" % host_tid).partition(b"\nMax core file size")[2].split()[:2]
        soft, hard = (UNLIMITED if word == b"unlimited" else int(word) for word in words)
        known = soft, hard
    if not call.raw.valid():
        raise OSError(errno.ESRCH, "the caller is gone")
    return known


def prctl(call: Call) -> Reply:
    """Only what concerns dumping and, in an image, capabilities comes here. The host keeps every guest dumpable: husk
    has to read its memory."""
    if i32(call, 0) in (PR_GET_KEEPCAPS, PR_SET_KEEPCAPS):
        from husk.kernel.syscalls.set_ids import keep_capabilities

        return keep_capabilities(call, sets=i32(call, 0) == PR_SET_KEEPCAPS)
    if i32(call, 0) == PR_GET_DUMPABLE:
        return call.kernel.tasks.dumpable(call.tid)
    if call.args[1] > 1:  # the filter compares 32 bits
        raise OSError(errno.EINVAL, "neither hidden nor shown")
    if not call.args[1]:
        call.kernel.names.hide_memory()
    call.kernel.inherited.change(call.raw.tgid(), dumpable=call.args[1], dumpable_at=arguments_at(call.tid))
    return 0


def _locks_limit_stays(call: Call) -> Reply:
    """The same, and the guest sees the limit that Linux gives every process."""
    if not call.kernel.walls.pid:
        _confined(call, i32(call, 0))
    if call.args[2]:
        call.raw.read(call.args[2], RLIMIT_BYTES)
    if call.args[3]:
        call.raw.write(call.args[3], UNLIMITED.to_bytes(8, "little") * 2)
    return 0


def getpriority(call: Call) -> Reply:
    """Of a group or a user, as far as the box's processes are concerned: the best of them."""
    which, who = i32(call, 0), i32(call, 1)
    if which == PRIO_PROCESS and who == call.kernel.tasks.reaper:
        return CONTINUE  # as `_shown`
    if which not in (PRIO_PGRP, PRIO_USER):
        return _on_process_only(PRIO_PROCESS, call)
    if which == PRIO_USER and who not in (0, call.creds.uid):
        raise OSError(errno.ESRCH, "no process of this box")
    group = who or _group_of(call.tid)
    found = []
    for pid in call.kernel.tasks.host_pids():
        try:
            fields = stat_fields(pid)
        except OSError:
            continue  # gone
        if which == PRIO_USER or int(fields[2]) == group:
            found.append(int(fields[16]))
    if not found:
        raise OSError(errno.ESRCH, "no process of this box")
    return 20 - min(found)  # the call's own scale, which libc turns round


def setpriority(call: Call) -> Reply:
    return _on_process_only(PRIO_PROCESS, call)


def ioprio_get(call: Call) -> Reply:
    if i32(call, 0) == IOPRIO_WHO_PROCESS and i32(call, 1) == call.kernel.tasks.reaper:
        return CONTINUE  # as `_shown`
    return _on_process_only(IOPRIO_WHO_PROCESS, call)


def ioprio_set(call: Call) -> Reply:
    return _on_process_only(IOPRIO_WHO_PROCESS, call)


# -- owners of descriptors, for fcntl(2) and ioctl(2) ------------------------------------------------------------------


def set_owner(call: Call, fd: int) -> Reply:
    """F_SETOWN with a group: only a register is judged, and the host does it."""
    open_link(call, fd)  # EBADF comes first
    _judge_owner(call, i32(call, 2))
    return CONTINUE


def set_owner_of_kind(call: Call, fd: int) -> Reply:
    """F_SETOWN_EX. The guest could change what the pointer leads to, so its thread makes another call."""
    open_link(call, fd)  # EBADF comes first
    told = call.raw.read(call.args[2], OWNER_BYTES)
    kind, number = (int.from_bytes(told[at : at + 4], "little", signed=True) for at in (0, 4))
    if kind not in (F_OWNER_TID, F_OWNER_PID, F_OWNER_PGRP):
        raise OSError(errno.EINVAL, "no kind of owner")
    if number < 0 or (number and kind != F_OWNER_PGRP and not call.kernel.tasks.shows(number)):
        raise OSError(errno.ESRCH, "no process of this box")
    if number and kind == F_OWNER_TID:
        raise Refused(errno.EPERM, "a thread as owner stands behind a pointer, where the guest could make it a group")
    owner = -number if kind == F_OWNER_PGRP else number
    _judge_owner(call, owner)
    return answered_remotely(call.raw.set_owner(fd, owner))


def set_owner_of_socket(call: Call, fd: int) -> Reply:
    """FIOSETOWN, SIOCSPGRP: likewise."""
    if not call.raw.fd_link(fd).startswith(b"socket:"):
        raise OSError(errno.ENOTTY, "not a socket")
    owner = int.from_bytes(call.raw.read(call.args[2], 4), "little", signed=True)
    _judge_owner(call, owner)
    return answered_remotely(call.raw.set_owner(fd, owner))


def _judge_owner(call: Call, owner: int) -> None:
    """A group must be of the box's processes; setpgid keeps them out of the reaper's. Landlock judges signals to a
    single process, and those to a group that the caller is not in."""
    if owner >= 0 or owner == NO_GROUP:
        return  # a process, none, or EINVAL, says the host
    tasks, group = call.kernel.tasks, -owner
    if group == tasks.reaper:
        raise Refused(errno.EPERM, "the group of husk's reaper, which a signal to the group would reach")
    if not any(_group_of(pid) == group for pid in (call.tid, *tasks.host_pids())):
        raise OSError(errno.ESRCH, "no process group of this box")


def _group_of(host_pid: int) -> int:
    try:
        return int(stat_fields(host_pid)[2])
    except OSError:
        return 0  # gone


def clone3(call: Call) -> Reply:
    """A clone of the guest's own thread, with the flags in a register: native/remote/clone3.c says why. The filter
    judges that clone. Its row is asked here too, so that the reason of a refusal is told outside."""
    wish = _CloneArgs(call)
    wish.check()
    if wish.set_tid:
        raise Refused(errno.EPERM, "a process with a chosen number could be taken for another one")
    if wish.flags & CLONE_NEWTIME:
        raise Refused(errno.EPERM, NEW_NAMESPACE)
    if wish.flags & CLONE_INTO_CGROUP:
        raise Refused(errno.EBADF, "control groups are the host's: no descriptor of a guest is one")
    if wish.flags & CLONE_VM:
        raise OSError(errno.ENOSYS, "threads and vfork are left to clone, which is native")
    registers, number_at = wish.registers()
    clone = by_name("clone")
    assert clone is not None
    verdict = clone.verdict((*registers, 0), call.kernel.walls)
    if verdict.way != "native":
        raise Refused(verdict.errno, verdict.reason)
    if call.kernel.emulates(clone.nr):
        raise OSError(errno.ENOSYS, "clone is judged as another runtime would, and husk's own call would be noticed")
    error = call.raw.clone(*registers, number_at, bool(wish.flags & CLONE_CLEAR_SIGHAND))
    if error == -errno.EBUSY:
        raise OSError(errno.ENOSYS, "husk has to stop the thread for this, and another process traces it already")
    return ANSWERED


class _CloneArgs:
    """struct clone_args, copied once."""

    __slots__ = ("cgroup", "child_tid", "exit_signal", "flags", "parent_tid", "pidfd", "set_tid", "set_tid_size",
                 "size", "stack", "stack_size", "tls")  # fmt: skip

    def __init__(self, call: Call) -> None:
        self.size = call.args[1]
        if self.size > PAGE or self.size < CLONE_ARGS_SMALLEST:
            raise OSError(errno.E2BIG if self.size > PAGE else errno.EINVAL, "no size of struct clone_args")
        given = call.raw.read(call.args[0], self.size)
        if any(given[CLONE_ARGS.size :]):
            raise OSError(errno.E2BIG, "struct clone_args has fields that this version does not know")
        (self.flags, self.pidfd, self.child_tid, self.parent_tid, self.exit_signal, self.stack, self.stack_size,
         self.tls, self.set_tid, self.set_tid_size, self.cgroup) = CLONE_ARGS.unpack(
            given[: CLONE_ARGS.size].ljust(CLONE_ARGS.size, b"\0")
        )  # fmt: skip

    def check(self) -> None:
        """Linux's own checks, which know nothing of husk."""
        if (
            self.set_tid_size > MOST_NAMESPACES
            or bool(self.set_tid) != bool(self.set_tid_size)
            or self.exit_signal > LAST_SIGNAL
            or (self.flags & CLONE_INTO_CGROUP and (self.cgroup >> 31 or self.size < CLONE_ARGS.size))
            or bool(self.stack) != bool(self.stack_size)
            or self.stack + self.stack_size > USER_END
            or (self.flags & BOTH_NUMBERS == BOTH_NUMBERS and self.pidfd == self.parent_tid)
        ):
            raise OSError(errno.EINVAL, "fields of struct clone_args that make no sense")
        if (
            self.flags & ~CLONE_KNOWN
            or (self.flags & CLONE_SIGHAND and (self.flags & CLONE_CLEAR_SIGHAND or not self.flags & CLONE_VM))
            or (self.flags & CLONE_THREAD and not self.flags & CLONE_SIGHAND)
            or (self.flags & (CLONE_THREAD | CLONE_PARENT) and self.exit_signal)
        ):
            raise OSError(errno.EINVAL, "flags that are unknown or do not go together")

    def registers(self) -> tuple[tuple[int, int, int, int, int], int]:
        """clone's arguments, and where husk has to write the child's number: in clone a pidfd has its address."""
        flags = (self.flags & ~CLONE_UNTRACED & 0xFFFFFFFF) | self.exit_signal  # husk has to trace the child
        second, number_at = self.parent_tid, 0
        if flags & CLONE_PIDFD:
            second = self.pidfd
            number_at = self.parent_tid if flags & CLONE_PARENT_SETTID else 0
            flags &= ~CLONE_PARENT_SETTID
        return (flags, self.stack + self.stack_size, second, self.child_tid, self.tls), number_at


def uname(call: Call) -> Reply:
    """The host's kernel, with the box's own name in place of the host's."""
    host = os.uname()
    sysname, release, version, machine = map(os.fsencode, (host.sysname, host.release, host.version, host.machine))
    with open(f"/proc/{call.tid}/personality", "rb") as personality:
        if int(personality.read(), 16) & 0xFF == PER_LINUX32:
            machine = b"i686"  # as setarch wants it
    fields = (sysname, HOSTNAME, release, version, machine, b"(none)")
    call.raw.write(call.args[0], b"".join(text[: UTS_FIELD - 1].ljust(UTS_FIELD, b"\0") for text in fields))
    return 0

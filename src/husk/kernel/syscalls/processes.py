"""getpgid(2), getsid(2), getpriority(2), setpriority(2), ioprio_*(2), prlimit64(2), sched_*(2), get_robust_list(2): on
a process by number; and uname(2).

Native inside a pid namespace (uname: a uts namespace). Without one any process of the same user could be named, so the
number is checked here; only registers are judged, and the host may then run the call by itself.
"""

from __future__ import annotations

import errno
import os

from husk.kernel.call import CONTINUE, Call, Reply, i32

PRIO_PROCESS = 0  # getpriority's `which`
IOPRIO_WHO_PROCESS = 1
HOSTNAME, UTS_FIELD = b"husk", 65


def _on_pid(call: Call) -> Reply:
    return _confined(call, i32(call, 0))


def _on_process_only(process: int, call: Call) -> Reply:
    """`which` may also be a process group or a user: those reach beyond the box."""
    if i32(call, 0) != process:
        raise OSError(errno.EPERM, "groups and users reach beyond the box")
    return _confined(call, i32(call, 1))


def _confined(call: Call, pid: int) -> Reply:
    """ESRCH for whom the guest cannot see, as if it were not there."""
    if pid < 0:
        return CONTINUE  # EINVAL or ESRCH, the host knows
    if pid and not call.kernel.tasks.guest_of(pid):
        raise OSError(errno.ESRCH, "no process of this box")
    return CONTINUE


getpgid = getsid = prlimit64 = get_robust_list = _on_pid
sched_getaffinity = sched_setaffinity = sched_getattr = sched_setattr = _on_pid
sched_getparam = sched_setparam = sched_getscheduler = sched_setscheduler = sched_rr_get_interval = _on_pid


def getpriority(call: Call) -> Reply:
    return _on_process_only(PRIO_PROCESS, call)


def setpriority(call: Call) -> Reply:
    return _on_process_only(PRIO_PROCESS, call)


def ioprio_get(call: Call) -> Reply:
    return _on_process_only(IOPRIO_WHO_PROCESS, call)


def ioprio_set(call: Call) -> Reply:
    return _on_process_only(IOPRIO_WHO_PROCESS, call)


def uname(call: Call) -> Reply:
    """The host's kernel, with the box's own name in place of the host's."""
    host = os.uname()
    sysname, release, version, machine = map(os.fsencode, (host.sysname, host.release, host.version, host.machine))
    fields = (sysname, HOSTNAME, release, version, machine, b"(none)")
    call.raw.write(call.args[0], b"".join(text[: UTS_FIELD - 1].ljust(UTS_FIELD, b"\0") for text in fields))
    return 0

"""kernel/syscalls: one file per family; a public function is a system call, spelled as Linux spells it.

Families that a program may well do without are imported when the first of their calls is made: `husk run -- true`
should not pay for sockets.
"""

from __future__ import annotations

from husk.abi.registry import dispatch_names
from husk.kernel.syscalls import execve, open, stat, tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.call import Call, Reply

    Handler = Callable[[Call], Reply]

FAMILIES = (execve, open, stat, tty)
LATER = {
    "setattr": (
        "chmod chown fallocate fchmod fchmodat fchmodat2 fchown fchownat futimesat lchown truncate utime utimensat"
        " utimes"
    ),
    "directories": "chdir getcwd getdents getdents64",
    "inotify": "inotify_add_watch",
    "sendmsg": "recvfrom recvmmsg recvmsg sendmmsg sendmsg sendto",
    "names": (
        "link linkat mkdir mkdirat mknod mknodat rename renameat renameat2 rmdir symlink symlinkat unlink unlinkat"
    ),
    "privileged": (
        "chroot fanotify_mark fsconfig mount mount_setattr name_to_handle_at open_by_handle_at open_tree quotactl"
        " quotactl_fd umount2"
    ),
    "processes": (
        "get_robust_list getpgid getpriority getsid ioprio_get ioprio_set prlimit64 sched_getaffinity sched_getattr"
        " sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam"
        " sched_setscheduler setpriority uname"
    ),
    "sockets": "accept accept4 bind connect getpeername getsockname getsockopt listen setsockopt socket",
    "shm": "shmat shmctl shmdt shmget",
    "xattrs": (
        "fgetxattr flistxattr fremovexattr fsetxattr getxattr getxattrat lgetxattr listxattr listxattrat llistxattr"
        " lremovexattr lsetxattr removexattr removexattrat setxattr setxattrat"
    ),
}
HUSK_CALL = 0x4855


def handlers() -> dict[int, Handler]:
    """Number → handler for every call the registry names virtual. A row without a handler is a bug caught by a test."""
    homes = {name: family for family, names in LATER.items() for name in names.split()}
    table: dict[int, Handler] = {}
    for nr, name in dispatch_names().items():
        for family in FAMILIES:
            handler = vars(family).get(name)
            if handler is not None:
                table[nr] = handler
        if name in homes:
            table[nr] = _later(table, nr, homes[name], name)
    table[HUSK_CALL] = execve.husk_call
    return table


def _later(table: dict[int, Handler], nr: int, family: str, name: str) -> Handler:
    """Stands in for a handler until the first call, and is then replaced by it."""

    def handler(call: Call) -> Reply:
        table[nr] = load(family, name)
        return table[nr](call)

    return handler


def load(family: str, name: str) -> Handler:
    from importlib import import_module

    handler: Handler = getattr(import_module(f"{__name__}.{family}"), name)
    return handler

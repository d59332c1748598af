"""walls: the uid and gid of a guest, inside the box and on the host.

husk run as root gives each box a host id of its own, and 1000 inside. The range is one that neither distributions nor
systemd's containers hand out (systemd: docs/UIDS-GIDS). One id for each box, not one for all boxes: Linux counts or
permits some things by user (signals, tracing, RLIMIT_NPROC, pipe buffers, message queues), and separate ids keep boxes
apart there even without another wall. The pid makes the id unique among the husk processes of a machine, the counter
makes it unique among the boxes of one process.
"""

from __future__ import annotations

import os
from itertools import count

FIRST_BOX_ID, PIDS, BOXES_PER_PROCESS, GUEST_ID = 1_900_000_000, 1 << 22, 58, 1000
_boxes = count()


def box_id() -> int:
    return FIRST_BOX_ID + next(_boxes) % BOXES_PER_PROCESS * PIDS + os.getpid()


class Ids:
    """The guest's ids inside and on the host. `switch`: husk runs as root, and the guest runs as another user."""

    __slots__ = ("gid", "host_gid", "host_uid", "switch", "uid")

    def __init__(self, *, user_namespace: bool, keep_user: bool = False, wanted: tuple[int, int] | None = None) -> None:
        """`wanted`: the ids an image wants inside. That takes a user namespace."""
        self.switch = os.geteuid() == 0 and not keep_user
        if self.switch:
            self.host_uid = self.host_gid = box_id()
            self.uid = self.gid = GUEST_ID if user_namespace else self.host_uid
        else:
            self.host_uid = self.uid = os.geteuid()
            self.host_gid = self.gid = os.getegid()
        if wanted is not None and user_namespace:
            self.uid, self.gid = wanted


def may_switch_user(*, user_namespace: bool) -> str:
    """The capabilities that root lacks to run a guest as another user; empty if it lacks none. The owner of a user
    namespace may trace what is in it; without one, tracing another user's process takes a capability."""
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("CapEff:")]
    held = int(line.split()[1], 16)
    wanted = {"CAP_SETGID": 6, "CAP_SETUID": 7} | ({} if user_namespace else {"CAP_SYS_PTRACE": 19})
    return ", ".join(name for name, bit in wanted.items() if not held >> bit & 1)

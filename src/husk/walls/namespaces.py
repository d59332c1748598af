"""walls: which namespaces a box gets, by flag and by file below /proc/PID/ns, and the walls to try on this machine.

Not here: making a namespace (husk-init), joining one (husk-init), deciding to do without (husk.sandbox.plan).
"""

from __future__ import annotations

from husk.abi.box_walls import Walls
from husk.native._core import landlock_abi

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
ALL_NAMESPACES = (
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
)
JOINED = ("user", "mnt", "net", "ipc", "uts")  # namespaces that the runs of one box share, in the order of joining


def clone_flags(walls: Walls) -> int:
    """The namespaces that husk-init unshares."""
    return sum(
        bit
        for stands, bit in (
            (walls.user, CLONE_NEWUSER),
            (walls.mount, CLONE_NEWNS),
            (walls.pid, CLONE_NEWPID),
            (walls.net, CLONE_NEWNET),
            (walls.ipc, CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP),
        )
        if stands
    )


def walls_here(
    *, namespaces: bool, outside: bool = False, image: bool = False, devices: frozenset[str] = frozenset(),
    direct: bool = False,
) -> Walls:
    """The walls to try: all namespaces or none, and Landlock as this kernel has it. `image`: of the store, whose user
    may be root. `direct`: guests may look up the names of /usr themselves, where there is a root of their own."""
    return Walls(
        pid=namespaces,
        net=namespaces,
        mount=namespaces,
        ipc=namespaces,
        user=namespaces,
        landlock=landlock_abi(),
        own_placeholders=namespaces,
        outside=outside,
        one_user=not image,
        devices=devices,
        direct=direct and namespaces,
    )

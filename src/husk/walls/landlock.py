"""walls: what each version (ABI) of Landlock can deny. husk-init raises the wall; the doctor tries it."""

from __future__ import annotations

SCOPES_SIGNALS = 6  # the first ABI that keeps signals and abstract sockets inside


def landlock_rights(abi: int, *, own_network: bool = False) -> tuple[int, int, int, int]:
    """Rights to handle (all that the kernel knows, so all are denied), network, scopes, and the loader's rights. A
    guest in a network namespace of its own connects by itself.

    ABI 9 (paths of Unix sockets) and 10 (UDP) are as linux/landlock.h of Linux 7.2 has them."""
    fs = (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16 if abi < 9 else 17)) - 1
    net = 0 if abi < 4 or own_network else 3 if abi < 10 else 15
    return fs, net, 3 if abi >= SCOPES_SIGNALS else 0, 1 | 4

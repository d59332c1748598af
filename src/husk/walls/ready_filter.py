"""Layer walls: the filters of the usual boxes, compiled when husk is built.

To compile one takes a millisecond, and the registry's rows, whose import takes two. Most runs have the same walls: all
namespaces, Landlock, no device, no network outside, no image. Their filters lie in the C core (native/notify): part of
what was installed, made of the same rows, and nobody who cannot change husk itself can change them. Every other box
has its filter compiled (filter.py), and a test compares the two.
"""

from __future__ import annotations

from husk.abi.box_walls import Walls

__all__ = ["USUAL", "number_of"]


def _usual(*, direct: bool) -> Walls:
    return Walls(
        pid=True, net=True, mount=True, ipc=True, user=True, landlock=1, own_placeholders=True, direct=direct
    )  # fmt: skip


# The walls, and whether the calls that end the use of gates are notified. tools/call_table.py compiles them.
USUAL = [(_usual(direct=direct), gates) for direct in (False, True) for gates in (False, True)]


def number_of(walls: Walls, *, gates: bool) -> int:
    """Its place in USUAL; -1: it is none of them. No rule asks for more of Landlock than that it stands, where there is
    a pid namespace."""
    for at, (usual, has_gates) in enumerate(USUAL):
        if has_gates == gates and walls.landlock and walls.pid and _same(walls, usual):
            return at
    return -1


def _same(one: Walls, other: Walls) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in Walls.__slots__ if name != "landlock")

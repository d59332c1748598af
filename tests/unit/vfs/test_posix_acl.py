"""POSIX ACLs: who an ACL lets in, and what becomes of its ids."""

from __future__ import annotations

import struct

import pytest

from husk.vfs.access import posix_acl
from husk.vfs.node import ACL_ACCESS, ACL_DEFAULT, Credentials, Stat
from husk.vfs.permissions import permitted

U, NU, G, NG, M, O = 1, 2, 4, 8, 16, 32  # noqa: E741
OWNER, GROUP = 7, 70


def acl(*entries: tuple[int, ...]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *(*entry, 0xFFFFFFFF)[:3]) for entry in entries)


def may(value: bytes, uid: int, groups: set[int], want: int) -> bool:
    mode, _ = posix_acl.mode_of(posix_acl.parse(value), 0o100000)
    info = Stat(1, 1, mode, 1, OWNER, GROUP, 0, 0, 0, 0, 0, 0, 0, acl=value)
    return permitted(Credentials(uid, 999, frozenset(groups)), info, want)


FULL = acl((U, 0), (NU, 6, 8), (G, 4), (NG, 2, 71), (M, 6), (O, 1))


@pytest.mark.parametrize(
    ("value", "uid", "groups", "want", "answer"),
    [
        (FULL, OWNER, {GROUP}, 4, False),  # the owner's entry alone counts
        (FULL, 8, set(), 6, True),
        (FULL, 8, set(), 1, False),  # a named user is not one of the others
        (FULL, 9, {GROUP}, 4, True),
        (FULL, 9, {71}, 2, True),
        (FULL, 9, {GROUP, 71}, 6, False),  # one entry must allow all of it
        (FULL, 9, {GROUP}, 1, False),  # nor is a member of a group one of the others
        (FULL, 9, set(), 1, True),
        (FULL, 9, set(), 4, False),
        (acl((U, 6), (NU, 7, 8), (G, 7), (M, 4), (O, 0)), 8, set(), 4, True),
        (acl((U, 6), (NU, 7, 8), (G, 7), (M, 4), (O, 0)), 8, set(), 2, False),  # masked
        (acl((U, 6), (NU, 7, 8), (G, 7), (M, 4), (O, 0)), 9, {GROUP}, 2, False),
        (acl((U, 6), (NU, 7, 8), (G, 7), (M, 0), (O, 4)), 8, set(), 4, True),  # without a mask's bits: by the mode
    ],
)
def test_who_is_let_in(value: bytes, uid: int, groups: set[int], want: int, answer: bool) -> None:
    assert may(value, uid, groups, want) is answer


def test_ids_of_an_image_become_the_boxs() -> None:
    given = {ACL_ACCESS: FULL, ACL_DEFAULT: acl((U, 7), (G, 7)), b"user.a": b"v"}
    found = posix_acl.of_box(given, {8: 0}, {71: 1, 8: 5})
    # The broken one is left out.
    assert found == {ACL_ACCESS: acl((U, 0), (NU, 6, 0), (G, 4), (NG, 2, 1), (M, 6), (O, 1))}


def test_as_a_person_reads_it() -> None:
    assert posix_acl.as_text(FULL) == "user::---,user:8:rw-,group::r--,group:71:-w-,mask::rw-,other::--x"

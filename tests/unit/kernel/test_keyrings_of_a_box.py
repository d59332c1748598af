"""The key rings of a box: bounds, expiry, what is forgotten. tests/guests/keys_rings.c compares calls with Linux."""

from __future__ import annotations

import errno
import os
import time

import pytest

from husk.kernel.cred.inherited import Inherited
from husk.kernel.cred.keyrings import MAX_BYTES, MAX_KEYS, PROCESS_RING, SESSION_RING, USER_RING, Caller, Keyrings


def _box() -> tuple[Keyrings, Caller]:
    return Keyrings(Inherited(lambda: [os.getpid()], (0, 0)), (1000, 1000)), Caller(os.getpid(), os.getpid())


def test_a_box_has_at_most_as_many_keys_as_a_user_of_linux() -> None:
    rings, caller = _box()
    ring = rings.own(caller, PROCESS_RING, create=True)
    with pytest.raises(OSError, match="at most") as full:
        for number in range(MAX_KEYS + 1):
            rings.link(rings.make(b"user", b"%d" % number, 0x3F3F0000, b"x"), ring)
    assert full.value.errno == errno.EDQUOT and len(ring.ring()) == MAX_KEYS - 3
    ring.ring().clear()  # what nothing leads to makes room
    rings.make(b"user", b"again", 0x3F3F0000, b"x")
    with pytest.raises(OSError, match="at most"):
        rings.make(b"user", b"large", 0x3F3F0000, bytes(MAX_BYTES))


def test_a_key_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    rings, caller = _box()
    key = rings.make(b"user", b"key", 0x3F3F0000, b"x")
    rings.link(key, rings.own(caller, USER_RING, create=False))
    key.expires = time.monotonic() + 5
    assert rings.look_up(caller, key.serial, 0) is key
    monkeypatch.setattr(time, "monotonic", lambda: key.expires)
    with pytest.raises(OSError, match="expired") as late:
        rings.look_up(caller, key.serial, 0)
    assert late.value.errno == errno.EKEYEXPIRED


def test_a_session_without_holders_is_forgotten() -> None:
    rings, caller = _box()
    session = rings.make(b"keyring", b"named", 0x3F3F0000)
    rings.join(caller, session)
    assert rings.session(caller) is session and rings.named_session(b"named") is session
    assert rings.own(caller, SESSION_RING, create=True) is session
    rings.join(caller, rings.make(b"keyring", b"other", 0x3F3F0000))
    assert rings.named_session(b"named") is None

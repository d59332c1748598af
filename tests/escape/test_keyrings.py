"""Key rings: a guest reaches no key of the host's, although husk has them in its session, and leaves none there."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

ADD, REQUEST, KEYCTL = 248, 249, 250
JOIN_SESSION, SETPERM, UNLINK = 1, 5, 9
SESSION, EVERYTHING = -3, 0x3F3F3F3F
GUEST = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def told(*call):
    return "reached" if libc.syscall(*call) >= 0 else errno.errorcode[ctypes.get_errno()]
room = ctypes.create_string_buffer(100)
print(told(249, b"user", b"husk-host-secret", None, 0), told(250, 11, {key}, room, 100), end=" ")
print(*(told(250, 10, ring, b"user", b"husk-host-secret", 0) for ring in (-3, -4, -5)), end=" ")
print(told(250, 8, {key}, -4), told(250, 3, {key}), told(250, 9, {key}, -3))
print(*(told(248, b"user", b"{own}", b"x", 1, ring) for ring in (-3, -4, -5)))
"""
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def secret() -> Iterator[int]:
    """A key that everyone may use, in a session ring that husk inherits."""
    if libc.syscall(KEYCTL, JOIN_SESSION, b"husk-test") < 0:
        pytest.skip(f"this host has no key rings for us: {os.strerror(ctypes.get_errno())}")
    key = libc.syscall(ADD, b"user", b"husk-host-secret", b"secret", 6, SESSION)
    assert key > 0 and libc.syscall(KEYCTL, SETPERM, key, EVERYTHING) == 0
    yield key
    libc.syscall(KEYCTL, UNLINK, key, SESSION)


def test_keys_of_the_host_stay_its_own(secret: int) -> None:
    own = f"husk-box-key-{os.getpid()}"  # of no other test
    found = husk(["run", "--", "/usr/bin/python3", "-c", GUEST.format(key=secret, own=own)]).out.splitlines()
    assert found == [" ".join(["ENOKEY"] * 8), "reached reached reached"]
    assert libc.syscall(REQUEST, b"user", own.encode(), None, 0) < 0
    assert ctypes.get_errno() == errno.ENOKEY
    assert own not in Path("/proc/keys").read_text()
    assert libc.syscall(KEYCTL, 11, secret, ctypes.create_string_buffer(9), 9) == 6

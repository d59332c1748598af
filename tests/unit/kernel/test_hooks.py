"""Hooks see the names and addresses that a call's row declares, and the handler acts on what they answer."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from husk.abi.registry import handled_rows
from husk.abi.registry.rules import IN_C
from husk.abi.registry.signatures import arguments, positions
from husk.kernel.hooks import Hooks, Seen
from tests.unit.kernel.fakes import Guest

AT_FDCWD = -100
NAMED = [row for row in handled_rows() if positions(row, "path") and row.family != IN_C]


def hook(guest: Guest, name: str, answer: str | OSError | None = None) -> list[Seen]:
    seen: list[Seen] = []

    def look(call: Seen) -> str | None:
        seen.append(call)
        if isinstance(answer, OSError):
            raise answer
        return answer

    guest.kernel.hooks = Hooks()
    guest.kernel.hooks.add(name, look)
    return seen


@pytest.mark.parametrize("name", [row.name for row in NAMED])
def test_a_hook_sees_every_path(guest: Guest, name: str) -> None:
    row = next(row for row in NAMED if row.name == name)
    seen = hook(guest, name, PermissionError())
    places = positions(row, "path")
    args = [0] * len(arguments(row))
    for number, n in enumerate(places):
        args[n] = guest.text(b"name%d" % number)
    assert guest.errno(name, *args) == "EACCES"
    assert seen[0].path == "name0" and seen[0].new_path == ("name1" if len(places) > 1 else "")
    assert guest.kernel.hooks is not None and guest.kernel.hooks.see_names()


def test_the_xattrat_calls_act_on_the_name_a_hook_gives(guest: Guest) -> None:
    """They had no path for hooks while the list of names was kept by hand."""
    guest.write_file(b"other", b"x", 0o644)
    attribute = guest.text(b"user.a")
    value = guest.memory.put(b"v")
    given = guest.memory.put(value.to_bytes(8, "little") + (1).to_bytes(4, "little") + bytes(4))
    hook(guest, "setxattrat", "other")
    assert guest.errno("setxattrat", AT_FDCWD, guest.text(b"missing"), 0, attribute, given, 16) in ("ok", "EOPNOTSUPP")
    room = guest.memory.put(bytes(64))
    for name, args in (
        ("listxattrat", (room, 64)),
        ("getxattrat", (attribute, given, 16)),
        ("removexattrat", (attribute,)),
    ):
        seen = hook(guest, name, "other")
        assert guest.errno(name, AT_FDCWD, guest.text(b"missing"), 0, *args) != "ENOENT", name
        assert seen[0].path == "missing"


def test_flags_of_an_open_are_spelled(guest: Guest) -> None:
    seen = hook(guest, "openat")
    guest.call("openat", AT_FDCWD, guest.text(b"file"), os.O_RDONLY | os.O_CLOEXEC, 0)
    assert seen[0].flags == "O_RDONLY|O_CLOEXEC" and seen[0].path == "file"


@pytest.mark.parametrize("name", ["connect", "bind", "sendto"])
def test_addresses_are_shown(guest: Guest, name: str) -> None:
    seen = hook(guest, name, OSError(errno.EHOSTUNREACH, "not there"))
    packed = socket.AF_INET.to_bytes(2, "little") + (80).to_bytes(2, "big") + bytes([192, 0, 2, 7]) + bytes(8)
    at = guest.memory.put(packed)
    args = (3, 0, 0, 0, at, 16) if name == "sendto" else (3, at, 16)
    assert guest.errno(name, *args) == "EHOSTUNREACH"
    assert seen[0].address == "192.0.2.7:80"


@pytest.mark.parametrize("name", ["read", "rt_sigaction", "no_such_call", "pivot_root"])
def test_calls_that_husk_does_not_answer_cannot_be_hooked(name: str) -> None:
    with pytest.raises(ValueError, match="husk syscalls"):
        Hooks().add(name, lambda _: None)

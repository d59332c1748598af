"""Structures from a guest's memory, decoded by handlers: for any bytes there is one answer, no error in husk, and no
descriptor left behind. (C's part of this is tests/fuzz/targets/.)
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from husk.kernel.net.msghdr import CONTROL, HEADER, control_messages, pack_control
from tests.unit.kernel.conftest import prepare
from tests.unit.kernel.fakes import Guest, new_descriptors, open_descriptors

FEW = settings(max_examples=40, deadline=None, derandomize=True)
CWD = -100
numbers = (
    st.integers(0, 64)
    | st.sampled_from([255, 4096, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
    | st.integers(0, 2**64 - 1)
)
flags = st.integers(0, 2**23 - 1) | st.integers(0, 2**64 - 1)
addresses = st.one_of(
    st.binary(max_size=130),
    st.binary(max_size=108).map(lambda name: b"\1\0" + name),
    st.tuples(st.integers(0, 65535), st.binary(min_size=4, max_size=4)).map(lambda to: struct.pack("<HH4s8x", 2, *to)),
    st.binary(min_size=16, max_size=16).map(lambda to: struct.pack("<HHI16sI", 10, 0, 0, to, 0)),
    st.sampled_from(
        [b"\1\0", b"\1\0" + b"x" * 108, b"\1\0\0abstract", b"\1\0sock\0", b"\1\0../x", b"\x10\0" + bytes(10)]
    ),
)


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    for name in ("lower", "state"):
        (tmp_path / name).mkdir()
    prepare(tmp_path / "lower")
    box = Guest(os.fsencode(tmp_path / "state"), os.fsencode(tmp_path / "lower"))
    box.vfs.state.need_files()  # it keeps that folder open from the first file on
    yield box
    box.close()


def made(guest: Guest, name: str, *args: int) -> None:
    """One call: its answer is one a guest may get. Descriptors that it gave are closed again."""
    before, held = open_descriptors(), set(guest.fds)
    kind, value = guest.answer(guest.make(name, *args))
    assert kind in ("value", "fd", "error")
    assert kind != "error" or value != errno.EIO
    for fd in guest.fds - held:
        os.close(fd)
    guest.fds &= held
    assert not new_descriptors(before)


def test_open_how(guest: Guest) -> None:
    @FEW
    @given(
        flags,
        numbers,
        numbers,
        numbers,
        st.binary(max_size=40),
        st.sampled_from([b"file", b"new", b"dir", b"link", b"fifo", b""]),
    )
    @example(os.O_CREAT | os.O_RDWR, 0o600, 0, 24, b"", b"new")
    @example(0, 0, 0, 4096, bytes(40), b"file")
    def check(wanted: int, mode: int, resolve: int, size: int, rest: bytes, name: bytes) -> None:
        how = guest.memory.put(struct.pack("<QQQ", wanted | os.O_NONBLOCK, mode, resolve) + rest)
        made(guest, "openat2", CWD, guest.text(name), how, size)

    check()


@pytest.mark.parametrize("name", ["bind", "connect", "sendto"])
@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET], ids=["unix", "inet"])
def test_socket_addresses(guest: Guest, name: str, family: int) -> None:
    """On loopback addresses only: what leads elsewhere is refused before anything is sent."""

    @FEW
    @given(addresses, numbers | st.none())
    @example(b"\1\0" + b"x" * 108, None)
    @example(b"", 0)
    def check(address: bytes, size: int | None) -> None:
        if family == socket.AF_INET and address[:1] in (b"\2", b"\n"):
            address = address[:4] + (b"\x7f" if address[0] == 2 else b"\xff") + address[5:]
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
        fd = guest.hold(socket.socket(family, kind).detach())
        at, told = guest.memory.put(address), len(address) if size is None else size
        if name == "sendto":
            made(guest, name, fd, guest.memory.put(b"data"), 4, 0, at, told)
        else:
            made(guest, name, fd, at, told)
        guest.fds.remove(fd)
        os.close(fd)

    check()


controls = st.lists(
    st.tuples(
        numbers, st.sampled_from([1, 0, 41, 2**31]), st.sampled_from([1, 2, 0, 8, 2**31]), st.binary(max_size=24)
    ),
    max_size=4,
)


def pack(rows: list[tuple[int, int, int, bytes]], *, sound: bool) -> bytes:
    parts = [
        struct.pack("<QII", CONTROL.size + len(value) if sound else size, level, kind)
        + value.ljust((len(value) + 7) // 8 * 8, b"\0")
        for size, level, kind, value in rows
    ]
    return b"".join(parts)


@pytest.mark.parametrize("name", ["sendmsg", "sendmmsg", "recvmsg", "recvmmsg"])
def test_messages(guest: Guest, name: str) -> None:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours, theirs = (guest.hold(end.detach()) for end in ends)
    os.set_blocking(ours, False)

    @FEW
    @given(
        addresses,
        st.lists(st.tuples(st.booleans(), numbers), max_size=3),
        numbers,
        controls,
        st.booleans(),
        st.integers(0, 2**20),
    )
    @example(b"", [(True, 4)], 1, [(20, 1, 1, struct.pack("<i", 0))], True, 0)
    @example(b"", [(True, 4)], 1, [(20, 1, 2, bytes(12))], True, 0)
    def check(
        address: bytes,
        parts: list[tuple[bool, int]],
        count: int,
        rows: list[tuple[int, int, int, bytes]],
        sound: bool,
        more: int,
    ) -> None:
        vector = b"".join(struct.pack("<QQ", guest.memory.put(bytes(64)) if good else 16, size) for good, size in parts)
        control = pack(rows, sound=sound)
        header = HEADER.pack(
            guest.memory.put(address),
            len(address),
            0,
            guest.memory.put(vector),
            len(parts) if sound else count,
            guest.memory.put(control),
            len(control),
            0,
        )
        at = guest.memory.put((header + bytes(8)) * 2)
        unblocking = more & ~0x20000000 | socket.MSG_DONTWAIT  # MSG_FASTOPEN is for TCP
        made(guest, name, ours, at, *([2, unblocking, 0] if "mmsg" in name else [unblocking]))
        with contextlib.suppress(BlockingIOError):
            while True:  # so that the queue never fills
                reading.recv(65536)

    with socket.socket(fileno=os.dup(theirs)) as reading:
        reading.setblocking(False)
        check()


@FEW
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.binary(max_size=30)), max_size=5),
    st.binary(max_size=15),
)
def test_control_messages_come_back(messages: list[tuple[int, int, bytes]], tail: bytes) -> None:
    assert control_messages(pack_control(messages) + tail) == messages


@FEW
@given(st.binary(max_size=200))
def test_any_control_data(data: bytes) -> None:
    try:
        found = control_messages(data)
    except OSError as error:
        assert error.errno == errno.EINVAL
    else:
        assert sum(len(value) for _, _, value in found) <= len(data)

"""Arguments as registers hold them, and where a walk begins."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from husk.kernel.call import AT_FDCWD, Call, held_node, i32, i64, path, start_dir, u32, working_directory
from husk.vfs.node import Dir
from tests.unit.kernel.fakes import BAD, Guest

REGISTER = some.integers(0, (1 << 64) - 1)


class Registers:
    def __init__(self, *values: int) -> None:
        self.args = values


@given(REGISTER)
@example(0xFFFFFFFF)
@example(0x80000000)
@example(0x7FFFFFFF)
@example(0xFFFFFFFF_00000000)
@example(0x00000001_80000000)
@example(1 << 63)
def test_registers_read_as_c_reads_them(value: int) -> None:
    """Linux looks at 32 bits of an int argument, whatever the guest left in the upper half."""
    call = cast(Any, Registers(7, value))
    assert i32(call, 1) == ctypes.c_int32(value & 0xFFFFFFFF).value
    assert u32(call, 1) == ctypes.c_uint32(value & 0xFFFFFFFF).value
    assert i64(call, 1) == ctypes.c_int64(value).value
    assert i32(call, 0) == u32(call, 0) == i64(call, 0) == 7


def test_dirfd_with_rubbish_above(guest: Guest) -> None:
    """AT_FDCWD in the low half of a register is AT_FDCWD."""
    assert guest.errno("faccessat", 0xFFFFFF9C, guest.text(b"file"), 4) == "ok"
    assert guest.errno("faccessat", 0x7_FFFFFF9C, guest.text(b"file"), 4) == "ok"
    fd = guest.open(b"dir", os.O_DIRECTORY)
    assert guest.errno("faccessat", fd | 1 << 40, guest.text(b"inside"), 4) == "ok"


def call_of(guest: Guest, *args: int) -> Call:
    return Call(cast(Any, guest.make("openat", *args)), guest.kernel)


def test_path_is_copied_once_and_kept_for_events(guest: Guest) -> None:
    call = call_of(guest, 0, guest.text(b"some/name"))
    assert path(call, 1) == b"some/name"
    assert call.texts == {1: b"some/name"}


@pytest.mark.parametrize(("content", "error"), [
    (b"n" * 4095 + b"\0", 0),
    (b"n" * 4096 + b"\0", errno.ENAMETOOLONG),
    (b"n" * 9000, errno.ENAMETOOLONG),
    (b"no end", errno.EFAULT),
])
def test_path_lengths(guest: Guest, content: bytes, error: int) -> None:
    call = call_of(guest, guest.memory.put(content))
    if not error:
        assert path(call, 0) == content[:-1]
        return
    with pytest.raises(OSError) as refused:
        path(call, 0)
    assert refused.value.errno == error
    assert not call.texts, "what could not be read is no text of an event"


def test_path_at_a_bad_address(guest: Guest) -> None:
    with pytest.raises(OSError) as refused:
        path(call_of(guest, BAD), 0)
    assert refused.value.errno == errno.EFAULT


def start(guest: Guest, dirfd: int, name: bytes) -> bytes | str:
    try:
        return guest.vfs.path_of(start_dir(call_of(guest), dirfd, name))
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def test_where_a_walk_begins(guest: Guest) -> None:
    directory = guest.open(b"dir", os.O_DIRECTORY)
    file = guest.open(b"file")
    pipe, other = os.pipe()
    guest.fds |= {pipe, other}
    guest.cwd = _moved(guest, b"empty")
    assert start(guest, AT_FDCWD, b"x") == b"/empty"
    assert start(guest, directory, b"x") == b"/dir"
    for dirfd in (AT_FDCWD, directory, file, -1, 12345):
        assert start(guest, dirfd, b"/x") == b"/", "an absolute name never looks at dirfd"
    assert start(guest, file, b"x") == "ENOTDIR"
    assert start(guest, pipe, b"x") == "ENOTDIR"
    assert start(guest, -1, b"x") == "EBADF"
    assert start(guest, 12345, b"x") == "EBADF"
    assert start(guest, -101, b"x") == "EBADF"


def _moved(guest: Guest, name: bytes) -> int:
    os.close(guest.cwd)
    return guest.vfs.placeholder_fd(guest.vfs.context, guest.directory(name), os.O_RDONLY)


def test_working_directory_outside_the_box(guest: Guest) -> None:
    """Should a guest ever sit elsewhere, its names lead nowhere."""
    os.close(guest.cwd)
    guest.cwd = os.open("/", os.O_RDONLY)
    with pytest.raises(OSError) as refused:
        working_directory(call_of(guest))
    assert refused.value.errno == errno.ENOENT
    assert guest.errno("access", guest.text(b"etc"), 0) == "ENOENT"
    assert guest.errno("getcwd", guest.memory.put(bytes(64)), 64) == "ENOENT"


def test_what_a_descriptor_is(guest: Guest) -> None:
    call = call_of(guest)
    node = held_node(call, guest.open(b"dir/inside"))
    assert node is not None and guest.vfs.path_of_node(node) == b"/dir/inside"
    assert isinstance(held_node(call, guest.open(b"dir", os.O_DIRECTORY)), Dir)
    pipe, other = os.pipe()
    guest.fds |= {pipe, other}
    assert held_node(call, pipe) is None
    assert held_node(call, guest.hold(os.memfd_create("m"))) is None
    for fd in (-1, 4321):
        with pytest.raises(OSError) as refused:
            held_node(call, fd)
        assert refused.value.errno == errno.EBADF


def test_a_host_file_husk_was_started_with_has_no_node(guest: Guest) -> None:
    """Standard input from a host file: the guest does not see its host name."""
    assert held_node(call_of(guest), guest.hold(os.open(__file__, os.O_RDONLY))) is None

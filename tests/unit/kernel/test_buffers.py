"""Room for answers: too little, exactly enough, and what is not touched beyond it."""

from __future__ import annotations

import errno
import os
import stat as st
import struct
from pathlib import Path

import pytest

from husk.kernel.syscalls.directories import MOST_PER_CALL
from tests.unit.kernel.fakes import Guest, new_descriptors, open_descriptors

DEEP = b"/dir/deeper"


@pytest.fixture
def deep(guest: Guest) -> Guest:
    """The guest sits in /dir/deeper."""
    guest.call("mkdir", guest.text(b"dir/deeper"), 0o755)
    os.close(guest.cwd)
    guest.cwd = guest.vfs.placeholder_fd(guest.vfs.context, guest.directory(DEEP), os.O_RDONLY)
    return guest


def marked(guest: Guest, size: int) -> int:
    return guest.memory.put(b"\xee" * size)


# -- getcwd ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("room", [0, 1, len(DEEP) - 1, len(DEEP)])
def test_getcwd_too_small(deep: Guest, room: int) -> None:
    area = marked(deep, 64)
    assert deep.errno("getcwd", area, room) == "ERANGE"
    assert deep.memory.read(area, 64) == b"\xee" * 64


@pytest.mark.parametrize("room", [len(DEEP) + 1, 64, 1 << 40])
def test_getcwd(deep: Guest, room: int) -> None:
    area = marked(deep, 64)
    assert deep.call("getcwd", area, room) == len(DEEP) + 1, "the NUL counts"
    assert deep.memory.read(area, 13) == DEEP + b"\0\xee"


def test_getcwd_of_a_removed_directory(deep: Guest) -> None:
    deep.call("rmdir", deep.text(DEEP))
    assert deep.errno("getcwd", marked(deep, 64), 64) == "ENOENT"
    assert deep.errno("getcwd", 0, 0) == "ENOENT", "noticed before the room is"


# -- readlink ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("room", "shown"), [(1, b"f"), (3, b"fil"), (4, b"file"), (5, b"file"), (0x7FFFFFFF, b"file")])
def test_readlink_cuts_without_a_nul(guest: Guest, room: int, shown: bytes) -> None:
    area = marked(guest, 8)
    assert guest.call("readlink", guest.text(b"link"), area, room) == len(shown)
    assert guest.memory.read(area, 8) == shown + b"\xee" * (8 - len(shown))


def test_readlink_of_a_held_link(guest: Guest) -> None:
    fd = guest.open(b"link", os.O_PATH | os.O_NOFOLLOW)
    area = marked(guest, 8)
    assert guest.call("readlinkat", fd, guest.text(b""), area, 8) == 4
    assert guest.memory.read(area, 4) == b"file"


# -- getdents ----------------------------------------------------------------------------------------------------------

def listing(guest: Guest, fd: int, room: int) -> list[tuple[bytes, int, int]]:
    """(name, type, offset) of one getdents64."""
    area = marked(guest, room)
    size = guest.call("getdents64", fd, area, room)
    data, found = guest.memory.read(area, size), []
    while data:
        _ino, offset, length, kind = struct.unpack_from("<QqHB", data)
        found.append((data[19:length].split(b"\0")[0], kind, offset))
        data = data[length:]
    return found


NAMES = {b".", b"..", b"file", b"closed", b"dir", b"empty", b"link", b"dangling", b"loop", b"fifo"}


def test_listing(guest: Guest) -> None:
    found = listing(guest, guest.open(b".", os.O_DIRECTORY), 4096)
    assert {name for name, _, _ in found} == NAMES
    assert len(found) == len(NAMES)
    assert [name for name, _, _ in found][:2] == [b".", b".."]
    kinds = {name: kind << 12 for name, kind, _ in found}
    assert kinds[b"file"] == st.S_IFREG and kinds[b"link"] == st.S_IFLNK
    assert kinds[b"dir"] == st.S_IFDIR and kinds[b"fifo"] == st.S_IFIFO


@pytest.mark.parametrize("room", [24, 32, 48, 55, 56, 57, 100])
def test_listing_in_small_pieces(guest: Guest, room: int) -> None:
    """Whatever the room, each name comes once, and the end is the end."""
    fd = guest.open(b".", os.O_DIRECTORY)
    names: list[bytes] = []
    for _ in range(100):
        try:
            piece = listing(guest, fd, room)
        except OSError as error:
            assert error.errno == errno.EINVAL and room < 32, "only where one record does not fit"
            return
        if not piece:
            break
        names += [name for name, _, _ in piece]
    assert sorted(names) == sorted(NAMES)
    assert listing(guest, fd, room) == []


def test_listing_too_small_loses_nothing(guest: Guest) -> None:
    fd = guest.open(b".", os.O_DIRECTORY)
    assert guest.errno("getdents64", fd, marked(guest, 23), 23) == "EINVAL"
    assert guest.errno("getdents64", fd, 0x10, 4096) == "EFAULT"
    assert {name for name, _, _ in listing(guest, fd, 4096)} == NAMES


def test_seeking_in_a_listing(guest: Guest) -> None:
    """telldir, seekdir and rewinddir: the host keeps the position, husk the meaning."""
    fd = guest.open(b".", os.O_DIRECTORY)
    found = listing(guest, fd, 4096)
    for index, (_, _, offset) in enumerate(found):
        os.lseek(fd, offset, os.SEEK_SET)
        assert listing(guest, fd, 4096) == found[index + 1 :]
    os.lseek(fd, 0, os.SEEK_SET)
    assert listing(guest, fd, 4096) == found


def test_old_listing_has_the_same_names(guest: Guest) -> None:
    area = marked(guest, 4096)
    size = guest.call("getdents", guest.open(b".", os.O_DIRECTORY), area, 4096)
    data, names = guest.memory.read(area, size), set()
    while data:
        length = struct.unpack_from("<QQH", data)[2]
        names.add(data[18:length].split(b"\0")[0])
        data = data[length:]
    assert names == NAMES


def test_a_size_of_nonsense_is_bounded(guest: Guest) -> None:
    """2 GiB of room cost husk no 2 GiB; more is a negative number to Linux."""
    assert MOST_PER_CALL <= 1 << 24
    fd = guest.open(b".", os.O_DIRECTORY)
    assert guest.errno("getdents64", fd, marked(guest, 4096), 0xFFFFFFFF) == "EINVAL"
    assert guest.call("getdents64", fd, marked(guest, 4096), 0x7FFFFFFF) > 0


def test_listing_of_a_removed_directory(guest: Guest) -> None:
    fd = guest.open(b"empty", os.O_DIRECTORY)
    guest.call("rmdir", guest.text(b"empty"))
    assert guest.errno("getdents64", fd, marked(guest, 256), 256) == "ENOENT"


def test_listing_where_descriptors_cannot_be_duplicated(guest: Guest) -> None:
    """Then husk makes the guest itself seek: the same names, and the position is still kept."""
    fd = guest.open(b".", os.O_DIRECTORY)
    pieces: list[bytes] = []
    while True:
        area = marked(guest, 64)
        call = guest.make("getdents64", fd, area, 64)
        call.duplicates = False
        kind, size = guest.answer(call)
        assert kind == "value"
        if not size:
            break
        pieces.append(guest.memory.read(area, size))
    data, names = b"".join(pieces), []
    while data:
        length = struct.unpack_from("<QqH", data)[2]
        names.append(data[19:length].split(b"\0")[0])
        data = data[length:]
    assert sorted(names) == sorted(NAMES)


def test_listing_leaves_nothing_open(guest: Guest) -> None:
    fd, file = guest.open(b".", os.O_DIRECTORY), guest.open(b"file")
    before = open_descriptors()
    listing(guest, fd, 4096)
    guest.errno("getdents64", fd, 0x10, 4096)
    guest.errno("getdents64", file, 0x10, 4096)
    assert not new_descriptors(before)


# -- extended attributes -----------------------------------------------------------------------------------------------

@pytest.fixture
def attributes(guest: Guest) -> Guest:
    for name, value in ((b"user.a", b"first"), (b"user.bc", b"")):
        guest.call("setxattr", guest.text(b"file"), guest.text(name), guest.text(value), len(value), 0)
    return guest


def test_size_nought_asks_for_the_size(attributes: Guest) -> None:
    file, name = attributes.text(b"file"), attributes.text(b"user.a")
    assert attributes.call("getxattr", file, name, 0, 0) == 5
    assert attributes.call("listxattr", file, 0, 0) == len(b"user.a\0user.bc\0")
    assert attributes.call("getxattr", file, attributes.text(b"user.bc"), 0, 0) == 0


@pytest.mark.parametrize(("room", "result"), [(1, "ERANGE"), (4, "ERANGE"), (5, "ok"), (1 << 40, "ok")])
def test_value(attributes: Guest, room: int, result: str) -> None:
    area = marked(attributes, 8)
    assert attributes.errno("getxattr", attributes.text(b"file"), attributes.text(b"user.a"), area, room) == result
    assert attributes.memory.read(area, 8) == (b"first\xee\xee\xee" if result == "ok" else b"\xee" * 8)


@pytest.mark.parametrize(("room", "result"), [(1, "ERANGE"), (14, "ERANGE"), (15, "ok")])
def test_names(attributes: Guest, room: int, result: str) -> None:
    area = marked(attributes, 16)
    assert attributes.errno("listxattr", attributes.text(b"file"), area, room) == result
    expected = b"user.a\0user.bc\0\xee" if result == "ok" else b"\xee" * 16
    assert attributes.memory.read(area, 16) == expected


def test_longest_value(guest: Guest) -> None:
    """65,536 bytes pass the size check (the file system may still refuse them), one more never does."""
    file, name, value = guest.text(b"file"), guest.text(b"user.x"), guest.memory.put(bytes(65537))
    assert guest.errno("setxattr", file, name, value, 65537, 0) == "E2BIG"
    assert guest.errno("setxattr", file, name, value, 65536, 0) in ("ok", "ENOSPC")
    assert guest.errno("setxattr", file, guest.text(b"user." + b"n" * 251), value, 1, 0) == "ERANGE"
    assert guest.errno("setxattr", file, guest.text(b"user." + b"n" * 250), value, 1, 0) == "ok"


# -- what is written where ---------------------------------------------------------------------------------------------

def test_stat_writes_no_byte_too_many(guest: Guest) -> None:
    area = marked(guest, 144)
    guest.call("stat", guest.text(b"file"), area)
    size = struct.unpack_from("<Q", guest.memory.read(area, 144), 48)[0]
    assert size == len("twelve bytes")
    assert guest.errno("stat", guest.text(b"file"), marked(guest, 143)) == "EFAULT"
    assert guest.errno("statx", -100, guest.text(b"file"), 0, 0x7FF, marked(guest, 256)) == "ok"
    assert guest.errno("statx", -100, guest.text(b"file"), 0, 0x7FF, marked(guest, 255)) == "EFAULT"
    assert guest.errno("statfs", guest.text(b"file"), marked(guest, 120)) == "ok"
    assert guest.errno("statfs", guest.text(b"file"), marked(guest, 119)) == "EFAULT"


def test_a_name_that_ends_where_memory_ends(guest: Guest, lower: Path) -> None:
    """Nothing is read beyond the NUL."""
    assert guest.errno("access", guest.memory.put(b"file\0"), 4) == "ok"
    assert guest.errno("access", guest.memory.put(b"file"), 4) == "EFAULT"


def test_open_how_is_read_whole_before_anything_is_done(guest: Guest) -> None:
    """A struct that ends at an unmapped page: EFAULT, and nothing was created."""
    how = guest.memory.put(struct.pack("<QQ", os.O_CREAT | os.O_WRONLY, 0o600))
    assert guest.errno("openat2", -100, guest.text(b"new"), how, 24) == "EFAULT"
    assert guest.errno("access", guest.text(b"new"), 0) == "ENOENT"

"""The table of directories in which guests look names up themselves (native/direct/direct.c): what the C core writes
there when it is taught, and what it takes back."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from husk.native._core import Listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import Showing

RECORDS, RECORD, TEXT, COUNT, PROBES = 0x2000, 256, 216, 1024, 8
PROGRAMS, PROGRAM, PROGRAM_COUNT = RECORDS + COUNT * RECORD, 1024, 128
GIVEN, GIVEN_COUNT = 48, 1024
SIZE = PROGRAMS + PROGRAM_COUNT * PROGRAM + GIVEN_COUNT * GIVEN
MISSING_NAME = 2
SHOWN = b"/husk-host/usr/"
HOST_DEV, DEV = 77, 41
SHOWING: Showing = ("h", DEV, (0, 0, 65534), (0, 0, 65534))


class Record(NamedTuple):
    turn: int
    owned_before: int
    absent: int
    key: bytes
    path: bytes


class Header(NamedTuple):
    open: int
    links_changed: int
    changes: int
    host_dev: int
    dev: int
    unknown: tuple[int, int]
    root: tuple[int, int]
    site_count: int


def hashed(key: bytes) -> int:
    value = 14695981039346656037
    for byte in key:
        value = (value ^ byte) * 1099511628211 % 2**64
    return (value ^ value >> 32) % 2**32


class Table:
    """A cache that was told of a table."""

    def __init__(self) -> None:
        self.listener = Listener(os.open("/dev/null", os.O_RDONLY), 0, -1)
        self.listener.cache_identity(1000, 1000, 1000, [1000], b"/nowhere/", False)
        self.fd, self.usr = os.memfd_create("table"), os.open("/usr", os.O_PATH)
        os.ftruncate(self.fd, SIZE)

    def direct(self) -> None:
        self.listener.cache_direct(self.fd, self.usr, b"/usr")

    def learn(
        self, key: bytes, rel: bytes, *, start: int = 0, owner: int = 5, root_fd: int = -1, showing: Showing = SHOWING,
        missing: bool = False, absent: bool = False, host_dev: int = HOST_DEV,
    ) -> None:  # fmt: skip
        fd = self.usr if root_fd < 0 else root_fd
        self.listener.cache_learn(start, key, owner, fd, rel, host_dev, 9, showing, False, missing, absent, 0, None)

    def header(self) -> Header:
        is_open, links, changes, host_dev, dev, uid, gid, root_uid, root_gid, sites = struct.unpack(
            "=IIQQIIIIII", os.pread(self.fd, 48, 0)
        )
        return Header(is_open, links, changes, host_dev, dev, (uid, gid), (root_uid, root_gid), sites)

    def records(self) -> dict[bytes, Record]:
        found = {}
        data = os.pread(self.fd, SIZE, 0)
        for place in range(COUNT):
            one = data[RECORDS + place * RECORD :][:RECORD]
            turn, hash_, owned, key_size, path_size, absent = struct.unpack("=IIqHHI", one[:24])
            if not turn:
                continue
            key, path = one[40 : 40 + key_size], one[40 + key_size : 40 + key_size + path_size]
            assert hash_ == hashed(key) and key_size + path_size <= TEXT and key not in found
            assert (place - hash_) % COUNT < PROBES, "guests would not find it"
            found[key] = Record(turn, owned, absent, key, path)
        return found

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.usr)


@pytest.fixture
def table() -> Iterator[Table]:
    table = Table()
    table.direct()
    yield table
    table.close()


def test_what_is_the_same_for_all_directories(table: Table) -> None:
    def overflow(kind: str) -> int:
        with open(f"/proc/sys/kernel/overflow{kind}") as file:
            return int(file.read())

    assert table.header() == Header(1, 0, 0, 0, 0, (overflow("uid"), overflow("gid")), (0, 0), 0)
    table.learn(b"/usr/lib/", b"lib/", showing=("h", DEV, (0, 7, 65534), (0, 8, 65534)))
    assert table.header()[3:7] == (HOST_DEV, DEV, (overflow("uid"), overflow("gid")), (7, 8))


def test_a_taught_directory_is_there(table: Table) -> None:
    table.learn(b"/usr/lib/", b"lib/")
    table.learn(b"/lib/", b"lib/")  # through a link
    table.learn(b"/usr/", b"")
    table.learn(b"/usr/none/../lib/", b"none", absent=True)  # only the missing word is asked for
    found = table.records()
    assert {key: (one.path, one.absent, one.owned_before) for key, one in found.items()} == {
        b"/usr/lib/": (SHOWN + b"lib/", 0, 0), b"/lib/": (SHOWN + b"lib/", 0, 0), b"/usr/": (SHOWN, 0, 0),
        b"/usr/none/../lib/": (SHOWN + b"none", 1, 0),
    }  # fmt: skip
    assert len({one.turn for one in found.values()}) == 4


def test_what_guests_must_not_look_up_is_not_there(table: Table) -> None:
    other = os.open("/", os.O_PATH)
    table.learn(b"/usr/bin/env", b"bin/env")  # one name
    table.learn(b"lib/", b"lib/", start=3)  # from a directory
    table.learn(b"/opt/", b"opt/", root_fd=other)
    table.learn(b"/usr/gone/", b"", missing=True)
    table.learn(b"", b"lib/")
    table.learn(b"/usr/upper/", b"upper/", showing=("u", bytes(144), 0))
    table.learn(b"/usr/given/", b"given/", showing=("g", bytes(144)))
    os.close(other)
    assert table.records() == {}


def test_a_name_that_is_missing(table: Table) -> None:
    """Of any directory: guests need not ask the host."""
    table.learn(b"/etc/ld.so.preload", b"", missing=True, owner=7)
    assert table.records() == {b"/etc/ld.so.preload": Record(1, 0, MISSING_NAME, b"/etc/ld.so.preload", b"")}
    table.listener.cache_forget(7, True, False, False)
    assert table.records() == {}


def test_one_that_is_shown_otherwise_is_not_there(table: Table) -> None:
    table.learn(b"/usr/lib/", b"lib/")
    table.learn(b"/usr/a/", b"a/", host_dev=HOST_DEV + 1)
    table.learn(b"/usr/b/", b"b/", showing=("h", DEV + 1, (0, 0, 65534), (0, 0, 65534)))
    table.learn(b"/usr/c/", b"c/", showing=("h", DEV, (0, 5, 65534), (0, 0, 65534)))
    assert set(table.records()) == {b"/usr/lib/"}


def test_names_that_are_too_long(table: Table) -> None:
    room = TEXT - len(SHOWN) - len(b"/usr/")
    for size in range(room // 2 - 6, room // 2 + 6):
        folder = b"x" * size + b"/"
        table.learn(b"/usr/" + folder, folder)
    table.learn(b"/usr/" + b"y" * 300 + b"/", b"y" * 300 + b"/")
    table.learn(b"/" + b"y" * 400 + b"/", b"lib/")
    found = table.records()
    assert 0 < len(found) < 12 and not any(b"y" in key for key in found)
    for one in found.values():
        assert one.path == SHOWN + one.key.removeprefix(b"/usr/")


def test_turns(table: Table) -> None:
    table.learn(b"/usr/lib/", b"lib/")
    first = table.records()[b"/usr/lib/"]
    table.learn(b"/usr/lib/", b"share/")
    second = table.records()[b"/usr/lib/"]
    assert second.path == SHOWN + b"share/" and first.turn != second.turn
    table.listener.cache_forget(5, True, False, False)
    assert table.records() == {}
    table.learn(b"/usr/lib/", b"lib/")
    assert table.records()[b"/usr/lib/"].turn not in (first.turn, second.turn, 0)


def test_a_directory_is_forgotten(table: Table) -> None:
    table.learn(b"/usr/lib/", b"lib/", owner=5)
    table.learn(b"/lib/", b"lib/", owner=5)
    table.learn(b"/usr/share/", b"share/", owner=6)
    assert table.header().changes == 0
    table.listener.cache_forget(5, True, False, False)
    assert (set(table.records()), table.header().changes) == ({b"/usr/share/"}, 1)
    table.listener.cache_forget(6, False, True, False)
    header = table.header()
    assert (set(table.records()), header.changes, header.links_changed) == ({b"/usr/share/"}, 2, 1)
    table.learn(b"/usr/lib/", b"lib/")
    table.listener.cache_forget(0, True, False, True)  # the tree's structure
    header = table.header()
    assert (table.records(), header.changes, header.links_changed, header.open) == ({}, 3, 1, 1)


def test_one_that_becomes_another_kind_is_forgotten(table: Table) -> None:
    table.learn(b"/usr/lib/", b"lib/")
    table.learn(b"/usr/lib/", b"", missing=True)
    assert table.records() == {}


def test_full_buckets(table: Table) -> None:
    """The last one that was taught takes the place of another, which husk then answers for."""
    same = [key for key in (b"/usr/%d/" % n for n in range(60000)) if hashed(key) % COUNT == 3][: 2 * PROBES]
    assert len(same) == 2 * PROBES
    for count, key in enumerate(same, 1):
        table.learn(key, key[5:])
        found = table.records()
        assert key in found and found[key].path == SHOWN + key[5:] and len(found) == min(count, PROBES)
    for key in same:  # also those that have no record any more
        table.learn(key, b"", missing=True)
        assert key not in table.records()
    assert table.records() == {}


def test_many(table: Table) -> None:
    keys = [b"/usr/share/doc/package-%d/" % n for n in range(6000)]
    for key in keys:
        table.learn(key, key[5:])
    found = table.records()
    assert COUNT // 2 < len(found) <= COUNT and keys[-1] in found
    table.listener.cache_forget(0, True, False, True)
    assert table.records() == {}


def test_closed_for_good(table: Table) -> None:
    table.learn(b"/usr/lib/", b"lib/")
    table.listener.cache_off()
    assert table.header().open == 0


def test_only_a_table_of_the_right_size() -> None:
    table = Table()
    os.ftruncate(table.fd, SIZE - 1)
    table.direct()
    assert table.header().open == 0
    os.ftruncate(table.fd, SIZE)
    table.listener.cache_direct(table.fd, table.usr, b"/" + b"x" * 100)
    assert table.header().open == 0
    table.direct()
    assert table.header().open == 1
    other = os.memfd_create("other")
    os.ftruncate(other, SIZE)
    table.listener.cache_direct(other, table.usr, b"/usr")  # it has one
    assert os.pread(other, 4, 0) == bytes(4)
    os.close(other)
    with pytest.raises(OSError) as raised:
        sealed = os.open(f"/proc/self/fd/{table.fd}", os.O_RDONLY)
        second = Table()
        try:
            second.listener.cache_direct(sealed, second.usr, b"/usr")
        finally:
            os.close(sealed)
            second.close()
    assert raised.value.errno == errno.EACCES
    table.close()


def test_a_cache_without_a_table() -> None:
    table = Table()
    table.learn(b"/usr/lib/", b"lib/")
    table.listener.cache_forget(0, True, True, True)
    table.listener.cache_off()
    assert os.pread(table.fd, SIZE, 0) == bytes(SIZE)
    table.close()

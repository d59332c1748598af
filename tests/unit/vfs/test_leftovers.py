"""The copy of a host file outlives its last name for as long as a process may open it by the host file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.kernel.fd_tables import files_held
from tests.unit.vfs.virtual import Virtual

MANY = 20


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, lower: Path, request: pytest.FixtureRequest) -> Virtual:
    """A vfs that looks for holders when four copies have no name. The test process is both the guest and husk."""
    for number in range(MANY):
        (lower / str(number)).write_bytes(b"%d\n" % number)
    monkeypatch.setattr("husk.vfs.layer.leftovers.FEW", 4)
    world: Virtual = request.getfixturevalue("world")
    world.holders.files = lambda: files_held([])
    return world


def copies(world: Virtual) -> int:
    return len(os.listdir(world.vfs.state.path + b"/files"))


def replace(world: Virtual, name: bytes) -> None:
    """Copy a file up, and take its name."""
    world.do_truncate(name, 1)
    world.do_unlink(name)


def test_copies_that_nobody_can_open_go(few: Virtual) -> None:
    for number in range(MANY):
        replace(few, b"/%d" % number)
        assert copies(few) <= 4
    assert len(few.vfs.state.lingering) <= 4


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH])
def test_the_copy_of_a_held_file_stays(few: Virtual, flags: int) -> None:
    few.do_open(1, b"/0", flags)
    few.do_open(2, b"/1", os.O_RDWR)
    for number in range(MANY):
        replace(few, b"/%d" % number)
    assert copies(few) <= 5
    fd = few.vfs.open_node(few.ctx, few.held(1), os.O_RDWR).host_fd
    assert os.read(fd, 10) == b"0"
    os.close(fd)
    assert few.do_fstat(2) == few.do_fstat(1)
    few.do_close(1)
    for number in range(3 * MANY):
        few.do_rename(b"/link", b"/dir/link") if number % 2 == 0 else few.do_rename(b"/dir/link", b"/link")
    assert copies(few) <= 5


def test_a_large_copy_does_not_wait_for_others(few: Virtual) -> None:
    few.do_truncate(b"/0", 1)
    with open(os.path.join(few.vfs.state.path, b"files", b"%d" % few.node(b"/0").number), "wb") as file:
        file.write(bytes(17 << 20))
    few.do_unlink(b"/0")
    assert copies(few) == 0


def test_those_that_are_held_are_not_looked_for_each_time(few: Virtual) -> None:
    asked = 0

    def held() -> set[tuple[bytes, int, int]]:
        nonlocal asked
        asked += 1
        return files_held([])

    few.holders.files = held
    for number in range(MANY):
        few.do_open(number, b"/%d" % number, os.O_RDONLY)
        replace(few, b"/%d" % number)
    assert copies(few) == MANY and asked <= 4


def test_a_failing_host_fails_no_removal(few: Virtual) -> None:
    def held() -> set[tuple[bytes, int, int]]:
        raise OSError(24, "no descriptor is free")

    few.holders.files = held
    for number in range(MANY):
        replace(few, b"/%d" % number)
    assert copies(few) == MANY
    few.holders.files = lambda: files_held([])
    few.do_unlink(b"/link")
    assert copies(few) == 0


def test_one_that_a_host_file_leads_to_gets_no_name_again(few: Virtual) -> None:
    few.do_open(1, b"/0", os.O_RDONLY)
    replace(few, b"/0")
    with pytest.raises(FileNotFoundError):
        few.do_linkfd(1, b"/back")

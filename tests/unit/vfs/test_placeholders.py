"""Placeholders are collected once no process holds them, and not before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.kernel.fd_tables import links_held
from husk.vfs.host.host_tree import HostTree
from husk.vfs.host.host_tree_write import WritableHostTree
from tests.unit.vfs.conftest import GIDS, UIDS
from tests.unit.vfs.test_handles import shown
from tests.unit.vfs.virtual import Virtual

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Virtual:
    """A vfs that collects placeholders when there are four. The test process is both the guest and husk."""
    monkeypatch.setattr("husk.vfs.placeholders.KEPT", 4)
    world: Virtual = request.getfixturevalue("world")
    world.holders.held = lambda: links_held([])
    return world


def placeholders(world: Virtual) -> int:
    return len(os.listdir(world.vfs.state.path + b"/places"))


@pytest.mark.parametrize("flags", [DIRECTORY, os.O_PATH])
def test_directories_that_come_and_go(few: Virtual, flags: int) -> None:
    few.do_open(1, b"/dir", DIRECTORY)
    few.do_mkdir(b"/gone")
    few.do_open(2, b"/gone", flags)
    few.do_rmdir(b"/gone")
    for _ in range(50):
        few.do_mkdir(b"/new")
        few.do_open(3, b"/new", flags)
        few.do_close(3)
        few.do_rmdir(b"/new")
    assert placeholders(few) < 10 and len(few.vfs.state.dirs) < 10
    assert shown(few, 1) == b"/dir" and shown(few, 2) == b"/gone (deleted)"
    few.do_open(4, b"/dir/sub", DIRECTORY)
    assert shown(few, 4) == b"/dir/sub"


def test_one_that_was_forgotten_gets_another(few: Virtual) -> None:
    few.do_open(1, b"/dir/sub", DIRECTORY)
    first = os.readlink(f"/proc/self/fd/{few.slots[1].host_fd}")
    few.do_close(1)
    for number in range(5):
        few.do_mkdir(b"/%d" % number)
        few.do_open(2, b"/%d" % number, DIRECTORY)
        few.do_close(2)
    few.do_open(1, b"/dir/sub", DIRECTORY)
    assert os.readlink(f"/proc/self/fd/{few.slots[1].host_fd}") != first
    assert shown(few, 1) == b"/dir/sub"


def mount_directories(few: Virtual, host: Path, count: int) -> WritableHostTree:
    """At /host: `count` directories, each with one named `inner`. The first `inner` is open as 1."""
    for number in range(count):
        (host / str(number) / "inner").mkdir(parents=True)
    tree = WritableHostTree(99, os.fsencode(host), uids=UIDS, gids=GIDS)
    few.vfs.mount(tree, b"/host")
    few.do_open(1, b"/host/0/inner", DIRECTORY)
    return tree


def assert_first_follows_a_rename(few: Virtual) -> None:
    few.do_rename(b"/host/0", b"/host/renamed")
    assert shown(few, 1) == b"/host/renamed/inner"


def test_what_is_known_of_host_directories_goes_too(few: Virtual, tmp_path: Path) -> None:
    tree = mount_directories(few, tmp_path / "host", 9)
    for number in range(1, 9):
        few.do_open(2, b"/host/%d/inner" % number, DIRECTORY)
        few.do_close(2)
    assert 1 <= len(tree.root.children) < 9 and b"0" in tree.root.children
    assert shown(few, 1) == b"/host/0/inner"
    assert_first_follows_a_rename(few)


def test_without_an_answer_nothing_is_forgotten(few: Virtual) -> None:
    def fails() -> list[bytes]:
        raise OSError(24, "Too many open files")

    few.holders.held = fails
    for number in range(4):
        few.do_mkdir(b"/%d" % number)
        few.do_open(number, b"/%d" % number, DIRECTORY)
    with pytest.raises(OSError, match="Too many"):
        few.do_open(9, b"/dir", DIRECTORY)
    assert [shown(few, number) for number in range(4)] == [b"/%d" % n for n in range(4)]


def test_programs_that_were_run_are_not_remembered_for_ever(world: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("husk.vfs.running_programs.PROGRAMS_KEPT", 2)
    found = []
    for name in (b"/a", b"/b", b"/a", b"/c"):
        world.do_open(1, name, os.O_CREAT | os.O_RDWR)
        node = world.node(name)
        world.vfs.executed(world.ctx, node)
        found.append(world.vfs.identity(world.ctx, node))
    assert [world.vfs.running(identity) is not None for identity in found] == [True, False, True, True]


def test_host_directories_that_were_looked_at(few: Virtual, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("husk.vfs.host.host_tree.DIRECTORIES_KEPT", 4)
    tree = mount_directories(few, tmp_path / "host", 20)
    for number in range(1, 20):
        few.vfs.stat(few.ctx, few.vfs.root, b"/host/%d/inner/." % number)
    assert tree.known < 12 and b"0" in tree.root.children
    assert_first_follows_a_rename(few)


def nine_files(host: Path, *, read_only: bool) -> HostTree:
    host.mkdir()
    for number in range(9):
        (host / str(number)).touch()
    kind = HostTree if read_only else WritableHostTree
    return kind(99, os.fsencode(host), uids=UIDS, gids=GIDS)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_listing_that_was_read_is_let_go(few: Virtual, tmp_path: Path, read_only: bool) -> None:
    tree = nine_files(tmp_path / "host", read_only=read_only)
    whole = [(entry.name, entry.cookie) for entry in tree.entries(few.ctx, tree.root, 0)]
    assert len(whole) == 9 and tree.root.listing
    assert list(tree.entries(few.ctx, tree.root, whole[-1][1])) == []
    assert tree.root.listing == [] and bool(tree.root.cookies) is not read_only
    assert [(entry.name, entry.cookie) for entry in tree.entries(few.ctx, tree.root, whole[3][1])] == whole[4:]


@pytest.mark.parametrize("read_only", [True, False])
def test_positions_stay_when_a_listing_that_has_lost_a_name_is_let_go(
    few: Virtual, tmp_path: Path, read_only: bool
) -> None:
    tree = nine_files(tmp_path / "host", read_only=read_only)
    first = [entry.name for entry in tree.entries(few.ctx, tree.root, 0)]  # not to its end
    (tmp_path / "host" / os.fsdecode(first[2])).unlink()
    whole = [(entry.name, entry.cookie) for entry in tree.entries(few.ctx, tree.root, 0)]
    assert [name for name, _ in whole] == [name for name in first if name != first[2]]
    assert list(tree.entries(few.ctx, tree.root, whole[-1][1])) == []
    assert [(entry.name, entry.cookie) for entry in tree.entries(few.ctx, tree.root, whole[3][1])] == whole[4:]

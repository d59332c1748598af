"""The layered tree over a host directory: what is copied when, what counts as a change, and what is announced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.vfs.layer.changes import changes
from husk.vfs.layer.delta import ANYONE
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import Dir
from tests.unit.vfs.virtual import Virtual

CREATE = os.O_CREAT | os.O_RDWR


def contents(root: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def layer(world: Virtual) -> LayeredTree:
    tree = world.vfs.root.tree
    assert isinstance(tree, LayeredTree)
    return tree


def real_files(world: Virtual) -> int:
    return len(os.listdir(world.vfs.state.files_fd))


def test_the_host_directory_never_changes(world: Virtual, lower: Path) -> None:
    before, directory = contents(lower), os.stat(lower / "dir")
    world.do_open(1, b"/file", os.O_RDWR)
    world.do_write(1, b"changed")
    world.do_chmod(b"/dir", 0o700)
    world.do_utime(b"/dir/inner", 1, 2)
    world.do_truncate(b"/dir/inner", 0)
    world.do_rename(b"/dir/sub", b"/sub")
    world.do_unlink(b"/twin")
    world.do_link(b"/file", b"/dir/again")
    world.do_symlink(b"x", b"/dir/y")
    world.do_setxattr(b"/dir", b"user.x", b"y")
    world.do_open(2, b"/sub/leaf", os.O_RDONLY)
    world.do_unlink(b"/sub/leaf")
    world.do_fchmod(2, 0o600)
    world.do_futime(2, 3, 4)
    opened = world.vfs.open_node(world.ctx, world.held(2), os.O_RDWR)
    os.write(opened.host_fd, b"changed")
    os.close(opened.host_fd)
    assert contents(lower) == before
    after = os.stat(lower / "dir")
    assert (after.st_mode, after.st_mtime_ns) == (directory.st_mode, directory.st_mtime_ns)
    assert os.stat(lower / "dir/sub/leaf").st_mtime_ns > 10**9


@pytest.mark.parametrize("step", [
    ("chmod", b"/file", 0o600), ("utime", b"/file", 1, 2), ("rename", b"/file", b"/f"), ("link", b"/file", b"/f"),
    ("setxattr", b"/file", b"user.a", b"b"), ("unlink", b"/file"), ("rename", b"/dir", b"/d"),
    ("open", 1, b"/file", os.O_RDONLY),
])
def test_content_is_not_copied_for_metadata(world: Virtual, step: tuple[object, ...]) -> None:
    assert world.answer(step).endswith("ok")
    assert real_files(world) == 0


def test_content_is_copied_on_the_first_writing_open(world: Virtual) -> None:
    world.do_chmod(b"/file", 0o600)
    world.do_open(1, b"/file", os.O_RDWR)
    assert real_files(world) == 1
    assert world.do_read(1) == repr(b"lower\n")
    world.do_open(2, b"/file", os.O_RDWR)
    assert real_files(world) == 1


def test_real_files_go_with_the_last_name(world: Virtual) -> None:
    world.do_open(1, b"/new", CREATE)
    world.do_link(b"/new", b"/newer")
    world.do_unlink(b"/new")
    assert real_files(world) == 1
    world.do_unlink(b"/newer")
    assert real_files(world) == 0
    world.do_open(2, b"/dir", os.O_TMPFILE | os.O_RDWR)
    assert real_files(world) == 0


def test_inode_numbers_survive_copying(world: Virtual) -> None:
    def number(path: bytes) -> int:
        return world.vfs.stat(world.ctx, world.vfs.root, path, False).ino

    before = {name: number(name) for name in (b"/file", b"/dir", b"/dir/inner", b"/link", b"/twin")}
    world.do_open(1, b"/file", os.O_RDWR)
    world.do_chmod(b"/dir", 0o700)
    world.do_rename(b"/dir/inner", b"/inner")
    world.do_rename(b"/link", b"/dir/link")
    world.do_open(2, b"/dir/twin", os.O_RDWR)
    after = {name: number(name) for name in (b"/file", b"/dir", b"/inner", b"/dir/link", b"/twin")}
    assert list(before.values()) == list(after.values())
    listed = {entry.name: entry.ino for entry in world.vfs.entries(world.ctx, world.vfs.root, 0)}
    assert listed[b"file"] == after[b"/file"]
    assert listed[b"inner"] == after[b"/inner"]


def test_identity_survives_copying(world: Virtual) -> None:
    before = world.vfs.identity(world.ctx, world.node(b"/file"))
    world.do_open(1, b"/file", os.O_RDWR)
    assert world.vfs.identity(world.ctx, world.node(b"/file")) == before


def test_changes(world: Virtual) -> None:
    tree = layer(world)
    assert tree.changes() == []
    world.do_list(b"/dir/sub")
    world.do_open(1, b"/file", os.O_RDONLY)
    assert tree.changes() == []
    world.do_open(1, b"/dir/inner", os.O_RDWR)
    world.do_open(2, b"/dir/new", CREATE)
    world.do_unlink(b"/file")
    world.do_rename(b"/dir/sub", b"/moved")
    world.do_mkdir(b"/made")
    world.do_chmod(b"/dir", 0o700)
    assert tree.changes() == [
        ("changed", b"/dir"), ("changed", b"/dir/inner"), ("added", b"/dir/new"), ("deleted", b"/dir/sub"),
        ("deleted", b"/file"), ("added", b"/made"), ("added", b"/moved"), ("added", b"/moved/leaf"),
    ]


def test_a_name_that_came_and_went_is_no_change(world: Virtual) -> None:
    world.do_open(1, b"/new", CREATE)
    world.do_rename(b"/new", b"/dir/other")
    world.do_unlink(b"/dir/other")
    world.do_rename(b"/dir/sub", b"/x")
    world.do_rename(b"/x", b"/dir/sub")
    assert layer(world).changes() == []


def test_replaced_by_another_kind(world: Virtual) -> None:
    world.do_unlink(b"/file")
    world.do_mkdir(b"/file")
    world.do_open(1, b"/file/in", CREATE)
    assert layer(world).changes() == [("changed", b"/file"), ("added", b"/file/in")]


class Told:
    """Collects the announced changes, and checks that each is not visible yet."""

    def __init__(self, world: Virtual, path: bytes) -> None:
        self.calls: list[tuple[bytes, bool | str]] = []
        self.world, self.path = world, path
        self.early = self._look()
        self.seen_early = True
        world.vfs.subscribe(self.note)

    def _look(self) -> str:
        return self.world.answer(("stat", self.path, False))

    def note(self, directory: Dir, structural: bool, removed: bool) -> None:
        self.calls.append((self.world.vfs.path_of(directory), "removed" if removed and not structural else structural))
        self.seen_early &= self._look() == self.early


@pytest.mark.parametrize(("step", "watched", "expected"), [
    (("open", 1, b"/dir/new", CREATE), b"/dir/new", {(b"/dir", False)}),
    (("open", 1, b"/dir/inner", os.O_RDWR), b"/dir/inner", {(b"/dir", False)}),
    (("mkdir", b"/dir/new"), b"/dir/new", {(b"/dir", False)}),
    (("unlink", b"/dir/inner"), b"/dir/inner", {(b"/dir", False)}),
    (("unlink", b"/link"), b"/link", {(b"/", True)}),
    (("unlink", b"/twin"), b"/dir/twin", {(b"/", False), (b"/", True)}),
    (("chmod", b"/twin", 0o600), b"/dir/twin", {(b"/", True), (b"/", False)}),
    (("chmod", b"/dir/inner", 0o600), b"/dir/inner", {(b"/dir", False)}),
    (("chmod", b"/dir", 0o700), b"/dir", {(b"/dir", True), (b"/dir", False)}),
    (("rename", b"/dir/inner", b"/i"), b"/dir/inner", {(b"/dir", False), (b"/", False)}),
    (("rename", b"/dir", b"/d"), b"/dir", {(b"/", True)}),
    (("truncate", b"/file", 0), b"/file", {(b"/", False)}),
    (("utime", b"/file", 1, 2), b"/file", {(b"/", False)}),
    (("symlink", b"x", b"/dir/y"), b"/dir/y", {(b"/dir", False)}),
])
def test_changes_are_told_before_they_show(
    world: Virtual, step: tuple[object, ...], watched: bytes, expected: set[tuple[bytes, bool]]
) -> None:
    told = Told(world, watched)
    assert world.answer(step).endswith("ok")
    assert set(told.calls) == expected
    assert told.seen_early, "the change showed before it was told"


def test_the_removal_of_a_directory_is_told_of_it_alone(world: Virtual) -> None:
    world.do_mkdir(b"/dir/new")
    world.do_unlink(b"/dir/sub/leaf")
    for name in (b"/dir/new", b"/dir/sub"):
        told = Told(world, name)
        world.do_rmdir(name)
        assert (told.calls[:2], told.seen_early) == ([(b"/dir", False), (name, "removed")], True)
        assert True not in [structural for _, structural in told.calls]
        world.vfs.unsubscribe(told.note)


def test_nothing_is_told_for_what_fails_or_only_reads(world: Virtual) -> None:
    told = Told(world, b"/file")
    for step in (("stat", b"/file"), ("list", b"/dir"), ("open", 1, b"/file", os.O_RDONLY), ("rmdir", b"/dir/inner"),
                 ("mkdir", b"/dir"), ("unlink", b"/nothing")):
        world.answer(step)
    assert told.calls == []


def test_listing_positions_are_stable(world: Virtual) -> None:
    for number in range(50):
        world.do_mkdir(b"/dir/d%d" % number)
    directory = world.node(b"/dir")
    first = list(world.vfs.entries(world.ctx, directory, 0))
    assert [entry.cookie for entry in first] == sorted({entry.cookie for entry in first})
    middle = first[20].cookie
    gone = {first[22].name, first[30].name}
    for name in gone:
        world.do_rmdir(b"/dir/" + name)
    world.do_mkdir(b"/dir/late")
    rest = list(world.vfs.entries(world.ctx, directory, middle))
    kept = [entry.name for entry in first[21:]]
    assert [entry.name for entry in rest if entry.name in kept] == [
        name for name in kept if name in {entry.name for entry in rest}
    ]
    assert {name for name in kept if name not in gone} <= {entry.name for entry in rest}
    again = {entry.name: entry.cookie for entry in world.vfs.entries(world.ctx, directory, 0)}
    assert all(again[entry.name] == entry.cookie for entry in first if entry.name not in gone)
    assert again[b"late"] > max(entry.cookie for entry in first)


def test_running_programs_are_not_written_to(world: Virtual) -> None:
    world.holders.busy = True
    world.vfs.executed(world.ctx, world.node(b"/file"))
    assert world.answer(("open", 1, b"/file", os.O_RDWR)).endswith("ETXTBSY")
    assert world.answer(("truncate", b"/file", 0)).endswith("ETXTBSY")
    assert world.answer(("open", 1, b"/file", os.O_RDONLY)).endswith("ok")
    world.holders.busy = False
    assert world.answer(("open", 1, b"/file", os.O_RDWR)).endswith("ok")
    world.holders.busy = True
    assert world.answer(("open", 1, b"/file", os.O_RDWR)).endswith("ok"), "the mark was not cleared"


def test_a_failed_copy_leaves_nothing_behind(world: Virtual, lower: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr("husk.vfs.layer.copy_up.copy_content", fail)
    assert world.answer(("open", 1, b"/file", os.O_RDWR)).endswith("ENOSPC")
    assert real_files(world) == 0
    monkeypatch.undo()
    assert world.answer(("open", 1, b"/file", os.O_RDWR)).endswith("ok")
    assert world.do_read(1) == repr(b"lower\n")


def test_deep_trees(world: Virtual) -> None:
    world.do_mkdir(b"/deep")
    world.do_chdir(b"/deep")
    for _ in range(3000):
        world.do_mkdir(b"d")
        world.do_chdir(b"d")
    assert len(world.do_getcwd()) > 6000
    # No call takes a path of more than 4096 bytes, and together they would grow with the square of the depth.
    told = layer(world).changes()
    assert len(told) == 2046 and len(told[-1][1]) == 4095 and layer(world).changes_left_out == 3001 - 2046
    few, left_out = changes(layer(world), 100)
    assert sum(len(path) for _, path in few) <= 100 and len(few) + left_out == 3001
    assert world.answer(("rename", b"/deep", b"d")).endswith("EINVAL")


def test_unlisted_positions_hold_when_names_in_front_are_deleted(world: Virtual, lower: Path) -> None:
    for number in range(30):
        (lower / "dir" / f"n{number}").touch()
    directory = world.node(b"/dir")
    first = list(world.vfs.entries(world.ctx, directory, 0))
    assert list(world.vfs.entries(world.ctx, directory, first[-1].cookie)) == []
    world.do_unlink(b"/dir/" + next(e.name for e in first if e.name.startswith(b"n")))
    again = {entry.name: entry.cookie for entry in world.vfs.entries(world.ctx, directory, 0)}
    assert all(again[entry.name] == entry.cookie for entry in first if entry.name in again)
    assert len(again) == len(first) - 1


def test_a_file_exchanged_after_it_was_judged_does_not_become_the_guests(world: Virtual, lower: Path) -> None:
    """The permission check was for the file at the look-up; only that file's mode may change."""
    tree = layer(world)
    node = tree.lookup(None, tree.root, b"file")
    assert tree.stat(ANYONE, node).mode & 0o777 == 0o644
    (lower / "other").write_bytes(b"another's\n")
    (lower / "other").rename(lower / "file")
    with pytest.raises(OSError, match="Stale"):
        tree.copy_up.inode(node)
    tree.copy_up.inode(tree.lookup(None, tree.root, b"file"))


def test_a_file_of_husk_s_own_is_made_when_it_is_opened(world: Virtual) -> None:
    tree = layer(world)
    tree.generate(tree.root, b"made", 0o666, b"text")
    tree.seal()
    count, before = real_files(world), tree.stat(ANYONE, tree.lookup(None, tree.root, b"made"))
    world.do_open(1, b"/made", os.O_RDONLY)
    assert world.do_read(1) == repr(b"text") and real_files(world) == count + 1
    after = tree.stat(ANYONE, tree.lookup(None, tree.root, b"made"))
    assert (after.ino, after.mode, after.size, after.mtime) == (before.ino, before.mode, before.size, before.mtime)
    assert changes(tree)[0] == []
    world.do_open(2, b"/made", os.O_WRONLY)
    world.do_write(2, b"more")
    assert world.do_read(1) == repr(b"more") and changes(tree)[0] == [("changed", b"/made")]


def test_a_file_of_husk_s_own_that_is_changed_before_it_is_read(world: Virtual) -> None:
    tree = layer(world)
    for name in (b"cut", b"kept"):
        tree.generate(tree.root, name, 0o666, b"text")
    world.do_open(1, b"/cut", os.O_RDWR | os.O_TRUNC)
    world.do_rename(b"/kept", b"/moved")
    world.do_link(b"/moved", b"/again")
    world.do_truncate(b"/moved", 2)
    world.do_open(2, b"/again", os.O_RDONLY)
    assert (world.do_read(1), world.do_read(2)) == (repr(b""), repr(b"te"))
    world.do_unlink(b"/again")
    world.do_unlink(b"/moved")
    assert world.do_read(2) == repr(b"te")

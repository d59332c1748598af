"""From a descriptor back to a node and its virtual path, whatever happened to names meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.vfs.host.host_tree_write import WritableHostTree
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import Dir
from husk.vfs.synth.synth_tree import SynthTree, snapshot
from tests.unit.vfs.conftest import GIDS, UIDS
from tests.unit.vfs.virtual import Virtual

CREATE = os.O_CREAT | os.O_RDWR


def shown(world: Virtual, slot: int) -> bytes | None:
    """What readlink of /proc/self/fd/N would show the guest."""
    fd = world.slots[slot].host_fd
    found = os.fstat(fd)
    return world.vfs.path_of_link(os.readlink(b"/proc/self/fd/%d" % fd), found.st_dev, found.st_ino)


@pytest.mark.parametrize("name", [b"/file", b"/dir/inner", b"/dir/sub/leaf", b"/dir", b"/dir/sub", b"/"])
def test_path_of_what_was_there(world: Virtual, name: bytes) -> None:
    world.do_open(1, name, os.O_RDONLY)
    assert shown(world, 1) == name


def test_path_follows_renames_of_lower_directories(world: Virtual) -> None:
    world.do_open(1, b"/dir/sub/leaf", os.O_RDONLY)
    world.do_open(2, b"/dir/sub", os.O_RDONLY)
    world.do_rename(b"/dir/sub", b"/moved")
    assert shown(world, 1) == b"/moved/leaf"
    world.do_mkdir(b"/dir/sub")
    assert shown(world, 1) == b"/moved/leaf"
    world.do_rename(b"/moved", b"/dir/sub/again")
    assert shown(world, 1) == b"/dir/sub/again/leaf"
    assert shown(world, 2) == b"/dir/sub/again"
    world.do_rename(b"/dir", b"/elsewhere")
    assert shown(world, 1) == b"/elsewhere/sub/again/leaf"
    world.do_open(3, b"/elsewhere/inner", os.O_RDONLY)
    assert shown(world, 3) == b"/elsewhere/inner"


def test_path_follows_renames_of_files(world: Virtual) -> None:
    world.do_open(1, b"/file", os.O_RDONLY)
    world.do_rename(b"/file", b"/dir/renamed")
    assert shown(world, 1) == b"/dir/renamed"
    world.do_open(2, b"/new", CREATE)
    world.do_rename(b"/new", b"/newer")
    assert shown(world, 2) == b"/newer"


def test_deleted_is_told(world: Virtual) -> None:
    world.do_open(1, b"/new", CREATE)
    world.do_open(2, b"/file", os.O_RDONLY)
    world.do_mkdir(b"/empty")
    world.do_open(3, b"/empty", os.O_RDONLY)
    for name in (b"/new", b"/file"):
        world.do_unlink(name)
    world.do_rmdir(b"/empty")
    assert shown(world, 1) == b"/new (deleted)"
    assert shown(world, 2) == b"/file (deleted)"
    assert shown(world, 3) == b"/empty (deleted)"
    world.do_open(4, b"/file", CREATE)
    assert shown(world, 4) == b"/file"
    assert shown(world, 2) == b"/file (deleted)"


def test_replaced_is_deleted(world: Virtual) -> None:
    world.do_open(1, b"/file", os.O_RDONLY)
    world.do_rename(b"/dir/inner", b"/file")
    world.do_open(2, b"/file", os.O_RDONLY)
    assert shown(world, 1) == b"/file (deleted)"
    assert shown(world, 2) == b"/file"
    assert world.do_read(2) == repr(b"inner\n")


def test_a_name_that_ends_like_a_deleted_one(world: Virtual) -> None:
    world.do_open(1, b"/trick (deleted)", CREATE)
    assert shown(world, 1) == b"/trick (deleted)"
    assert world.held(1) is world.node(b"/trick (deleted)")


def test_hard_links_keep_a_name(world: Virtual) -> None:
    world.do_open(1, b"/one", CREATE)
    world.do_link(b"/one", b"/two")
    world.do_unlink(b"/one")
    assert shown(world, 1) == b"/two"
    world.do_unlink(b"/two")
    assert shown(world, 1) == b"/two (deleted)"


def test_unnamed_file(world: Virtual) -> None:
    world.do_open(1, b"/dir", os.O_TMPFILE | os.O_RDWR)
    node = world.held(1)
    assert node is world.slots[1].node
    assert shown(world, 1) == b"/dir/#%d (deleted)" % node.ino
    world.do_linkfd(1, b"/named")
    assert world.held(1) is node
    assert shown(world, 1) == b"/named"


def test_copied_up_file_is_one_node(world: Virtual) -> None:
    world.do_open(1, b"/file", os.O_RDONLY)
    world.do_open(2, b"/file", os.O_RDWR)
    world.do_fchmod(1, 0o600)
    assert "-rw-------" in world.do_fstat(2)
    assert shown(world, 1) == shown(world, 2) == b"/file"


def test_what_is_not_ours(world: Virtual) -> None:
    read_end, write_end = os.pipe()
    try:
        assert world.vfs.node_of_link(os.readlink(b"/proc/self/fd/%d" % read_end), 0, 0) is None
        assert world.vfs.node_of_link(b"/somewhere/else", 1, 1) is None
        assert world.vfs.path_of_link(b"anon_inode:[eventfd]", 0, 0) is None
    finally:
        os.close(read_end)
        os.close(write_end)


def test_host_tree(world: Virtual, tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "d").mkdir(parents=True)
    (host / "d" / "f").write_bytes(b"f")
    (host / "gone").write_bytes(b"gone")
    tree = WritableHostTree(99, os.fsencode(host), uids=UIDS, gids=GIDS)
    world.vfs.mount(tree, b"/mnt/point")
    world.do_open(1, b"/mnt/point/d/f", os.O_RDONLY)
    world.do_open(2, b"/mnt/point/gone", os.O_RDONLY)
    world.do_open(3, b"/mnt/point/d", os.O_RDONLY)
    assert shown(world, 1) == b"/mnt/point/d/f"
    (host / "gone").unlink()
    assert shown(world, 2) == b"/mnt/point/gone (deleted)"
    (host / "gone").write_bytes(b"another")
    assert shown(world, 2) == b"/mnt/point/gone (deleted)"
    assert "size=4" in world.do_fstat(2)
    os.rename(host / "d", host / "renamed by the host")
    assert "links=0" in world.do_fstat(3)
    assert shown(world, 3) == b"/mnt/point/d (deleted)"
    tree.close()


def test_a_single_file(world: Virtual, tmp_path: Path) -> None:
    (tmp_path / "alone").write_bytes(b"alone")
    tree = world.vfs.root.tree
    assert isinstance(tree, LayeredTree)
    tree.show_file(tree.root, b"shown", os.fsencode(tmp_path / "alone"), writable=True, uids=UIDS, gids=GIDS)
    world.do_open(1, b"/shown", os.O_RDONLY)
    assert shown(world, 1) == b"/shown"
    world.do_rename(b"/shown", b"/dir/other")
    assert shown(world, 1) == b"/dir/other"
    world.do_open(2, b"/dir/other", os.O_RDWR)
    world.do_write(2, b"A")
    assert (tmp_path / "alone").read_bytes() == b"alone"


def test_placeholders_mirror_the_right_to_search(world: Virtual) -> None:
    world.do_mkdir(b"/box", 0o755)
    world.do_open(1, b"/box", os.O_RDONLY)
    place = world.slots[1].host_fd
    assert os.fstat(place).st_mode & 0o777 == 0o555
    world.do_chmod(b"/box", 0o600)
    assert os.fstat(place).st_mode & 0o777 == 0o444
    world.do_chmod(b"/box", 0o700)
    assert os.fstat(place).st_mode & 0o777 == 0o555


def test_one_placeholder_per_directory(world: Virtual) -> None:
    world.do_open(1, b"/dir", os.O_RDONLY)
    world.do_open(2, b"/dir/sub/..", os.O_RDONLY)
    assert os.fstat(world.slots[1].host_fd).st_ino == os.fstat(world.slots[2].host_fd).st_ino
    directory = world.held(2)
    assert isinstance(directory, Dir)
    assert world.vfs.path_of(directory) == b"/dir"


def test_files_for_maps_follow_every_change(world: Virtual) -> None:
    """`file_of_link` remembers its answers."""

    def mapped(slot: int) -> bytes | None:
        found = os.fstat(fd := world.slots[slot].host_fd)
        link = os.readlink(b"/proc/self/fd/%d" % fd)
        answers = {world.vfs.file_of_link(link, found.st_dev, found.st_ino) for _ in range(3)}
        assert len(answers) == 1
        answer = answers.pop()
        return None if answer is None else answer[0]

    for slot, name in enumerate((b"/file", b"/dir/inner", b"/dir/sub/leaf"), 1):
        world.do_open(slot, name, os.O_RDONLY)
        assert mapped(slot) == name
    world.do_rename(b"/dir/sub", b"/moved")
    assert mapped(3) == b"/moved/leaf"
    world.do_rename(b"/dir/inner", b"/inner")
    assert mapped(2) == b"/inner"
    world.do_unlink(b"/file")
    assert mapped(1) == b"/file (deleted)"
    world.do_open(4, b"/file", CREATE)
    assert mapped(4) == b"/file"
    assert mapped(1) == b"/file (deleted)"


def test_a_mapped_file_that_is_changed_through_another_name(world: Virtual) -> None:
    world.do_open(1, b"/twin", os.O_RDONLY)
    found = os.fstat(fd := world.slots[1].host_fd)
    asked = os.readlink(b"/proc/self/fd/%d" % fd), found.st_dev, found.st_ino
    before = world.vfs.file_of_link(*asked)
    assert before is not None and before[0] == b"/twin" and world.vfs.file_of_link(*asked) == before
    world.do_open(2, b"/dir/twin", os.O_RDWR)
    node = world.held(1)
    assert node is not None and node.is_upper
    after = world.vfs.file_of_link(*asked)
    assert after is not None and after[0] == world.vfs.path_of_node(node)


def test_snapshots_are_no_files_of_a_mount(world: Virtual) -> None:
    """Not even of one that shows the host's whole tree."""
    tree = WritableHostTree(99, b"/", uids=UIDS, gids=GIDS)
    world.vfs.mount(tree, b"/mnt/point")
    synth = SynthTree(100)
    synth.add_file(synth._top, b"file", lambda: b"text")
    world.vfs.mount(synth, b"/mnt/synth")
    made = snapshot(b"/mnt/synth/file", b"text")
    other = os.memfd_create("other")
    try:
        found = os.fstat(made)
        node = world.vfs.node_of_link(os.readlink(b"/proc/self/fd/%d" % made), found.st_dev, found.st_ino)
        assert node is not None and node.tree is synth
        found = os.fstat(other)
        node = world.vfs.node_of_link(os.readlink(b"/proc/self/fd/%d" % other), found.st_dev, found.st_ino)
        assert node is None or node.tree is not synth
    finally:
        os.close(made)
        os.close(other)
        tree.close()

"""A host directory given to a box: nothing outside it can be reached, whatever lies in it."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.native._core import ClosedFileSystem
from husk.vfs.host.host_tree import HostTree
from husk.vfs.host.host_tree_write import WritableHostTree
from husk.vfs.layer.layered_tree import LayeredTree
from tests.unit.vfs.conftest import GIDS, UIDS
from tests.unit.vfs.trees import new_state
from tests.unit.vfs.virtual import Virtual

SECRET = b"secret of the host"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(SECRET)
    root = tmp_path / "host"
    (root / "dir").mkdir(parents=True)
    (root / "file").write_bytes(b"file\n")
    os.symlink(tmp_path / "secret", root / "absolute")
    os.symlink("../secret", root / "relative")
    os.symlink("..", root / "up")
    os.symlink("/proc/self/root", root / "magic")
    os.mkfifo(root / "fifo")
    return root


@pytest.fixture
def box(tmp_path: Path, host: Path) -> Iterator[Virtual]:
    state = new_state(tmp_path)
    root = LayeredTree(state, mode=0o777)
    world = Virtual(state, root)
    tree = WritableHostTree(state.new_device(), os.fsencode(host), uids=UIDS, gids=GIDS)
    world.vfs.mount(tree, b"/mnt")
    world.tree = tree  # type: ignore[attr-defined]
    yield world
    world.close()
    tree.close()
    state.close()


def test_what_the_removal_of_a_directory_concerns(box: Virtual, host: Path) -> None:
    """Only itself, unless the host took away directories that were known: their names may be taught, and nobody knows
    of which object."""
    told: list[tuple[bytes, bool, bool]] = []
    box.vfs.subscribe(lambda directory, structural, removed: told.append((directory.name, structural, removed)))

    def removal(name: bytes) -> bool:
        told.clear()
        assert box.answer(("mkdir", b"/mnt/" + name)).endswith("ok")
        assert box.answer(("rmdir", b"/mnt/" + name)).endswith("ok")
        assert told[:-1] == [(b"", False, False), (b"", False, False)]
        last, structural, removed = told[-1]
        assert (last, removed) == (name, True)
        return structural

    assert not removal(b"one")
    box.node(b"/mnt/dir")
    (host / "dir").rmdir()
    assert not removal(b"one")  # husk does not know yet
    assert box.answer(("stat", b"/mnt/dir", False)).endswith("ENOENT")
    assert removal(b"one")
    assert not removal(b"one")  # all that was taught has been forgotten
    (host / "outer/inner").mkdir(parents=True)
    box.node(b"/mnt/outer/inner")
    (host / "outer/inner").rmdir()
    told.clear()
    assert box.answer(("rmdir", b"/mnt/outer")).endswith("ok")
    assert told[-1] == (b"outer", True, True)


def test_the_removal_of_a_link_concerns_no_name_behind_it(box: Virtual) -> None:
    told: list[tuple[bytes, bool, bool]] = []
    box.vfs.subscribe(lambda directory, structural, removed: told.append((directory.name, structural, removed)))
    assert box.answer(("unlink", b"/mnt/up")).endswith("ok")
    assert told == [(b"", False, False)]


@pytest.mark.parametrize("name", b"absolute relative up/secret magic/etc/passwd ../secret up/../secret".split())
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_PATH, os.O_RDONLY | os.O_TRUNC])
def test_links_are_walked_inside_the_box(box: Virtual, tmp_path: Path, name: bytes, flags: int) -> None:
    assert box.answer(("open", 1, b"/mnt/" + name, flags)).endswith("ENOENT")
    assert (tmp_path / "secret").read_bytes() == SECRET


def test_a_link_swapped_in_after_the_look_up(box: Virtual, host: Path, tmp_path: Path) -> None:
    node = box.node(b"/mnt/file")
    (host / "file").unlink()
    os.symlink(tmp_path / "secret", host / "file")
    with pytest.raises(OSError, match="symbolic link"):
        node.tree.open(box.ctx, node, os.O_RDWR)
    directory = box.node(b"/mnt/dir")
    (host / "dir").rmdir()
    os.symlink(tmp_path, host / "dir")
    with pytest.raises(OSError):
        directory.tree.create(box.ctx, directory, b"planted", 0o644)
    assert not (tmp_path / "planted").exists()
    with pytest.raises(OSError):
        directory.tree.unlink(box.ctx, directory, b"secret")
    assert (tmp_path / "secret").exists()


def test_a_fifo_swapped_in_does_not_block(box: Virtual, host: Path) -> None:
    node = box.node(b"/mnt/file")
    (host / "file").unlink()
    os.mkfifo(host / "file")
    with pytest.raises(OSError):
        node.tree.open(box.ctx, node, os.O_RDONLY)


def test_a_directory_swapped_for_another(box: Virtual, host: Path) -> None:
    box.do_chdir(b"/mnt/dir")
    os.rename(host / "dir", host / "old")
    (host / "dir").mkdir()
    (host / "dir" / "new").touch()
    assert box.answer(("mkdir", b"x")).endswith("ENOENT")
    assert box.answer(("stat", b"new")).endswith("ENOENT")
    assert box.do_list(b"/mnt/dir") == repr([b"new"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a device")
def test_devices_are_not_opened(box: Virtual, host: Path) -> None:
    os.mknod(host / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert box.answer(("open", 1, b"/mnt/null", os.O_RDWR)).endswith("EACCES")


def test_no_privileged_file_appears_on_the_host(box: Virtual, host: Path) -> None:
    box.do_umask(0)
    box.do_open(1, b"/mnt/made", os.O_CREAT | os.O_RDWR, 0o6755)
    box.do_chmod(b"/mnt/file", 0o6755)
    box.do_open(2, b"/mnt", os.O_TMPFILE | os.O_RDWR, 0o6755)
    assert stat.S_IMODE((host / "made").stat().st_mode) == 0o755
    assert stat.S_IMODE((host / "file").stat().st_mode) == 0o755
    assert stat.S_IMODE(os.fstat(box.slots[2].host_fd).st_mode) == 0o755


def test_host_permissions_do_not_matter_but_ours_do(box: Virtual, host: Path) -> None:
    (host / "closed").mkdir(mode=0o700)
    os.chmod(host / "file", 0o200)
    assert box.answer(("open", 1, b"/mnt/file", os.O_RDONLY)).endswith("EACCES")
    assert box.answer(("open", 1, b"/mnt/file", os.O_WRONLY)).endswith("ok")


def test_what_the_host_changes_is_seen(box: Virtual, host: Path) -> None:
    assert box.answer(("stat", b"/mnt/later")).endswith("ENOENT")
    (host / "later").mkdir()
    assert box.do_list(b"/mnt/later") == "[]"
    (host / "later" / "x").touch()
    assert box.do_list(b"/mnt/later") == repr([b"x"])
    (host / "later" / "x").unlink()
    (host / "later").rmdir()
    (host / "later").write_bytes(b"now a file")
    assert "size=10" in box.do_stat(b"/mnt/later")


def test_sockets(box: Virtual, host: Path) -> None:
    for path in (b"/mnt/sock", b"/sock"):
        with socket.socket(socket.AF_UNIX) as listener:
            def make(directory: int, name: bytes, listener: socket.socket = listener) -> None:
                listener.bind(b"/proc/self/fd/%d/%s" % (directory, name))

            box.vfs.bind(box.ctx, box.vfs.root, path, 0o777, make)
            listener.listen()
            assert box.do_stat(path).startswith("srwxr-xr-x")
            node = box.node(path)
            fd = node.tree.open(box.ctx, node, os.O_PATH)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(b"/proc/self/fd/%d" % fd)
            os.close(fd)
            with pytest.raises(OSError, match="in use"):
                box.vfs.bind(box.ctx, box.vfs.root, path, 0o777, make)
    assert stat.S_ISSOCK((host / "sock").stat().st_mode)


def test_moving_between_trees(box: Virtual) -> None:
    assert box.answer(("rename", b"/mnt/file", b"/file")).endswith("EXDEV")
    assert box.answer(("link", b"/mnt/file", b"/file")).endswith("EXDEV")
    assert box.answer(("rmdir", b"/mnt")).endswith("EBUSY")
    assert box.answer(("rename", b"/mnt", b"/other")).endswith("EBUSY")
    box.do_chdir(b"/mnt/dir")
    assert box.do_getcwd() == repr(b"/mnt/dir")
    box.do_chdir(b"../..")
    assert box.do_getcwd() == repr(b"/")


def test_mount_points(box: Virtual, tmp_path: Path, host: Path) -> None:
    state = box.vfs.state
    sealed = HostTree(state.new_device(), os.fsencode(host))
    box.vfs.mount(sealed, b"/sealed")
    with pytest.raises(OSError, match="Read-only"):
        box.vfs.mount(LayeredTree(state), b"/sealed/inner")
    assert not (host / "inner").exists()
    box.vfs.mount(LayeredTree(state, mode=0o1777), b"/sealed/dir")
    assert box.do_stat(b"/sealed/dir").startswith("drwxrwxrwt")
    assert [path for path, _ in box.vfs.mounts()] == [b"/", b"/mnt", b"/sealed", b"/sealed/dir"]
    assert "0:0" in box.do_stat(b"/")
    with pytest.raises(OSError, match="Not a directory"):
        box.vfs.mount(LayeredTree(state), b"/sealed/file")
    sealed.close()


def test_crossing_mounts_with_openat2(box: Virtual) -> None:
    no_xdev = 1
    assert box.answer(("open2", 1, b"/", b"mnt/file", os.O_RDONLY, no_xdev)).endswith("EXDEV")
    assert box.answer(("open2", 1, b"/mnt", b"file", os.O_RDONLY, no_xdev)).endswith("ok")
    assert box.answer(("open2", 1, b"/mnt/dir", b"../..", os.O_RDONLY, no_xdev)).endswith("EXDEV")
    assert box.answer(("open2", 1, b"/mnt", b"/mnt/file", os.O_RDONLY, no_xdev)).endswith("EXDEV")


def test_closing_a_tree_twice_closes_nothing_else(host: Path) -> None:
    tree = HostTree(1, os.fsencode(host))
    number = tree.fd
    tree.close()
    with (host / "file").open("rb") as other:
        os.dup2(other.fileno(), number)
    tree.close()
    os.close(number)


def test_a_lower_tree_is_closed_where_the_kernel_speaks(tmp_path: Path) -> None:
    """The host may have such a file system mounted below /usr as well."""
    state = new_state(tmp_path)
    tree = LayeredTree(state)
    lower = tree.show(tree.root, b"/")
    try:
        assert stat.S_ISDIR(lower.stat(b"proc").mode)
        for name in (b"proc/version", b"proc/self/mem", b"proc/1"):
            with pytest.raises(ClosedFileSystem):
                lower.stat(name)
        with pytest.raises(ClosedFileSystem):
            list(lower.names(b"proc"))
    finally:
        tree.close()
        state.close()

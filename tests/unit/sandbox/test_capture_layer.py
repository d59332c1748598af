"""Names of a kept box, written and laid over a fresh tree: what must not come back, and what must not block."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from husk.sandbox.kept.capture_layer import file_referred_to, names_of
from husk.store.manifests.manifest import Manifest
from husk.store.manifests.manifest_writer import ManifestWriter
from husk.vfs.layer.inodes import LayerDir
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.layer.overlay import FROM, NODE, NODE_FORM, FrozenFiles, Overlay
from husk.vfs.node import Context, Credentials
from husk.vfs.state import State

ROOT = Context(Credentials(0, 0))
LAYER = "ab" * 16
Make = Callable[[], LayeredTree]


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name in ("secret", "shown"):
        (tmp_path / "host" / "part" / name).mkdir(parents=True)
        (tmp_path / "host" / "part" / name / "f").write_text(name)
    (tmp_path / "host" / "hidden").write_text("hidden")
    return tmp_path / "host"


@pytest.fixture
def make(tmp_path: Path, host: Path) -> Make:
    """A tree that shows a part of a host directory, and a part of a directory in it, as the default image with /etc."""
    count = 0

    def tree() -> LayeredTree:
        nonlocal count
        count += 1
        place = tmp_path / f"state{count}"
        place.mkdir()
        made = LayeredTree(State(os.fsencode(place)))
        top = made.mkdir(ROOT, made.root, b"etc", 0o755)
        made.show(top, os.fsencode(host), only=frozenset([b"part"]))
        part = made.lookup(None, top, b"part")
        assert isinstance(part, LayerDir)
        part.only = frozenset([b"shown"])
        made.seal()
        return made

    return tree


def manifest(data: bytes, tmp_path: Path) -> Manifest:
    path = tmp_path / f"names{len(os.listdir(tmp_path))}"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        return Manifest(fd)
    finally:
        os.close(fd)


def again(tree: LayeredTree, fresh: LayeredTree, tmp_path: Path) -> LayeredTree:
    """`fresh` with what was changed in `tree`."""
    names = names_of(tree, LAYER)
    layers = tmp_path / "layers" / LAYER
    layers.mkdir(parents=True, exist_ok=True)
    tree.state.need_files()
    if not (layers / "files").exists():
        os.symlink(os.fsdecode(tree.state.path) + "/files", layers / "files")
    frozen = FrozenFiles(os.fsencode(tmp_path / "layers"), fresh.copy_up.inodes)
    fresh.lowers.insert(0, frozen)
    Overlay(fresh, manifest(names.data, tmp_path), lambda entry: (frozen, file_referred_to(entry.blob))).lay()
    return fresh


def listed(tree: LayeredTree, path: bytes) -> list[bytes]:
    return sorted(entry.name for entry in tree.snapshot(walk(tree, path)))


def walk(tree: LayeredTree, path: bytes) -> LayerDir:
    here = tree.root
    for name in path.split(b"/"):
        node = tree.lookup(None, here, name)
        assert isinstance(node, LayerDir)
        here = node
    return here


@pytest.mark.parametrize("moved", [b"etc", b"part"])
def test_what_did_not_show_does_not_after_a_rename(make: Make, tmp_path: Path, moved: bytes) -> None:
    tree = make()
    where = tree.root if moved == b"etc" else walk(tree, b"etc")
    tree.rename(ROOT, where, moved, tree.root, b"new", 0)
    part = b"new/part" if moved == b"etc" else b"new"
    for _ in range(3):
        assert listed(tree, part) == [b"shown"]
        with pytest.raises(FileNotFoundError):
            walk(tree, part + b"/secret")
        if moved == b"etc":
            assert listed(tree, b"new") == [b"part"]
        tree = again(tree, make(), tmp_path)


def test_what_husk_wrote_is_kept_where_it_was_moved(make: Make) -> None:
    """Nobody has opened it, so there was no real file yet."""
    tree = make()
    tree.generate(walk(tree, b"etc"), b"passwd", 0o644, b"root")
    tree.seal()
    tree.rename(ROOT, walk(tree, b"etc"), b"passwd", tree.root, b"moved", 0)
    (number,) = names_of(tree, LAYER).files[LAYER]
    assert Path(os.fsdecode(tree.state.path), "files", str(number)).read_text() == "root"


def test_a_layer_from_a_stranger_shows_nothing_of_the_host(make: Make, host: Path, tmp_path: Path) -> None:
    """husk's own attributes count only where husk wrote them."""
    writer = ManifestWriter()
    own = NODE_FORM.pack(0, 0, 0, 7, 1, 0)
    whence = os.fsencode(host) + b"\0"
    writer.add(b"", stat.S_IFDIR | 0o755)
    writer.add(b"stolen", stat.S_IFDIR | 0o755, xattrs={FROM: whence, NODE: own, b"security.x": b"1"})
    writer.add(b"file", stat.S_IFREG | 0o644, blob=b"\1" * 32, xattrs={FROM: whence + b"hidden", NODE: own})
    tree = make()
    lower = tree.lowers[0]
    (host / "blob").write_text("blob")
    Overlay(
        tree, manifest(writer.finish(), tmp_path), partial(lambda lower, entry: (lower, b"blob"), lower), plain=True
    ).lay()
    stolen = walk(tree, b"stolen")
    assert stolen.lower is None and stolen.xattrs is None
    assert tree.snapshot(stolen) == []
    fd = tree.open(ROOT, tree.lookup(None, tree.root, b"file"), os.O_RDONLY)
    assert os.read(fd, 100) == b"blob"
    os.close(fd)


def test_directories_wait_until_they_are_entered(make: Make, tmp_path: Path) -> None:
    tree = make()
    deep = tree.mkdir(ROOT, tree.mkdir(ROOT, tree.root, b"a", 0o750), b"b", 0o700)
    tree.create(ROOT, deep, b"f", 0o640)
    tree.set_xattr(ROOT, deep, b"user.k", b"v", 0)
    fresh = again(tree, make(), tmp_path)
    above = fresh.lookup(None, fresh.root, b"a")
    assert isinstance(above, LayerDir) and above.pending
    assert fresh.stat(ROOT, above).nlink == 3
    # The directory was not read in this run. It is written down again all the same, and so on.
    third = again(fresh, make(), tmp_path)
    assert above.pending
    inner = walk(third, b"a/b")
    assert inner.xattrs == {b"user.k": b"v"}
    assert names_of(third, LAYER).data == names_of(tree, LAYER).data
    assert fresh.changes() == tree.changes() == third.changes()
    assert [change for change, _ in third.changes()] == ["added"] * 3

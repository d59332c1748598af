"""A vfs over a small prepared host directory, for tests without a native counterpart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.vfs.layer.layered_tree import LayeredTree
from tests.unit.vfs.trees import new_state
from tests.unit.vfs.virtual import Virtual
from tests.unit.vfs.worlds import GUEST

UIDS = {os.geteuid(): GUEST}  # the user who runs the tests is shown as the guest
GIDS = {os.getegid(): GUEST}


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    """A host directory that only this test changes."""
    root = tmp_path / "lower"
    (root / "dir" / "sub").mkdir(parents=True)
    (root / "file").write_bytes(b"lower\n")
    (root / "dir" / "inner").write_bytes(b"inner\n")
    (root / "dir" / "sub" / "leaf").write_bytes(b"leaf\n")
    (root / "twin").write_bytes(b"twin\n")
    os.link(root / "twin", root / "dir" / "twin")
    os.symlink("file", root / "link")
    return root


@pytest.fixture
def world(tmp_path: Path, lower: Path) -> Iterator[Virtual]:
    state = new_state(tmp_path)
    tree = LayeredTree(state)
    tree.show(tree.root, os.fsencode(lower), uids=UIDS, gids=GIDS)
    world = Virtual(state, tree)
    yield world
    world.close()
    tree.close()
    state.close()

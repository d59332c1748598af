"""A store and a tree for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.store.store import Store
from tests.unit.store.trees import make_tree


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(str(tmp_path / "store"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")

"""A store for each test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """In memory where that can be had: every import syncs its file system, and others may be writing to a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield Store.create(str(tmp_path / "store"))
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="husk-test-") as place:
        yield Store.create(place + "/store")

"""A guest over a small prepared tree, and a check that nothing husk opened for it stays open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.kernel.fakes import Guest


def prepare(root: Path) -> None:
    """Every kind of thing a call can be given."""
    (root / "file").write_text("twelve bytes")
    (root / "closed").write_text("x")
    (root / "closed").chmod(0)
    (root / "dir").mkdir()
    (root / "dir" / "inside").write_text("")
    (root / "empty").mkdir()
    (root / "link").symlink_to("file")
    (root / "dangling").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "fifo")


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    """The host tree the guest's root shows."""
    root = tmp_path / "lower"
    root.mkdir()
    prepare(root)
    return root


@pytest.fixture
def guest(tmp_path: Path, lower: Path) -> Iterator[Guest]:
    (tmp_path / "state").mkdir()
    box = Guest(os.fsencode(tmp_path / "state"), os.fsencode(lower))
    yield box
    box.close()

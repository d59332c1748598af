"""A place for the boxes of tests about starts, on either kind of host: what is left there, or open, is a mistake."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.sandbox import plan
from husk.walls import namespaces
from tests.lib.running import need_bare, until


@pytest.fixture(params=["walled", "bare"])
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """On a host that gives namespaces, or none."""
    if request.param == "bare":
        need_bare()
        walls_here = namespaces.walls_here
        monkeypatch.setattr(plan, "walls_here", lambda **wish: walls_here(**{**wish, "namespaces": False}))
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    before = set(os.listdir("/proc/self/fd"))
    yield tmp_path
    assert until(lambda: not children())
    assert until(lambda: set(os.listdir("/proc/self/fd")) <= before)  # a thread may be looking at the C library
    assert list((tmp_path / "state").iterdir()) == []


def children() -> list[str]:
    return Path("/proc/thread-self/children").read_text().split()

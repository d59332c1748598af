"""Every test of the API runs with a state directory of its own, and leaves nothing: no descriptor, thread, process or
file."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import husk
from tests.guest.running import need_bare

OF_ALL_BOXES = ("kept", "layers", "kept.lock")  # where snapshots and kept boxes live, and stay when they are gone


def descriptors() -> dict[str, str]:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
    return found


def children() -> list[str]:
    found = []
    for thread in os.listdir("/proc/self/task"):
        try:
            found += Path(f"/proc/self/task/{thread}/children").read_text().split()
        except FileNotFoundError:
            pass  # the thread has ended meanwhile, and its children are another's now
    return found


def settle(look: object, wanted: object) -> None:
    """Threads that have done their work need a moment to be gone."""
    assert callable(look)
    for _ in range(100):
        if look() == wanted:
            return
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("HUSK_STATE", str(state))
    gc.collect()
    before, threads, processes = descriptors(), threading.active_count(), children()
    yield
    settle(threading.active_count, threads)
    assert threading.active_count() == threads
    assert [path for path in state.rglob("*") if path.name not in OF_ALL_BOXES] == []
    assert children() == processes
    settle(lambda: len(os.listdir("/proc/self/task")), threads)
    after = descriptors()
    assert {fd: where for fd, where in after.items() if before.get(fd) != where} == {}


@pytest.fixture(params=["walled", "bare"])
def box(request: pytest.FixtureRequest) -> Iterator[husk.Sandbox]:
    if request.param == "bare":
        need_bare()
    with husk.Sandbox(namespaces=request.param == "walled") as made:
        yield made

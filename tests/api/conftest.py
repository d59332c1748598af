"""Every test of the API runs with a state directory of its own, and leaves nothing: no descriptor, thread, process or
file."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import husk
from tests.lib.running import need_bare, until

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
            pass  # the thread has ended meanwhile, and another thread has its children
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("HUSK_STATE", str(state))
    gc.collect()
    # New ones were left by the test. Older ones belong to others and may go meanwhile.
    before, threads, processes = descriptors(), set(threading.enumerate()), set(children())

    def left() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread not in threads]

    def opened() -> dict[str, str]:
        return {fd: where for fd, where in descriptors().items() if before.get(fd) != where}

    yield
    # Threads that have done their work need a moment to be gone.
    assert until(lambda: not left()), left()
    assert [path for path in state.rglob("*") if path.name not in OF_ALL_BOXES] == []
    assert set(children()) - processes == set()
    # A thread that has ended for Python may still have to close a descriptor before it ends for the host.
    assert until(lambda: not opened()), opened()


@pytest.fixture(params=["walled", "bare"])
def box(request: pytest.FixtureRequest) -> Iterator[husk.Sandbox]:
    if request.param == "bare":
        need_bare()
    with husk.Sandbox(namespaces=request.param == "walled") as made:
        yield made

"""Control groups: which directory is taken, what is written there, and that nothing is left.

A directory tree stands in for the host's; where the host lets this user make a real group, one is made too.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from husk.sandbox.limits import cgroups
from husk.sandbox.limits.cgroups import PREFIX, Group, delegation, make_group
from husk.sandbox.limits.limits import Limits


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """service/app is husk's own group; service hands memory and pids down, as a service manager's does."""
    place = tmp_path
    for folder in (place, place / "service", place / "service" / "app"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.procs").touch()
        (folder / "cgroup.subtree_control").write_text("memory pids\n" if folder.name == "service" else "")
    monkeypatch.setattr(cgroups, "_mount", lambda: str(place))
    monkeypatch.setattr(cgroups, "_own", lambda: "/service/app")
    return place


def asked(*texts: str) -> Limits:
    limits = Limits()
    for text in texts:
        limits.read(text)
    return limits


def with_controllers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new group has its controllers' files from the start."""
    mkdir = os.mkdir

    def make(path: str) -> None:
        mkdir(path)
        for name in ("cgroup.procs", "cgroup.kill", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max"):
            Path(path, name).touch()

    monkeypatch.setattr(cgroups.os, "mkdir", make)  # type: ignore[attr-defined]


def test_the_place_is_where_controllers_are_handed_down(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_controllers(monkeypatch)
    group = make_group(asked("memory=64M", "processes=10"))
    assert group is not None and Path(group.path).parent == host / "service"
    assert group.enforces == {"memory", "processes"}
    written = {path.name: path.read_text() for path in Path(group.path).iterdir() if path.read_text()}
    assert written == {"memory.max": str(64 << 20), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "10"}
    assert delegation() == (str(host / "service"), ["memory", "pids"])


def test_without_controllers_a_group_still_counts(host: Path) -> None:
    group = make_group(asked("memory=64M"))
    assert group is not None and group.enforces == set()


def test_no_group_where_none_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_mount", lambda: None)
    assert make_group(asked("memory=64M")) is None and delegation() is None


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(host: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead, living, foreign = (host / "service" / name for name in (f"{PREFIX}{gone.pid}-0", f"{PREFIX}1-0", "other"))
    for folder in (dead, living, foreign):
        folder.mkdir()
    cgroups.sweep(str(host / "service"))
    assert not dead.exists() and living.exists() and foreign.exists()


def test_a_real_group() -> None:
    group = make_group(asked("cpu=1"))
    if group is None:
        pytest.skip("this user may make no control group here")
    child = subprocess.Popen(["sleep", "600"])
    try:
        assert Path(group.path).name.startswith(PREFIX)
        assert group.add(child.pid) and group.pids() == [child.pid]
        assert group.number("cpu.stat", "usage_usec") >= 0 and group.number("no.such", "file") == 0
        group.kill()
        assert child.wait(timeout=60) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()
        group.remove()
    assert not Path(group.path).exists()
    assert not group.add(os.getpid()) and Group("/nowhere").pids() == []

"""Guests are known by their mark: what has it ends, and nothing else."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
from collections.abc import Iterator

import pytest

from husk.native._core import kill_marked
from husk.sandbox import orphans
from husk.sandbox.orphans import ALL_BITS, RUN_BITS, box_mark, end_box, end_run, marked_children, run_mark

# Numbers that no husk of this machine has: its own are drawn.
ONE, TWO = f"box-{os.getpid()}-0badcafe", f"box-{os.getpid()}-0badcaff"
UNLIMITED = resource.RLIM_INFINITY


def sleeper(hard: int) -> subprocess.Popen[bytes]:
    def limit() -> None:
        resource.setrlimit(10, (hard, hard))  # RLIMIT_LOCKS, which Python does not name

    return subprocess.Popen(["sleep", "300"], preexec_fn=limit)


@pytest.fixture
def started() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    marks = {"first": run_mark(ONE), "second": run_mark(ONE), "other": run_mark(TWO), "unmarked": UNLIMITED}
    made = {name: sleeper(mark) for name, mark in marks.items()}
    yield made
    for process in made.values():
        process.kill()
        process.wait()


def alive(started: dict[str, subprocess.Popen[bytes]]) -> list[str]:
    return [name for name, process in started.items() if process.poll() is None]


def mark_of(process: subprocess.Popen[bytes]) -> int:
    return resource.prlimit(process.pid, 10)[1]


def test_a_run_ends_alone(started: dict[str, subprocess.Popen[bytes]]) -> None:
    end_run(mark_of(started["first"]))
    assert started["first"].wait() == -signal.SIGKILL
    assert alive(started) == ["second", "other", "unmarked"]


def test_a_box_ends_with_all_its_runs(started: dict[str, subprocess.Popen[bytes]]) -> None:
    end_box(ONE)
    assert started["first"].wait() == started["second"].wait() == -signal.SIGKILL
    assert alive(started) == ["other", "unmarked"]


def test_children_are_known_dead_or_alive(started: dict[str, subprocess.Popen[bytes]]) -> None:
    process = started["first"]
    assert marked_children(mark_of(process)) == [process.pid]
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert marked_children(run_mark(ONE)) == []
    assert len(marked_children(mark_of(started["second"]))) == 1


def test_without_descriptors(started: dict[str, subprocess.Popen[bytes]]) -> None:
    """husk has none left: it looks at every number there can be."""
    mark = mark_of(started["first"])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        assert kill_marked(mark, ALL_BITS) >= 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert started["first"].wait() == -signal.SIGKILL
    assert alive(started) == ["second", "other", "unmarked"]


def test_marks() -> None:
    """Never a limit that some process has by itself; runs of a box differ, and boxes differ in the upper bits."""
    assert all(1 << 62 <= box_mark(f"box-{pid}-{drawn}") < 1 << 63 for pid in (1, 4194304) for drawn in ("0", "f" * 8))
    assert run_mark(ONE) != run_mark(ONE)
    assert run_mark(ONE) >> RUN_BITS == box_mark(ONE) >> RUN_BITS != box_mark(TWO) >> RUN_BITS


def test_more_runs_than_a_mark_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "_runs", itertools.count(1 << RUN_BITS))
    assert run_mark(ONE) == box_mark(ONE)
    assert run_mark(ONE) == box_mark(ONE) + 1


@pytest.mark.parametrize(("mark", "mask"), [(0, ALL_BITS), (1, 2)])
def test_no_mark_is_everybodys(mark: int, mask: int) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        kill_marked(mark, mask)

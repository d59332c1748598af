"""The host's clock may be set forward or back at any moment: durations are measured by a clock that cannot be set.

The sources are read: each use of the wall clock stands here with its reason. Then what compares its times is asked with
a clock that jumps.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.cli.cmd_boxes import _age
from husk.kernel import listings
from husk.store import collect as collecting
from husk.store import ingest as ingesting
from husk.store.collect import collect
from husk.store.ingest import ingest
from husk.store.store import Store

SOURCE = Path(__file__).resolve().parents[2] / "src" / "husk"
WALL = {
    "time.time",
    "time.time_ns",
    "time.localtime",
    "time.ctime",
    "datetime.now",
    "datetime.datetime.now",
    "date.today",
}
# File -> why the time of day is meant there.
MEANT = {
    "sandbox/kept/keeping.py": "when a box was made and changed, for people",
    "sandbox/kept/operations.py": "when a box was forked, for people",
    "kernel/syscalls/shm.py": "what shmctl shows",
    "kernel/ipc/segments.py": "what shmctl shows",
    "kernel/listings.py": "compared with file times, either way round",
    "cli/cmd_boxes.py": "the age of a box, for people",
    "cli/cmd_run.py": "when a run began and ended, in its log of events",
    "kernel/events.py": "when something happened, in the log of events",
    "sandbox/kept/run_log.py": "when a box ran, for people",
    "cli/show/store_show.py": "when an image was made, for people",
    "cli/show/image_show.py": "when an image was made, for people",
    "store/ingest.py": "compared with file times: a file that is not clearly older is read again",
    "store/collect.py": "compared with file times, where an age is asked for",
    "store/store.py": "when an image was made, for people",
    "vfs/synth/synth_tree.py": "file times of made-up files",
    "compat/probe/measured.py": "the date of a measurement, for people",
    "conform/execute/run_suites.py": "the name of a run, when it began and ended, for people",
}
C_WALL = re.compile(r"CLOCK_REALTIME|gettimeofday|\btime\(NULL\)|pthread_cond_timedwait")
C_MEANT = {
    "native/direct/direct.c": "compared with the times at which files were changed",
    "native/direct/direct_files.c": "compared with the time at which a file was changed",
    "native/notify/leader.c": "waits by CLOCK_MONOTONIC: pthread_condattr_setclock",
    "compat/probe/checks/check_time.c": "a probe of what these clocks answer",
}


def wall_clock(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in WALL:
            yield ast.unparse(node)


def test_every_use_of_the_wall_clock_is_meant() -> None:
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if list(wall_clock(path.read_text()))}
    assert found == set(MEANT), found ^ set(MEANT)
    in_c = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.c") if C_WALL.search(path.read_text())}
    assert in_c == set(C_MEANT)
    assert "CLOCK_MONOTONIC" in (SOURCE / "native/notify/leader.c").read_text()


def test_the_check_itself() -> None:
    assert list(wall_clock("deadline = time.time() + 5")) == ["time.time"]
    assert list(wall_clock("deadline = time.monotonic() + 5")) == []


HOUR = 3600.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(str(tmp_path / "store"))


@pytest.mark.parametrize("step", [-1000 * HOUR, 1000 * HOUR])
def test_unused_blobs_go_whatever_the_clock_says(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("kept")
    ingest(store, str(tmp_path / "tree"), "image")
    stray = store.put_blob(b"stray")
    real = time.time
    monkeypatch.setattr(collecting.time, "time", lambda: real() + step)  # type: ignore[attr-defined]
    found = collect(store, delete=True)
    assert found.blobs == 1 and found.young == 0 and not store.has(stray)
    assert store.images.get("image")


def test_an_age_after_the_clock_was_set_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken for older than it is."""
    store.put_blob(b"stray")
    real = time.time
    monkeypatch.setattr(collecting.time, "time", lambda: real() - 1000 * HOUR)  # type: ignore[attr-defined]
    assert collect(store, unused_for=HOUR).young == 1


@pytest.mark.parametrize("step", [-1000 * HOUR, 0.0, 1000 * HOUR])
def test_a_changed_file_is_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    """Same size, changed between two ingests around which the clock jumps."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("one")
    real = time.time_ns
    monkeypatch.setattr(ingesting.time, "time_ns", lambda: real() + int(step * 1e9))  # type: ignore[attr-defined]
    first = ingest(store, str(tree), "image")
    (tree / "file").write_text("two")
    second = ingest(store, str(tree), "image")
    assert first.manifest != second.manifest


def test_times_of_the_future_are_fresh_or_not_by_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(listings.time, "time_ns", lambda: now)  # type: ignore[attr-defined]
    assert listings._too_fresh((1, 2, now - 1, now)) and listings._too_fresh((1, 2, now + 1000, now))
    assert not listings._too_fresh((1, 2, now - 10**12, now - 10**12))


def test_ages_are_never_negative() -> None:
    assert _age(-(10**15)) == "0s" and _age(90 * 10**9) == "1m"

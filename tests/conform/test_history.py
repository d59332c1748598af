"""The history keeps every run, answers without reading all of it, and loses nothing when killed or without room."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from husk.conform.history.database import History
from husk.conform.history.history_file import APPLICATION_ID
from husk.conform.outcomes import CRASH, FAIL, FLAKY, NOT_NATIVE, PASS, SKIP, CaseName, score
from husk.sandbox.errors import HuskError, UsageError
from tests.conform.records import a_run, judged

EVERYTHING = a_run(
    0,
    [
        judged("open/B.second", seconds=0.125),
        judged("open/A.first", FAIL, why="1 != 2", output="line\n" * 1000),
        judged("open/C", CRASH, why="1 != 2", output="\0 \N{SNOWMAN} \x1b[31m", expected="refused", by_design=True),
        judged("open/C", SKIP, suite="other"),
        judged("pipe/D", NOT_NATIVE),
        judged("pipe/E", FLAKY),
        judged("pipe/E", PASS),
    ],
    suites=("other", "mini"),
    version="husk 1",
    commit="c" * 40,
    jobs=3,
    timeout=1.5,
    whole=False,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_a_run_comes_back(path: Path) -> None:
    with History(path) as history:
        assert history.add(EVERYTHING)
    with History(path) as history:
        assert history.record(EVERYTHING.info.run) == EVERYTHING
        (found,) = history.runs()
        assert (found.info, found.score) == (EVERYTHING.info, score(EVERYTHING.cases))
        bare = history.record(EVERYTHING.info.run, outputs=False)
        assert [one.why for one in bare.cases] == [one.why for one in EVERYTHING.cases]
        assert not any(one.output for one in bare.cases)
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["history.db"]


def test_the_same_run_again_is_no_error_and_another_of_its_name_is(path: Path) -> None:
    with History(path) as history:
        assert history.add(a_run(1, {"open/A": PASS}))
        assert not history.add(a_run(1, {"open/A": PASS}))
        with pytest.raises(UsageError, match="another run 20260102-030000-husk"):
            history.add(a_run(1, {"open/A": FAIL}))
        assert history.record("20260102-030000-husk") == a_run(1, {"open/A": PASS})


def test_text_that_is_no_unicode(path: Path) -> None:
    with History(path) as history:
        history.add(a_run(1, [judged("open/A\ud800", FAIL, why="\udfff")]))
        assert history.record("20260102-030000-husk").cases[0].name.case == "A?"


def test_latest_is_comparable(path: Path) -> None:
    with History(path) as history:
        runs = [
            a_run(1, {"open/A": PASS}),
            a_run(2, {"open/A": PASS}, suites=("mini", "other")),
            a_run(3, {"open/A": PASS}, runtime="native"),
            a_run(4, {"open/A": FAIL}),
            a_run(5, {"open/A": PASS}, case_filter="open/*"),
            a_run(6, {"open/A": PASS}, whole=False),
        ]
        for run in reversed(runs):  # recorded in another order than they ran
            history.add(run)
        assert history.latest("husk", ["mini"]) == runs[3]
        assert history.latest("husk", ["mini"], before=runs[3].info.run) == runs[0]
        assert history.latest("husk", ["mini"], before=runs[0].info.run) is None
        assert history.latest("husk", ["other", "mini"]) == runs[1]
        assert history.latest("runsc", ["mini"]) is None
        assert [found.info.run for found in history.runs()] == [run.info.run for run in runs]
        assert [found.info.run for found in history.runs("native")] == ["20260104-030000-native"]


def test_a_case_through_time(path: Path) -> None:
    with History(path) as history:
        for number, verdict in enumerate([PASS, FAIL, PASS]):
            history.add(a_run(number, {"open/A": verdict, "open/B": PASS}))
        history.add(a_run(3, {"open/B": PASS}))
        history.add(a_run(4, {"open/A": CRASH}, runtime="runsc"))
        name = CaseName("mini", "open", "A")
        assert [(seen.info.runtime, seen.case.verdict) for seen in history.of_case(name)] == [
            ("husk", PASS), ("husk", FAIL), ("husk", PASS), ("runsc", CRASH),
        ]  # fmt: skip
        assert [seen.case.verdict for seen in history.of_case(name, "runsc")] == [CRASH]
        assert history.cases("mini/*/[A]") == [name]
        assert history.cases("*") == [name, CaseName("mini", "open", "B")]


def test_texts_are_kept_once_and_packed(path: Path) -> None:
    output = "the same thousand lines\n" * 2000
    with History(path) as history:
        for number in range(10):
            history.add(a_run(number, [judged(f"open/{case}", FAIL, output=output) for case in range(50)]))
    assert path.stat().st_size < 100_000  # 500 times 48 kB
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(*), sum(length(packed)) FROM texts").fetchone() < (2, 1000)


def test_forget(path: Path) -> None:
    kept = a_run(1, [judged("open/A", FAIL, why="both", output="both"), judged("open/B")])
    with History(path) as history:
        history.add(kept)
        history.add(a_run(2, [judged("open/A", FAIL, why="both", output="only here"), judged("open/C")]))
        history.forget("20260103-030000-husk")
        assert [found.info.run for found in history.runs()] == [kept.info.run]
        assert history.record(kept.info.run) == kept
        assert [name.case for name in history.cases("*")] == ["A", "B"]
        with pytest.raises(UsageError, match="no run '20260103-030000-husk'"):
            history.forget("20260103-030000-husk")
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(*) FROM texts").fetchone() == (1,)


# -- quick -------------------------------------------------------------------------------------------------------------
QUESTIONS: dict[str, Callable[[History], object]] = {
    "runs": lambda history: history.runs(),
    "runs of one": lambda history: history.runs("husk"),
    "line": lambda history: history.line("husk", ["mini"]),
    "of_case": lambda history: history.of_case(CaseName("mini", "open", "7")),
    "record": lambda history: history.record("20260101-030000-husk"),
    "forget": lambda history: history.forget("20260101-030000-husk"),
    "add": lambda history: history.add(a_run(50, [judged("open/7", FAIL, why="new", output="new")])),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_reads_what_it_does_not_ask_for(path: Path, question: str) -> None:
    """By the plans of SQLite: a scan of a big table is what would make a large history slow."""
    statements: list[str] = []
    with History(path) as history:
        for number in range(2):
            history.add(a_run(number, [judged("open/7", FAIL, why="why", output="output")]))
        history._file.set_trace_callback(statements.append)
        QUESTIONS[question](history)
        history._file.set_trace_callback(None)
    asked = [text for text in statements if text.split()[0] not in ("BEGIN", "COMMIT", "--")]
    assert asked
    with sqlite3.connect(path) as file:
        for statement in asked:
            plan = [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {statement}")]
            bad = [step for step in plan if step.startswith("SCAN ") and not step.startswith("SCAN runs")]
            assert not bad, (statement, plan)


def test_the_cost_of_a_case_does_not_grow_with_the_others(path: Path) -> None:
    """In steps of SQLite's machine, which do not depend on the time of day."""

    def steps(history: History) -> int:
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += 1
            return 0

        history._file.set_progress_handler(count, 1)
        assert len(history.of_case(CaseName("mini", "open", "7"))) == 5
        history._file.set_progress_handler(None, 1)
        return counted

    counts = []
    for size in (10, 5000):
        with History(path.with_name(f"{size}.db")) as history:
            for number in range(5):
                history.add(a_run(number, {f"open/{case}": PASS for case in range(size)}))
            counts.append(steps(history))
    assert counts[1] <= counts[0] + 5


# -- bad files, no room, kills -----------------------------------------------------------------------------------------
def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE runs (precious)")


def newer_database(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE runs (id)")
        file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        file.execute("PRAGMA user_version = 99")


def cut_off(path: Path) -> None:
    History(path).close()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def garbled(path: Path) -> None:
    with History(path) as history:
        history.add(EVERYTHING)
    content = bytearray(path.read_bytes())
    content[120:] = b"\xa5" * (len(content) - 120)
    path.write_bytes(content)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "not a history"),
    "text": (lambda path: path.write_text("my diary\n" * 100), "not a history"),
    "foreign": (foreign_database, "not a history"),
    "newer": (newer_database, "format 99"),
    "cut off": (cut_off, "damaged"),
    "garbled": (garbled, "damaged"),
    "a directory": (lambda path: path.mkdir(), "Is a directory"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_history_is_left_alone(path: Path, kind: str) -> None:
    make, said = BAD[kind]
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(HuskError, match=said) as caught, History(path) as history:
        history.add(EVERYTHING)
    assert "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else b"") == before
    assert os.listdir(path.parent) == ["history.db"]


@pytest.mark.parametrize(("table", "column", "value"), [
    ("runs", "about", "'[]'"), ("runs", "score", "'x'"), ("texts", "packed", "x'7a00'"), ("texts", "packed", "7"),
    ("results", "seconds", "'long'"),
])  # fmt: skip
def test_values_that_are_not_ours(path: Path, table: str, column: str, value: str) -> None:
    with History(path) as history:
        history.add(EVERYTHING)
    with sqlite3.connect(path) as file:
        file.execute(f"UPDATE {table} SET {column} = {value}")
    with History(path) as history, pytest.raises(HuskError, match="damaged"):
        history.runs()
        history.record(EVERYTHING.info.run)


# A process of its own: the parent's rights and limits stay as they are, and it can be killed.
WRITER = """
import resource, sys
from pathlib import Path
from husk.conform.history.database import History
from husk.sandbox.errors import HuskError
from tests.conform.records import a_run, judged

def night(number, size):
    return a_run(number, [judged(f"open/{case}", "fail", output=f"{number} {case} " * 50) for case in range(size)])
"""


def writer(script: str, *words: str | Path) -> list[str]:
    return [sys.executable, "-c", WRITER + script, *map(str, words)]


def test_no_room(path: Path) -> None:
    """As on a full disk, through the limit on the size of a file: it is said, and what was recorded stays."""
    script = """
with History(Path(sys.argv[1])) as history:
    history.add(night(1, 10))
    size = Path(sys.argv[1]).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, size + 4096))
    try:
        history.add(night(2, 2000))
    except HuskError as error:
        print(error)
"""
    done = subprocess.run(writer(script, path), capture_output=True, text=True, check=True)
    assert "make room" in done.stdout and done.stdout.count("\n") == 1
    with History(path) as history:
        assert [found.info.run for found in history.runs()] == ["20260102-030000-husk"]
        assert len(history.record("20260102-030000-husk").cases) == 10
    assert sorted(os.listdir(path.parent)) == ["history.db"]


def test_killed_while_it_writes(path: Path) -> None:
    """Killed in the middle of a transaction that has already reached the file: the next one finds what was before."""
    script = """
import os, signal
with History(Path(sys.argv[1])) as history:
    history.add(night(1, 10))
    history._file.execute("PRAGMA cache_size = 10")  # pages are written long before the end
    written = 0
    def look():
        global written
        written += 1
        if Path(sys.argv[1] + "-journal").exists() and Path(sys.argv[1]).stat().st_size > 400_000:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0
    history._file.set_progress_handler(look, 1000)
    history.add(night(2, 5000))
print("not killed")
"""
    done = subprocess.run(writer(script, path), capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done
    assert path.with_name("history.db-journal").exists()
    with History(path) as history:
        assert [found.info.run for found in history.runs()] == ["20260102-030000-husk"]
        assert len(history.record("20260102-030000-husk").cases) == 10
        assert history.add(a_run(3, {"open/A": PASS}))
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_two_writers(path: Path) -> None:
    script = """
for number in range(int(sys.argv[2]), 20, 2):
    with History(Path(sys.argv[1])) as history:
        history.add(night(number, 30))
"""
    both = [subprocess.Popen(writer(script, path, str(first))) for first in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    with History(path) as history:
        found = history.runs()
        assert len(found) == 20 and all(run.score.missed == 30 for run in found)
        assert len(history.cases("*")) == 30


def test_a_writer_that_does_not_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("husk.conform.history.history_file.WAIT_SECONDS", 0.05)
    with History(path) as history, sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HuskError, match="another husk writes there"):
            history.add(EVERYTHING)
        other.execute("ROLLBACK")
        assert history.add(EVERYTHING)

"""`husk conform run` on a miniature suite with known answers: natively, in husk, stopped, and on a full disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from husk.cli import main
from husk.cluster import work_journal
from husk.conform.execute import run_suites
from husk.conform.execute.run_journal import Journal
from husk.conform.execute.run_units import run_units
from husk.conform.outcomes import PASS, CaseName, CaseResult
from husk.conform.results_file import read_results
from husk.conform.units import Reading, Unit
from husk.sandbox.errors import HuskError
from tests.conform.mini_suite import KNOWN, mark, mini_suite, processes_named
from tests.conform.small_suites import write_suite

pytestmark = pytest.mark.needs("gcc")
FAST = {"crash_start_test": "crash at start", "crash_exit_test": "crash at exit", "close_test": "close output",
        "json_test": "bad json", "empty_test": "no cases"}  # fmt: skip


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mini_suite(tmp_path_factory.mktemp("suite") / "mini")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HUSK_CONFORM", str(tmp_path / "data"))
    return tmp_path / "data"


def run(*words: str | Path) -> int:
    return main(["conform", "run", "--quiet", *map(str, words)])


def outcomes(path: Path) -> dict[str, tuple[str, str]]:
    return {f"{one.name.file}/{one.name.case}": (one.outcome, one.verdict) for one in read_results(path).cases}


@pytest.mark.parametrize("words", [["--under", "native"], [], ["--setting", "bare"]], ids=["native", "husk", "bare"])
def test_known_answers(
    suite: Path, data: Path, tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The three share one native baseline, in which one case passes every other time."""
    monkeypatch.setenv("HUSK_CONFORM", str(data))
    in_husk = words != ["--under", "native"]
    assert run(suite, "--jobs", "2", *words, "--out", tmp_path / "r.json") == (1 if in_husk else 0)
    record = read_results(tmp_path / "r.json")
    found = {one.name.case: one for one in record.cases}
    known = KNOWN | ({"Bad.Hangs": "skip"} if in_husk else {})  # what hangs natively is not run elsewhere
    assert {case: one.outcome for case, one in found.items() if not case.startswith("Box.")} == known
    assert found["Bad.Hangs"].verdict == "not-native"
    assert found["Bad.Crashes"].why == "SIGSEGV in this case" and "about to crash" in found["Bad.Crashes"].output
    assert found["Basics.Fails"].why == "mini.cc:12: Expected equality of these values: 1 2"
    natively_fine = {case for case, outcome in KNOWN.items() if outcome == PASS}
    assert {case for case, one in found.items() if one.verdict == PASS} == natively_fine | (
        set() if in_husk else {"Box.FindsTheHostFile", "Box.HangsWithoutTheHostFile"}
    )
    assert found["Box.HangsWithoutTheHostFile"].verdict == ("hang" if in_husk else "pass")
    assert found["Box.FindsTheHostFile"].verdict == ("fail" if in_husk else "pass")
    assert found["Box.EveryOtherTime"].verdict == "flaky"
    assert processes_named(mark(suite)) == []
    assert record.info.whole and record.info.runtime in ("native", "husk", "husk-bare")
    # Only what passes natively counts.
    assert f"{len(natively_fine) + (0 if in_husk else 2)} of {len(natively_fine) + 2} pass" in capsys.readouterr().out


def test_programs_that_misbehave_as_a_whole(own_data: Path, tmp_path: Path) -> None:
    place = mini_suite(tmp_path / "odd", FAST)
    native = ["--under", "native", "--repeat", "1"]
    assert run(place, "--filter", "*/Basics.*", *native, "--out", tmp_path / "r.json") == 0
    found = outcomes(tmp_path / "r.json")
    plain = {"Basics.Passes": "pass", "Basics.Fails": "fail", "Basics.Skips": "skip", "Basics.DISABLED_Off": "skip"}
    crashed = dict.fromkeys(plain, "crash") | {"Basics.DISABLED_Off": "skip"}
    for file, expected in (("crash_start_test", crashed), ("close_test", plain), ("json_test", plain)):
        assert {case: found[f"{file}/{case}"][0] for case in plain} == expected, file
    # After the last case, which was skipped: a skip is not turned into a crash.
    assert {case: found[f"crash_exit_test/{case}"][0] for case in plain} == plain
    assert not any(name.startswith("empty_test") for name in found)


def test_expected_failures(own_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = mini_suite(tmp_path / "mini")
    (place / "expected.toml").write_text(
        "[[expected]]\ncase = 'mini/mini_test/Box.*'\nreason = 'a box shows no host file'\nby_design = true\n"
        "[[expected]]\ncase = 'mini/mini_test/All/*/0'\nreason = 'was slow'\n"
        "[[expected]]\ncase = 'mini/no_test/*'\nreason = 'gone'\n"
    )
    words = ["--repeat", "1", "--filter", "*/Box.Finds*", "--filter", "*/All/*"]
    assert run(place, *words, "--json") == 0
    score = json.loads(capsys.readouterr().out)["score"]
    assert (score["expected"], score["by_design"], score["share_but_design"]) == (1, 1, 1.0)
    assert run(place, *words) == 0
    out = capsys.readouterr().out
    assert "passes, though a failure is expected (1)" in out and "gone" not in out
    (place / "expected.toml").replace(tmp_path / "first.toml")
    (tmp_path / "second.toml").write_text("[[expected]]\ncase = 'mini/mini_test/All/*'\nreason = 'old'\n")
    assert run(place, *words, "--expected", tmp_path / "second.toml") == 1
    assert run(place, *words, "--expected", tmp_path / "second.toml", "--expected", tmp_path / "first.toml") == 0


def test_each_case_in_a_process_of_its_own(own_data: Path, suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Unit] = []

    def watched(phase: str, title: str, units: list[Unit], *rest: Any) -> bool:
        seen.extend(units)
        return run_units(phase, title, units, *rest)

    monkeypatch.setattr(run_suites, "run_units", watched)
    for words, cases in (([], [3]), (["--alone"], [1, 1, 1])):
        seen.clear()
        assert run(suite, "--under", "native", "--filter", "mini_test/All/*", *words, "--repeat", "1") == 0
        assert [len(unit.cases) for unit in seen] == cases


def test_native_runs_are_remembered_of_files_that_the_kind_finds(tmp_path: Path, own_data: Path) -> None:
    """The suite file names none. Each start leaves a line: behind the prefix both files start every time, natively only
    what is not known or has changed."""
    log = tmp_path / "log"
    script = f"#!/bin/sh\necho started >> {log}; echo 1..1; echo ok 1\n"
    write_suite(tmp_path / "s", "kind = 'tap'\n", {"t/a.t": script, "t/b.t": script})
    for changed, natively in ((b"", 2), (b"", 0), (b"# new\n", 1)):
        log.write_bytes(b"")
        (tmp_path / "s/t/b.t").write_bytes(script.encode() + changed)
        assert run(tmp_path / "s", "--repeat", "1", "--under", "env THERE=1") == 0
        assert len(log.read_text().split()) == 2 + natively


def test_a_baseline_from_a_file_and_rows_without_a_case(
    own_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = mini_suite(tmp_path / "mini", {"close_test": "crash at start"})
    (place / "expected.toml").write_text("[[expected]]\ncase = 'mini/no_test/*'\nreason = 'gone'\nruntime = '*'\n")
    assert run(place, "--under", "native", "--repeat", "1", "--out", tmp_path / "r.json") == 0
    assert "expected failures that fit no case (1):\n  mini/no_test/*: gone" in capsys.readouterr().out
    assert run(place, "--under", "native", "--baseline", tmp_path / "r.json") == 0
    assert "0 of 0 pass" in capsys.readouterr().out


def test_a_directory_of_programs_is_a_suite(own_data: Path, tmp_path: Path) -> None:
    place = mini_suite(tmp_path / "mini")
    (place / "suite.toml").unlink()
    (place / "tool").write_text("#!/bin/sh\necho no test")
    (place / "tool").chmod(0o755)
    words = ["--filter", "*/Typed*", "--under", "native", "--repeat", "1", "--out"]
    assert run(place, *words, tmp_path / "r.json") == 0
    assert outcomes(tmp_path / "r.json") == {"mini_test/Typed/0.Works": ("pass", "pass")}


# -- stopped, and gone on with -----------------------------------------------------------------------------------------
FILES = {f"part{number}_test": "" for number in range(6)}
SLOWLY = ["--under", "native", "--repeat", "1", "--jobs", "1"]
SOME = ["--filter", "*/Bad.[CNLA]*", "--filter", "*/Basics.*"]


def begin(husk: Path, data: Path, *words: str | Path, **more: Any) -> subprocess.Popen[str]:
    scratch = data.with_name("scratch")
    scratch.mkdir()
    return subprocess.Popen(
        [husk, "conform", "run", "--quiet", *words],
        env={**os.environ, "HUSK_CONFORM": str(data), "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **more,
    )


def journal_lines(data: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in data.glob("runs/*/journal.jsonl"))


def wait_for_lines(data: Path, count: int) -> None:
    until = time.monotonic() + 60
    while journal_lines(data) < count:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_stopped_run_goes_on_to_the_same_totals(
    husk: Path, own_data: Path, tmp_path: Path, number: signal.Signals
) -> None:
    place = mini_suite(tmp_path / "mini", FILES)
    stopped = begin(husk, own_data, place, *SLOWLY, *SOME)
    wait_for_lines(own_data, 4)
    stopped.send_signal(number)
    _, error = stopped.communicate(timeout=60)
    if number == signal.SIGINT:
        assert stopped.returncode == 130 and "--resume" in error and error.count("\n") == 1
    until = time.monotonic() + 30
    while any((tmp_path / "scratch").iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
    assert list((tmp_path / "scratch").iterdir()) == [] and processes_named(mark(place)) == []
    before = journal_lines(own_data)
    with open(next(own_data.glob("runs/*/journal.jsonl")), "ab") as file:
        file.write(b'{"phase": "run", "half a li')
    assert run(place, *SLOWLY, *SOME, "--resume", "--out", tmp_path / "resumed.json") == 0
    assert run(place, *SLOWLY, *SOME, "--out", tmp_path / "whole.json") == 0
    resumed, whole = outcomes(tmp_path / "resumed.json"), outcomes(tmp_path / "whole.json")
    assert resumed == whole and len(whole) == 6 * 8 and before < 20
    assert Counter(outcome for outcome, _ in whole.values()) == {"pass": 24, "fail": 6, "skip": 12, "crash": 6}
    # It is done: there is nothing more to go on with.
    assert run(place, *SLOWLY, *SOME, "--resume") == 2


def test_programs_that_changed_meanwhile(
    husk: Path, own_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = mini_suite(tmp_path / "mini", FILES)
    stopped = begin(husk, own_data, place, *SLOWLY, *SOME)
    wait_for_lines(own_data, 2)
    stopped.kill()
    stopped.communicate(timeout=60)
    with open(place / "part0_test", "ab") as file:
        file.write(b"another build")
    recorded = journal_lines(own_data)
    assert run(place, *SLOWLY, *SOME, "--resume") == 2
    assert "the programs of mini changed since the run" in capsys.readouterr().err
    assert journal_lines(own_data) == recorded
    assert run(place, *SLOWLY, *SOME) == 0


def test_a_full_disk_is_said_and_loses_nothing(husk: Path, own_data: Path, tmp_path: Path) -> None:
    """A limit on the size of files fails the journal as a full disk does."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (48 << 10, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    place = mini_suite(tmp_path / "mini", FILES)
    words: list[str | Path] = [place, *SLOWLY, "--filter", "*/Bad.PrintsMuch", "--filter", "*/Basics.*"]
    full = begin(husk, own_data, *words, preexec_fn=limit)
    _, error = full.communicate(timeout=120)
    assert full.returncode == 125 and "--resume" in error and error.count("\n") == 1, error
    assert journal_lines(own_data) >= 2
    assert run(*words, "--resume", "--out", tmp_path / "r.json") == 0
    found = Counter(outcome for outcome, _ in outcomes(tmp_path / "r.json").values())
    assert found == {"pass": 6, "fail": 12, "skip": 12}


def test_the_journal_keeps_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reading(case: str) -> Reading:
        return Reading([CaseResult(CaseName("s", "f", case), PASS, output="x" * 100)])

    unit = Unit("s", "googletest", "f", ("f",))
    journal = Journal(tmp_path, {"key": 1})
    with pytest.raises(HuskError, match="another husk"):
        Journal(tmp_path)
    journal.add("run", unit, reading("A"))
    write = os.write
    monkeypatch.setattr(work_journal, "PATIENCE", 0)

    def full(fd: int, content: bytes) -> int:
        if len(content) < 60:
            raise OSError(28, "No space left on device")
        return write(fd, content[:-50])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(HuskError, match="No space left on device; what is recorded stays"):
        journal.add("run", unit, reading("B"))
    monkeypatch.setattr(os, "write", write)
    journal.close()
    again = Journal(tmp_path)
    assert [name.case for name in again.of_phase("run")] == ["A"] and again.header["key"] == 1
    assert again.is_done("run", unit)
    again.close()


# -- mistakes ----------------------------------------------------------------------------------------------------------
def test_mistakes(own_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = mini_suite(tmp_path / "mini")
    other = mini_suite(tmp_path / "other")
    none = tmp_path / "none"
    none.mkdir()
    (none / "suite.toml").write_text("format = 1\nname = 'none'\nkind = 'googletest'\n[[files]]\npath = 'text'\n")
    (none / "text").write_text("no program")
    for words, said in (
        ([tmp_path / "nowhere"], "name a suite file"),
        ([none], "text: no GoogleTest program"),
        ([place, other], "the same name"),
        ([place, "--filter", "x"], "no case fits"),
        ([place, "--resume"], "no stopped run"),
        ([place, "--under", ""], "--under"),
        ([place, "--under", "/no/such", "--repeat", "1", "--filter", "*/Typed*"], "cannot be started"),
        ([place, "--under", "'x"], "quote it"),
        ([place, "--user", "no such"], "no such user"),
        ([place, "--jobs", "0"], "number of threads"),
        ([place, "--out", tmp_path / "no" / "r.json"], "make it first"),
        ([place, "--expected", tmp_path / "no"], "name the list"),
        ([place, "--baseline", place / "suite.toml"], "not a results.json"),
    ):
        assert run(*words) == 2, words
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error

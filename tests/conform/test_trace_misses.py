"""`husk conform trace --misses`: missed cases are run again alone, and the report shows what they called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from husk.cli import main
from husk.conform.matrix import trace_misses as tracing
from husk.conform.matrix.trace_misses import FAILED, LAST, excerpt, trace_misses
from husk.conform.matrix.traces_file import CaseTrace, read_traces, write_traces
from husk.conform.outcomes import FAIL, PASS, CaseName, Judged, RunInfo, RunRecord
from husk.conform.results_file import write_results
from husk.conform.suite_file import Suite
from husk.conform.units import Unit
from husk.sandbox.errors import UsageError

CASES = {"looks": "echo looks; exec /bin/cat /no/such/file", "dies": "kill -SEGV $$", "fine": ":"}


class Shells:
    """One program with several cases, that can run each of them alone."""

    def units(self, suite: Suite, ask: object) -> list[Unit]:
        return [Unit(suite.name, "commands", "program", ("/bin/sh", "-c", "exit 9"), tuple(CASES))]

    def only(self, unit: Unit, cases: tuple[str, ...]) -> Unit:
        return replace(unit, cases=cases, argv=("/bin/sh", "-c", CASES[cases[0]]))


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Suite]:
    monkeypatch.setattr(tracing, "kind", lambda name: Shells())
    monkeypatch.setattr("husk.conform.matrix.trace_suites.kind", lambda name: Shells())
    yield Suite("mini", "commands", tmp_path)


def name(case: str) -> CaseName:
    return CaseName("mini", "program", case)


def record(run: str, **verdicts: str) -> RunRecord:
    cases = [Judged(name(case), "", verdict, verdict) for case, verdict in verdicts.items()]
    info = RunInfo(run, "husk", suites=("mini",), started="2026-11-16T02:30:00Z", ended="2026-11-16T02:31:00Z")
    return RunRecord(info, cases)


def test_what_was_missed_is_traced_alone(suite: Suite, tmp_path: Path) -> None:
    out, told = tmp_path / "traces.json", list[str]()
    missed = record("first", looks=FAIL, dies=FAIL, fine=PASS, gone=FAIL)

    def tell(case: CaseName, ended: str) -> None:
        told.append(f"{case.case}: {ended}")
        assert case in read_traces(out)  # written after each

    done = trace_misses([suite], missed, {}, out, told=tell)
    assert sorted(told) == ["dies: SIGSEGV", "looks: exit 1"] and done.traced == 2
    assert done.traces == read_traces(out) and set(done.traces) == {name("looks"), name("dies")}
    assert any("/no/such/file" in line and "ENOENT" in line for line in done.traces[name("looks")].lines)
    assert done.traces[name("dies")].lines[-1] == "+++ SIGSEGV +++"

    told.clear()
    assert trace_misses([suite], missed, done.traces, out, told=tell).traced == 0 and told == []  # it is known
    again = trace_misses([suite], record("second", looks=FAIL, dies=PASS), done.traces, out, told=tell)
    assert set(again.traces) == {name("looks")} and again.traced == 1  # another run: anew, and no more than it missed
    some = trace_misses([suite], missed, {}, out, most=1)
    assert (some.traced, some.left) == (1, 2)  # `gone` is no case of the suite any more


def test_an_excerpt_has_the_end_and_what_failed() -> None:
    start = ['[1] openat(AT_FDCWD, "/lib", O_RDONLY) = -1 ENOENT'] * 50 + ["[1] write(1, 0x7f, 10)"]
    middle = [f"[1] access({number}) = -1 EACCES" if number % 2 else f"[1] read({number})" for number in range(200)]
    end = [f"[1] close({number})" for number in range(LAST)]
    lines = excerpt([*start, *middle, *end])
    assert lines[-LAST:] == end and not any("/lib" in line for line in lines)
    assert sum("EACCES" in line for line in lines) == FAILED and lines[-LAST - 1] == "[1] access(199) = -1 EACCES"
    assert lines[0] == "… 122 calls …" and "… 1 calls …" in lines
    assert excerpt([]) == [] and excerpt(["[1] exit_group(0)"]) == ["[1] exit_group(0)"]


def test_the_file_comes_back_whole(tmp_path: Path) -> None:
    traces = {name("</script>\udc80"): CaseTrace("run", ("a", "b\x1b"))}
    write_traces(traces, tmp_path / "traces.json")
    assert read_traces(tmp_path / "traces.json") == traces


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 1, "cases": [{}]}', '{"format": 1, "cases": 7}']
)
def test_a_file_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "traces.json").write_text(text)
    with pytest.raises(UsageError):
        read_traces(tmp_path / "traces.json")


def test_the_report_shows_it(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HUSK_CONFORM", str(tmp_path / "data"))
    (tmp_path / "suite.toml").write_text('format = 1\nname = "mini"\nkind = "commands"\n')
    results = tmp_path / "results.json"
    write_results(record("first", looks=FAIL), results)
    assert main(["conform", "trace", str(tmp_path), "--misses", str(results), "--quiet"]) == 0
    assert "1 misses of first have a trace (1 traced now)" in capsys.readouterr().out
    assert main(["conform", "report", str(results), "--out", str(tmp_path / "out")]) == 0
    assert "/no/such/file" in (tmp_path / "out" / "report.html").read_text()

"""`husk conform trace`, `uses` and `matrix`: what miniature programs call, measured once and kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from husk.cli import main
from husk.conform.matrix import trace_suites as tracing
from husk.conform.matrix.calls_file import Calls, TracedFile, read_calls
from husk.conform.matrix.interpreters import INTERPRETERS, Interpreter
from husk.conform.matrix.measure_uses import measure_uses
from husk.conform.matrix.trace_suites import trace_file, trace_suites
from husk.conform.matrix.uses_file import ABSENT, FAILS, WORKS, Use, Uses
from husk.conform.suite_file import Suite
from husk.conform.units import Ended, Reading, Unit
from husk.sandbox.errors import UsageError

SCRIPTS = {
    "links": "ln -s a b; ln -s c d; rm b d",
    "waits": "mkdir x; exec sleep 60",
    "plain": ":",
    "fails": "exit 3",
}


class Shells:
    """A kind of suite: each file is a script of /bin/sh."""

    def units(self, suite: Suite, ask: object) -> list[Unit]:
        return [
            Unit(suite.name, "commands", name, ("/bin/sh", "-c", (suite.place / name).read_text()))
            for name in sorted(path.name for path in suite.place.iterdir())
        ]

    def read(self, unit: Unit, ended: Ended) -> Reading:
        raise AssertionError("nothing is judged here")


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Suite]:
    place = tmp_path / "suite"
    place.mkdir()
    for name, text in SCRIPTS.items():
        (place / name).write_text(text)
    monkeypatch.setattr(tracing, "kind", lambda name: Shells())
    yield Suite("mini", "commands", place, "Miniature", "ours 1")


def test_a_suite_is_traced_once(suite: Suite, tmp_path: Path) -> None:
    out, seen = tmp_path / "calls.json", list[str]()

    def told(suite: str, file: str, one: TracedFile) -> None:
        seen.append(file)
        assert file in read_calls(out).suites["mini"].files  # written after each

    calls = trace_suites([suite], Calls(), out, seconds=2.0, jobs=2, told=told)
    assert sorted(seen) == sorted(SCRIPTS) and read_calls(out) == calls
    files = calls.suites["mini"].files
    assert {name: one.ended for name, one in files.items()} == {
        "fails": "exit 3", "links": "exit 0", "plain": "exit 0", "waits": "after 2 s",
    }  # fmt: skip
    assert files["waits"].calls["mkdir"] == 1  # what it did until then
    assert calls.exercising()["symlink" if "symlink" in files["links"].calls else "symlinkat"] == [("mini", "links")]
    assert "execve" in files["plain"].calls and ("mini", "plain") not in calls.exercising().get("execve", [])

    seen.clear()
    (suite.place / "plain").write_text("cd /")
    (suite.place / "fails").unlink()
    again = trace_suites([suite], read_calls(out), out, seconds=2.0, told=told)
    assert seen == ["plain"]  # what has changed
    assert sorted(again.suites["mini"].files) == ["links", "plain", "waits"]


def test_a_program_that_cannot_be_run() -> None:
    unit = Unit("mini", "googletest", "none", ("/no/such/program",))
    assert trace_file([unit], 5.0, "d").ended.startswith("not run: ")
    skipped = replace(unit, settings=(("skip", "needs a camera"),))
    assert trace_file([skipped], 5.0, "d").ended == "not run: needs a camera"


def test_many_cases_are_run_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut(Shells):
        def only(self, unit: Unit, cases: tuple[str, ...]) -> Unit:
            return replace(unit, cases=cases, argv=("/bin/sh", "-c", f"echo {len(cases)}"))

    monkeypatch.setattr(tracing, "kind", lambda name: Cut())
    unit = Unit("mini", "commands", "a", (), tuple(f"c{n}" for n in range(11)))
    assert [part.argv[-1] for part in tracing._parts(unit)] == ["echo 3", "echo 3", "echo 3", "echo 2"]
    assert tracing._parts(replace(unit, cases=unit.cases[:10])) == [replace(unit, cases=unit.cases[:10])]


def test_skills_are_no_suite_to_trace(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="husk conform uses"):
        trace_suites([replace(suite, kind="skills")], Calls(), tmp_path / "calls.json")


# -- uses ------------------------------------------------------------------------------------------------------
def interpreter(name: str, program: str, *scripts: str) -> Interpreter:
    return Interpreter(name, program, "-c", ("sh", "-c", "echo version 1"), tuple((text, text) for text in scripts))


SHELLS = (
    interpreter("good", "sh", "echo ok"),
    interpreter("silent", "sh", "echo ok", "echo no"),
    interpreter("none", "no-such-interpreter", "echo ok"),
)
SKILL = """---
name: tiny
description: Says a word.
---
"""


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    place = tmp_path / "skills" / "tiny"
    (place / "scripts").mkdir(parents=True)
    (place / "SKILL.md").write_text(SKILL)
    (place / "scripts" / "say.sh").write_text("#!/bin/sh\nmkdir /out/made && echo word\n")
    (place / "cases.toml").write_text('[[case]]\nname = "says"\nscript = "say.sh"\nstdout = "word\\n"\n')
    return place.parent


def test_uses_are_measured_once(skills: Path) -> None:
    told: list[tuple[str, bool]] = []

    def note(use: Use, old: bool) -> None:
        told.append((use.name, old))

    first = measure_uses([skills], Uses(), "2026-01-01", interpreters=SHELLS, told=note)
    found = {one.name: one for one in first.uses}
    assert {name: one.outcome for name, one in found.items()} == {
        "good": WORKS, "silent": FAILS, "none": ABSENT, "tiny": WORKS,
    }  # fmt: skip
    assert found["silent"].why == "echo no: exit code 0" and found["good"].version == "version 1"
    assert "execve" in found["good"].calls and "mkdir" in found["tiny"].calls and not found["none"].calls
    assert found["tiny"].ran == ("says",)

    told.clear()
    (skills / "tiny" / "scripts" / "say.sh").write_text("#!/bin/sh\necho words\n")
    second = measure_uses([skills], first, "2026-01-02", interpreters=SHELLS, told=note)
    assert told == [("good", True), ("silent", True), ("none", False), ("tiny", False)]
    assert second.uses[-1].outcome == FAILS and second.date == "2026-01-02"


def test_the_scripts_of_the_interpreters_say_ok() -> None:
    assert [one.name for one in INTERPRETERS] == ["sh", "bash", "python", "node"]
    assert all(text == "" or "ok" in text for one in INTERPRETERS for _, text in one.scripts)


# -- the command -----------------------------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_CONFORM", str(tmp_path / "conform"))


def test_the_matrix_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "matrix", "openat", "read"]) == 0
    text = capsys.readouterr().out
    assert "not traced: " in text and "not measured: " in text and text.index("openat") < text.index("read ")
    assert main(["conform", "matrix", "--json", "openat"]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert (row["call"], row["way"], row["files"], row["skills"]) == ("openat", "virtual", None, None)
    assert main(["conform", "matrix", "--markdown", "openat"]) == 0
    assert "| `openat` | virtual" in capsys.readouterr().out
    assert main(["conform", "matrix", "--priority", "high"]) == 2
    assert "husk conform uses" in capsys.readouterr().err


def test_a_report_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "report", "--out", str(tmp_path / "out")]) == 2
    assert "there is no run yet" in capsys.readouterr().err and not (tmp_path / "out").exists()

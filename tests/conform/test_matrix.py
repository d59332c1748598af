"""The coverage matrix: which files exercise a call, how much it matters, and what stands where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from husk.abi.registry import ROWS
from husk.conform.matrix.calls_file import Calls, TracedFile, TracedSuite, read_calls, write_calls
from husk.conform.matrix.coverage import Row, coverage
from husk.conform.matrix.priority import CRITICAL, HIGH, LOW, MEDIUM, NOT_MEASURED, priority
from husk.conform.matrix.uses_file import ABSENT, INTERPRETER, SKILL, WORKS, Use, Uses, read_uses, write_uses
from husk.conform.outcomes import CRASH, FAIL, NOT_NATIVE, PASS, SKIP, CaseName, Judged, RunInfo, RunRecord
from husk.sandbox.errors import UsageError

START = {"execve": 1, "mmap": 9, "openat": 3, "write": 1}


def traced(**more: int) -> TracedFile:
    return TracedFile("0", "exit 0", START | {call: START.get(call, 0) + count for call, count in more.items()})


CALLS = Calls(
    "9.9",
    {
        "mini": TracedSuite(
            "Miniature",
            "our own",
            {
                "bin/pipes": traced(pipe2=50, write=2),
                "bin/pipe2_test": traced(pipe2=1, write=9, mmap=1),
                "bin/plain": traced(),
                "bin/broken": TracedFile("0", "not run: no program"),
                "bin/waits": TracedFile("0", "after 20 s", {"execve": 1}),
            },
        )
    },
)


def record(runtime: str, **verdicts: str) -> RunRecord:
    """pipes_one="pass" is the case `one` of bin/pipes."""
    cases = []
    for name, verdict in verdicts.items():
        file, _, case = name.rpartition("_")
        outcome = FAIL if verdict == NOT_NATIVE else verdict
        cases.append(Judged(CaseName("mini", f"bin/{file}", case), "pipes", verdict, outcome))
    return RunRecord(RunInfo(f"20260101-000000-{runtime}", runtime), cases)


def uses(interpreters: list[str], skills: list[str], *absent: str) -> Uses:
    """A use for each text: the calls that it makes."""
    found = [
        Use(INTERPRETER, f"i{n}", WORKS, calls=dict.fromkeys(text.split(), 1)) for n, text in enumerate(interpreters)
    ]
    found += [Use(SKILL, f"s{n}", WORKS, calls=dict.fromkeys(text.split(), 1)) for n, text in enumerate(skills)]
    return Uses(uses=(*found, *(Use(INTERPRETER, name, ABSENT) for name in absent)))


def row(rows: list[Row], call: str) -> Row:
    return next(one for one in rows if one.call == call)


def test_every_call_has_a_row_and_says_what_is_not_known() -> None:
    rows = coverage([], None, None)
    assert sorted(one.number for one in rows) == sorted(ROWS)
    assert {one.priority for one in rows} == {NOT_MEASURED}
    assert all(one.files is None and one.skills is None and one.interpreters is None for one in rows)
    assert row(rows, "openat").way == "virtual" and row(rows, "read").way == "native"
    refused = row(rows, "io_uring_setup")
    assert refused.way == "refused" and refused.note.startswith("ENOSYS: ")
    assert {one.way for one in rows} == {"native", "virtual", "refused"}


def test_what_every_file_does_is_no_exercise() -> None:
    exercising = CALLS.exercising()
    assert "execve" not in exercising and "openat" not in exercising  # plain makes them as often: they are the start
    assert exercising["write"] == [("mini", "bin/pipe2_test"), ("mini", "bin/pipes")]  # by its share of their calls
    assert exercising["pipe2"] == [("mini", "bin/pipe2_test"), ("mini", "bin/pipes")]  # named after it: first


def test_a_start_for_each_part_is_no_exercise() -> None:
    twice = {call: 2 * count for call, count in START.items()} | {"pipe2": 1}
    files = CALLS.suites["mini"].files | {"bin/parts": TracedFile("0", "exit 0", twice, runs=2)}
    found = Calls("", {"mini": TracedSuite(files=files)}).exercising()
    assert "execve" not in found and ("mini", "bin/parts") in found["pipe2"]
    assert ("mini", "bin/parts") not in found["mmap"]


def test_few_files_have_nothing_in_common() -> None:
    one = Calls("", {"mini": TracedSuite(files={"a": traced()})})
    assert one.exercising()["execve"] == [("mini", "a")]


def test_cases_of_the_files_that_exercise_a_call() -> None:
    first = record(
        "husk", pipes_a=PASS, pipes_b=FAIL, pipes_c=SKIP, pipe2_test_d=CRASH, pipe2_test_e=NOT_NATIVE, plain_x=FAIL
    )
    second = record("husk-bare", pipes_a=PASS, plain_x=PASS)
    found = row(coverage([first, second], CALLS, None), "pipe2")
    assert (found.passed, found.total, found.missed) == (1, 3, 2)
    assert found.by_runtime == (("husk", 1, 3), ("husk-bare", 1, 1))
    unexercised = row(coverage([first], CALLS, None), "execve")
    assert unexercised.files == () and (unexercised.passed, unexercised.total) == (0, 0)


def test_runs_of_one_runtime_stand_in_one_column() -> None:
    first, second = record("husk", pipes_a=PASS, pipes_b=FAIL), record("husk", pipe2_test_a=PASS, pipes_a=FAIL)
    found = row(coverage([first, second], CALLS, None), "pipe2")
    assert found.by_runtime == (("husk", 2, 3),)  # of a file that both ran, the first counts


@pytest.mark.parametrize(
    ("interpreters", "skills", "wanted"),
    [
        (["read x", "read y"], [], CRITICAL),
        (["read", "read", "x"], [], HIGH),
        (["x", "y"], ["read", "read", *["x"] * 6], HIGH),
        (["x", "y"], ["read", "read", *["x"] * 7], MEDIUM),
        (["x", "y"], ["read", "x"], MEDIUM),  # half of the skills, but one only
        (["read", "x"], [], MEDIUM),
        (["read"], [], MEDIUM),  # every interpreter, but there is one only
        (["x", "y"], ["x"], LOW),
        ([], [], NOT_MEASURED),
    ],
)  # fmt: skip
def test_the_rule_of_priorities(interpreters: list[str], skills: list[str], wanted: str) -> None:
    assert priority("read", uses(interpreters, skills, "node")) == wanted


def test_rows_stand_by_priority() -> None:
    rows = coverage([], None, uses(["read write", "read write mmap"], ["socket"]))
    assert [one.call for one in rows[:2]] == ["read", "write"]
    assert {one.call for one in rows if one.priority == MEDIUM} == {"mmap", "socket"}
    assert row(rows, "socket").skills == ("s0",) and row(rows, "socket").interpreters == ()
    assert row(rows, "socket").used and not row(rows, "accept").used


def test_calls_json_comes_back_whole(tmp_path: Path) -> None:
    write_calls(CALLS, tmp_path / "calls.json")
    assert read_calls(tmp_path / "calls.json") == CALLS
    first = (tmp_path / "calls.json").read_bytes()
    write_calls(read_calls(tmp_path / "calls.json"), tmp_path / "calls.json")
    assert (tmp_path / "calls.json").read_bytes() == first


def test_uses_json_comes_back_whole(tmp_path: Path) -> None:
    wanted = replace(uses(["read"], ["write"], "node"), husk="9.9", kernel="6.1", setting="bare", date="2026-01-01")
    write_uses(wanted, tmp_path / "uses.json")
    assert read_uses(tmp_path / "uses.json") == wanted


BAD_COUNT = (
    '{"format": 1, "husk": "", "suites": {"a": {"title": "", "source": "", "files":'
    ' {"f": {"digest": "", "ended": "", "seconds": 0, "runs": 1, "calls": {"read": -1}}}}}}'
)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 2}', '{"format": 1, "husk": "", "suites": {"a": 1}}', "[" * 100_000,
     BAD_COUNT],
)  # fmt: skip
def test_a_file_that_is_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    for read in (read_calls, read_uses):
        with pytest.raises(UsageError, match=r"x\.json: "):
            read(path)
    with pytest.raises(UsageError):
        read_calls(tmp_path / "none.json")

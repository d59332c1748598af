"""What a GoogleTest program prints, however it ends, becomes results of its cases, each exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from husk.conform.outcomes import CRASH, FAIL, HANG, PASS, SKIP
from husk.conform.suite_file import Suite, SuiteFile
from husk.conform.suites.googletest import listed_cases, only, read, units
from husk.conform.units import Ended, Reading, Unit
from husk.sandbox.errors import UsageError

UNIT = Unit("s", "googletest", "f", ("/f", "--gtest_filter="), ("A.one", "A.two", "B.three"), timeout=10.0)


def ran(*lines: str) -> bytes:
    return "\n".join(["[==========] Running 3 tests from 2 test suites.", *lines, ""]).encode()


ONE = ("[ RUN      ] A.one", "[       OK ] A.one (3 ms)")
TWO = ("[ RUN      ] A.two", "x.cc:7: Failure", "Expected: 1", "  Actual: 2", "", "[  FAILED  ] A.two (2 ms)")
THREE = ("[ RUN      ] B.three", "x.cc:9: Skipped", "no such device", "[  SKIPPED ] B.three (0 ms)")
ALL = ("[==========] 3 tests from 2 test suites ran. (9 ms total)", "[  FAILED  ] A.two")


def ended(stdout: bytes, code: int = 0, *, seconds: float = 1.0, stderr: bytes = b"", **more: object) -> Ended:
    return Ended(code, bool(more.pop("timed_out", False)), seconds, stdout, stderr, **more)  # type: ignore[arg-type]


def outcomes(reading: Reading) -> dict[str, str]:
    return {one.name.case: one.outcome for one in reading.results}


def left(reading: Reading) -> tuple[str, ...]:
    return reading.rest.cases if reading.rest else ()


def test_listing() -> None:
    text = (
        "Running main() from x.cc\nPlain.\n  Works\n  DISABLED_Not\nTyped/0.  # TypeParam = int\n  Works\n"
        "In/Params.\n  Works/0  # GetParam() = (1, \"a.\")\n  Works/name  # GetParam() = 3\nnoise\n  indented noise\n"
    )
    assert listed_cases(text) == [
        "Plain.Works", "Plain.DISABLED_Not", "Typed/0.Works", "In/Params.Works/0", "In/Params.Works/name"
    ]  # fmt: skip


def test_a_filter_names_the_cases_that_are_not_disabled() -> None:
    assert only(UNIT, ["A.one", "X.DISABLED_y"]).argv[-1] == "--gtest_filter=A.one"
    assert only(UNIT, ["DISABLED_X.y"]).argv[-1] == "--gtest_filter=-*"


def test_all_ran() -> None:
    reading = read(UNIT, ended(ran(*ONE, *TWO, *THREE, *ALL), 1))
    assert outcomes(reading) == {"A.one": PASS, "A.two": FAIL, "B.three": SKIP} and reading.rest is None
    one, two, three = reading.results
    assert (one.seconds, two.why, three.why) == (0.003, "x.cc:7: Expected: 1 Actual: 2", "x.cc:9: no such device")
    assert "Actual: 2" in two.output and one.output == ""


def test_a_crash_is_the_running_case_and_the_rest_runs_next() -> None:
    reading = read(UNIT, ended(ran(*ONE, "[ RUN      ] A.two", "half a li"), -11, stderr=b"oops\n"))
    assert outcomes(reading) == {"A.one": PASS, "A.two": CRASH} and left(reading) == ("B.three",)
    crash = reading.results[1]
    assert crash.why == "SIGSEGV in this case" and "half a li" in crash.output and "oops" in crash.output
    assert reading.rest and reading.rest.argv[-1] == "--gtest_filter=B.three"


def test_leaving_in_the_middle_is_no_pass() -> None:
    reading = read(UNIT, ended(ran(*ONE, "[ RUN      ] A.two"), 0))
    assert outcomes(reading)["A.two"] == CRASH and left(reading) == ("B.three",)


def test_a_hang_is_the_running_case() -> None:
    reading = read(UNIT, ended(ran(*ONE, "[ RUN      ] A.two"), -9, seconds=10.0, timed_out=True))
    assert outcomes(reading) == {"A.one": PASS, "A.two": HANG} and left(reading) == ("B.three",)


def test_a_case_that_was_left_no_time_did_not_hang() -> None:
    slow = ("[ RUN      ] A.one", "[       OK ] A.one (9000 ms)")
    reading = read(UNIT, ended(ran(*slow, "[ RUN      ] A.two"), -9, seconds=10.0, timed_out=True))
    assert outcomes(reading) == {"A.one": PASS} and left(reading) == ("A.two", "B.three")


@pytest.mark.parametrize(
    ("code", "timed_out", "outcome", "why"),
    [(-11, False, CRASH, "SIGSEGV"), (-9, True, HANG, "did not end"), (125, False, FAIL, "exit code 125")],
)
def test_an_end_before_the_first_case_is_the_end_of_all(code: int, timed_out: bool, outcome: str, why: str) -> None:
    reading = read(UNIT, ended(b"", code, timed_out=timed_out, stderr=b"husk: no room\n"))
    assert set(outcomes(reading).values()) == {outcome} and len(reading.results) == 3 and reading.rest is None
    assert all(why in one.why for one in reading.results)


def test_an_end_between_cases_costs_one_case() -> None:
    reading = read(UNIT, ended(ran(*ONE, "[----------] 1 test from A"), -11))
    assert outcomes(reading) == {"A.one": PASS, "A.two": CRASH} and left(reading) == ("B.three",)


def test_a_crash_at_exit_is_the_last_case() -> None:
    three = ("[ RUN      ] B.three", "[       OK ] B.three (0 ms)")
    two = ("[ RUN      ] A.two", "[       OK ] A.two (0 ms)")
    reading = read(UNIT, ended(ran(*ONE, *two, *three, ALL[0]), -6))
    assert outcomes(reading) == {"A.one": PASS, "A.two": PASS, "B.three": CRASH}
    assert reading.results[-1].why == "SIGABRT after the last case" and reading.rest is None
    # GoogleTest aborts where it cannot write its JSON file: the sandbox, not the case.
    silent = read(UNIT, ended(ran(*ONE, *two, *three, ALL[0]), -6, stderr=b'Unable to open file "/x/results.json"\n'))
    assert set(outcomes(silent).values()) == {PASS}


def test_a_case_that_the_program_lost() -> None:
    reading = read(UNIT, ended(ran(*ONE, *TWO, *ALL), 1))
    assert outcomes(reading)["B.three"] == FAIL and reading.rest is None


def test_lines_that_were_cut_are_asked_again() -> None:
    reading = read(UNIT, ended(ran(*ONE, *ALL), 0, cut=True))
    assert outcomes(reading) == {"A.one": PASS} and left(reading) == ("A.two", "B.three")


def json_file(*cases: tuple[str, str, str]) -> bytes:
    def case(name: str, result: str, failure: str) -> dict[str, object]:
        row: dict[str, object] = {"name": name, "status": "RUN", "result": result, "time": "0.5s"}
        return row | ({"failures": [{"failure": failure}]} if failure else {})

    suites = [{"name": "A" if name != "three" else "B", "testsuite": [case(name, *rest)]} for name, *rest in cases]
    return json.dumps({"testsuites": suites}).encode()


def test_the_json_file_speaks_for_a_program_that_closed_its_output() -> None:
    content = json_file(("one", "COMPLETED", ""), ("two", "COMPLETED", "x.cc:7\nno"), ("three", "SKIPPED", ""))
    reading = read(UNIT, ended(b"", 1, files={"results.json": content}))
    assert outcomes(reading) == {"A.one": PASS, "A.two": FAIL, "B.three": SKIP}
    assert reading.results[1].why == "x.cc:7 no" and reading.results[0].seconds == 0.5


def test_what_fails_outside_any_case_is_no_case() -> None:
    odd = {"name": "NonTestSuiteFailure", "testsuite": [{"name": "", "status": "RUN", "failures": [{"failure": "x"}]}]}
    content = json.dumps({"testsuites": [odd]}).encode()
    reading = read(UNIT, ended(ran(*ONE, *TWO, *THREE, *ALL), 1, files={"results.json": content}))
    assert set(outcomes(reading)) == set(UNIT.cases)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"testsuites": [1]}', b'{"testsuites": [{}]}', b"[" * 100_000])
def test_malformed_json_leaves_the_text(content: bytes) -> None:
    reading = read(UNIT, ended(ran(*ONE, *TWO, *THREE, *ALL), 1, files={"results.json": content}))
    assert outcomes(reading) == {"A.one": PASS, "A.two": FAIL, "B.three": SKIP}


# -- which units a suite has -------------------------------------------------------------------------------------------
def suite(place: Path, *files: SuiteFile) -> Suite:
    return Suite("s", "googletest", place, files=files)


def says(stdout: bytes, code: int = 0) -> object:
    return lambda unit: ended(stdout if "--gtest_list_tests" in unit.argv else b"", code)


@pytest.mark.parametrize(("stdout", "code"), [(b"hello\n", 0), (b"", 0), (b"", 1), (b"A.\n  one\n", 1)])
def test_a_program_that_is_no_test(tmp_path: Path, stdout: bytes, code: int) -> None:
    with pytest.raises(UsageError, match="f: no GoogleTest program"):
        units(suite(tmp_path, SuiteFile("f")), says(stdout, code))  # type: ignore[arg-type]


def test_a_suite_without_tests(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("no program")
    with pytest.raises(UsageError, match="'s' has no tests"):
        units(suite(tmp_path), says(b"A.\n  one\n"))  # type: ignore[arg-type]


def test_programs_are_found_where_none_is_listed(tmp_path: Path) -> None:
    for name, mode in (("one_test", 0o755), ("two_test", 0o755), ("README", 0o644)):
        (tmp_path / name).touch(mode)
    found = units(suite(tmp_path), says(b"A.\n  one\n"))  # type: ignore[arg-type]
    assert [(unit.file, unit.cases) for unit in found] == [("one_test", ("A.one",)), ("two_test", ("A.one",))]


def test_a_program_to_be_skipped_need_not_be_one(tmp_path: Path) -> None:
    found = units(suite(tmp_path, SuiteFile("f", skip="needs a GPU")), says(b"", 1))  # type: ignore[arg-type]
    assert found[0].cases == ("*",) and found[0].setting("skip") == "needs a GPU"

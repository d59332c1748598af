"""Verdicts follow from native outcomes and the list of expected failures; units are cut into equal pieces."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from husk.conform.execute.shards import MOST_CASES, MOST_LETTERS, Filter, cut, spread
from husk.conform.judge.expected import Expected, ExpectedFailure, read_expected
from husk.conform.judge.native_baseline import (
    Baseline,
    baseline_path,
    file_digests,
    from_record,
    load_baseline,
    save_baseline,
)
from husk.conform.judge.verdicts import judge, not_reached, verdict
from husk.conform.outcomes import CRASH, FAIL, FLAKY, NOT_NATIVE, PASS, SKIP, CaseName, CaseResult, RunInfo, RunRecord
from husk.conform.suite_file import Suite, SuiteFile
from husk.conform.suites import googletest
from husk.conform.units import Unit
from husk.sandbox.errors import UsageError


@pytest.mark.parametrize(
    ("outcome", "native", "expected"),
    [
        (PASS, [PASS, PASS], PASS),
        (CRASH, [PASS], CRASH),
        (SKIP, [PASS], FAIL),
        (PASS, [PASS, FAIL], FLAKY),
        (FAIL, [SKIP, PASS], FLAKY),
        (PASS, [FAIL], NOT_NATIVE),
        (SKIP, [SKIP], SKIP),
        (PASS, [SKIP], NOT_NATIVE),
        (PASS, [], NOT_NATIVE),
    ],
)
def test_verdicts(outcome: str, native: list[str], expected: str) -> None:
    assert verdict(outcome, native) == expected


def name(case: str, file: str = "f") -> CaseName:
    return CaseName("s", file, case)


def test_judging(tmp_path: Path) -> None:
    (tmp_path / "expected.toml").write_text(
        "[[expected]]\ncase = 's/f/A.*'\nreason = 'why'\ndesign = 'docs/x.md'\nby_design = true\n"
        "[[expected]]\ncase = 's/f/B'\nreason = 'elsewhere'\nruntime = 'husk-bare'\n"
        "[[expected]]\ncase = 's/f/D.*'\nreason = 'load'\nsometimes = true\n"
        "[[expected]]\ncase = 's/g/*'\nreason = 'gone'\n"
    )
    expected = read_expected(tmp_path / "expected.toml")
    baseline = Baseline()
    cases = ["A.miss", "A.pass", "B", "C", "D.miss", "D.pass", "lost"]
    baseline.add([CaseResult(name(case), PASS) for case in cases])
    baseline.add([CaseResult(name("C"), FAIL)])
    outcomes = (FAIL, PASS, FAIL, PASS, FAIL, PASS)  # "lost" has none
    results = [CaseResult(name(case), outcome) for case, outcome in zip(cases, outcomes, strict=False)]
    results += not_reached([name("lost"), name("C")], baseline)
    suites = {"s": Suite("s", "tap", tmp_path)}
    found = {one.name.case: one for one in judge(results, baseline, expected, "husk", suites)}
    assert [found[case].verdict for case in cases] == [FAIL, PASS, FAIL, FLAKY, FAIL, PASS, FAIL]
    assert found["A.miss"].expected == "why (docs/x.md)" and found["A.miss"].by_design
    assert found["A.pass"].unexpected_pass and not found["A.pass"].by_design
    assert found["D.miss"].expected == "load" and not found["D.pass"].unexpected_pass
    assert found["B"].unexpected_miss and found["lost"].unexpected_miss
    assert [row.case for row in expected.unused([*map(name, cases)], "husk")] == ["s/g/*"]
    assert [row.case for row in expected.unused([*map(name, cases)], "husk-bare")] == ["s/g/*"]
    assert expected.unused([], "native") == [] and expected.find(name("A.miss"), "native") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "not a list of expected failures"),
        ("[[expected]]\ncase = 'x'", "row 1: a row needs `case`"),
        ("[[expected]]\ncase = 'x'\nreason = 3", "`reason` must be a text"),
        ("[[expected]]\ncase = 'x'\nreason = 'y'\nby_design = 'no'", "true or false"),
        ("[[expected]]\nkase = 'x'", "no key 'kase'"),
        ("[[expectd]]\ncase = 'x'", "rows alone"),
        ("format = 2", "another husk"),
    ],
)
def test_no_list_of_expected_failures(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "e.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_expected(tmp_path / "e.toml")


def test_a_baseline_is_remembered_for_programs_that_did_not_change(tmp_path: Path) -> None:
    suite = Suite("s", "googletest", tmp_path, files=(SuiteFile("f"), SuiteFile("g")))
    (tmp_path / "f").write_text("1")
    (tmp_path / "g").write_text("1")
    path = baseline_path(tmp_path, suite, 0)
    baseline = Baseline()
    baseline.add([CaseResult(name("A"), PASS, 0.5), CaseResult(name("B", "g"), FAIL)])
    baseline.add([CaseResult(name("A"), PASS, 1.5)])
    save_baseline(path, "s", file_digests(suite), baseline)
    again = load_baseline(path, "s", file_digests(suite))
    assert again.outcomes == baseline.outcomes and again.seconds[name("A")] == 1.5
    (tmp_path / "g").write_text("2")
    changed = load_baseline(path, "s", file_digests(suite))
    assert list(changed.outcomes) == [name("A")]
    # A run of some files keeps what is known of the others.
    save_baseline(path, "s", file_digests(suite), Baseline({name("B", "g"): [PASS]}))
    assert load_baseline(path, "s", file_digests(suite)).outcomes == {name("A"): [PASS, PASS], name("B", "g"): [PASS]}
    for damage in (b"", b"{", b"[]", b'{"format": 1, "files": {"f": 3}}'):
        path.write_bytes(damage)
        assert load_baseline(path, "s", file_digests(suite)) == Baseline()


def test_a_native_record_is_a_baseline(tmp_path: Path) -> None:
    results = [CaseResult(name("A"), PASS), CaseResult(name("B"), PASS)]
    baseline = Baseline({name("A"): [PASS], name("B"): [FAIL, PASS]})
    cases = judge(results, baseline, Expected(), "native", {"s": Suite("s", "tap", tmp_path)})
    again = from_record(RunRecord(RunInfo("x", "native"), cases))
    assert [verdict(PASS, again.outcomes[name(case)]) for case in "AB"] == [PASS, FLAKY]


def test_a_row_holds_for_husk_unless_it_says_more() -> None:
    row = ExpectedFailure("x", "y")
    assert row.holds_for("husk") and row.holds_for("husk-bare") and not row.holds_for("bwrap")


# -- pieces ------------------------------------------------------------------------------------------------------------
def unit(cases: list[str]) -> Unit:
    return Unit("s", "googletest", "f", ("f", "--gtest_filter="), tuple(cases))


def test_pieces_are_balanced() -> None:
    cases = [f"A.{number}" for number in range(MOST_CASES * 5 // 2)]
    pieces = cut(unit(cases), googletest.only, {})
    assert [case for piece in pieces for case in piece.cases] == cases
    sizes = [len(piece.cases) for piece in pieces]
    assert max(sizes) <= MOST_CASES and max(sizes) - min(sizes[:-1]) <= 1
    assert cut(unit(cases), None, {}) == [unit(cases)] and len(cut(unit(cases[:9]), googletest.only, {})) == 1


def test_long_cases_and_long_names_make_small_pieces() -> None:
    cases = [f"A.{number}" for number in range(10)]
    assert len(cut(unit(cases), googletest.only, {name("A.3"): 30.0, name("A.7"): 30.0})) >= 4
    long = [f"A.{number}{'x' * 5000}" for number in range(30)]
    assert all(len(piece.argv[-1]) < MOST_LETTERS + 6000 for piece in cut(unit(long), googletest.only, {}))


def test_the_order_spreads_files_and_long_units() -> None:
    heavy = [unit([f"A.{number}"]) for number in range(4)]
    light = [Unit("s", "googletest", f"g{number}", ("g",), ("B",)) for number in range(8)]
    order = [one.file for one in spread([*heavy, *light], {name(f"A.{number}"): 30.0 for number in range(4)})]
    assert sorted(order) == ["f"] * 4 + [f"g{number}" for number in range(8)]
    places = [at for at, file in enumerate(order) if file == "f"]
    assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(places)) and places[-1] < 10
    assert [file for file in order if file != "f"] == [f"g{number}" for number in range(8)]


def test_filters() -> None:
    some = Filter(["f/A.*"])
    kept = some.applied(unit(["A.1", "B.1"]), googletest.only)
    assert kept and kept.cases == ("A.1",) and some.applied(unit(["B.1"]), googletest.only) is None
    assert Filter(["s/f/B*"]).fits(name("B.1")) and Filter([]).fits(name("x"))
    assert some.applied(unit([]), None) == unit([])

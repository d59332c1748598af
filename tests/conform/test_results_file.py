"""results.json can be read back, and nothing else is taken for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from husk.conform.outcomes import CRASH, FAIL, NOT_NATIVE, PASS, SKIP, CaseName, Judged, RunInfo, RunRecord, score
from husk.conform.results_file import as_document, read_results, write_results
from husk.conform.suite_file import read_suite
from husk.sandbox.errors import UsageError


def record() -> RunRecord:
    def case(name: str, verdict: str, **more: object) -> Judged:
        outcome = FAIL if verdict == NOT_NATIVE else verdict
        return Judged(CaseName("mini", "open_test", name), "files", verdict, outcome, **more)  # type: ignore[arg-type]

    cases = [
        case("A.one", PASS, seconds=0.25),
        case("A.two", FAIL, why="Expected equality", output="line\n"),
        case("A.three", CRASH, why="SIGSEGV", expected="refused", by_design=True),
        case("A.four", SKIP),
        case("A.five", NOT_NATIVE),
    ]
    return RunRecord(RunInfo("20260101-000000-husk", "husk", suites=("mini",)), cases)


def test_a_record_comes_back(tmp_path: Path) -> None:
    write_results(record(), tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == record()


def test_the_score_counts_what_passes_natively() -> None:
    total = score(record().cases)
    assert (total.passed, total.counted, total.expected, total.by_design) == (1, 3, 1, 1)
    assert total.share == pytest.approx(1 / 3) and total.share_but_design == pytest.approx(1 / 2)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 9}', '{"format": 1, "run": {}, "cases": [{}]}'])
def test_no_results_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"results\.json"):
        read_results(path)


@pytest.mark.parametrize(("at", "value"), [
    (("run", "started"), 7), (("run", "jobs"), "two"), (("run", "whole"), 1), (("run", "jobs"), True),
    (("run", "suites"), 7), (("cases", 0, "seconds"), "long"), (("cases", 1, "why"), ["x"]),
    (("cases", 2, "by_design"), "yes"), (("cases", 0, "verdict"), "good"),
])  # fmt: skip
def test_values_of_another_type(tmp_path: Path, at: tuple[Any, ...], value: object) -> None:
    document = as_document(record())
    table: Any = document
    for key in at[:-1]:
        table = table[key]
    table[at[-1]] = value
    (tmp_path / "results.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"not a results\.json"):
        read_results(tmp_path / "results.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "format = 1"),
        ("format = 1\nkind = 'novel'\nname = 'x'", "kind = 'novel'"),
        ("format = 1\nkind = 'tap'", "name"),
        ("format = 1\nkind = 'tap'\nname = 'a/b'", "slash"),
        ("format = 1\nkind = 'tap'\nname = 'x'\ncolour = 1", "no key 'colour'"),
        ("format = 1\nkind = 'tap'\nname = 'x'\ntimeout = -1", "timeout"),
        ("format = 1\nkind = 'tap'\nname = 'x'\n[[files]]\nargs = []", "path"),
        ("format = 1\nkind = 'tap'\nname = 'x'\nfiles = 3", "files"),
        ("format = [", "not a suite file"),
    ],
)
def test_no_suite_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "suite.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_suite(tmp_path)


def test_families_come_from_the_file_or_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(
        "format = 1\nname = 'x'\nkind = 'googletest'\n[families]\n'sock*' = 'sockets'\n"
        "[[files]]\npath = 'socket_a'\n[[files]]\npath = 'open_a'\nfamily = 'files'\n"
    )
    suite = read_suite(tmp_path)
    assert [suite.family(name) for name in ("socket_a", "open_a", "else")] == ["sockets", "files", "other"]

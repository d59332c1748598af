"""conform/judge: verdicts: raw outcomes held against the native baseline and the list of expected failures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from husk.conform.outcomes import FAIL, FLAKY, MISSES, NOT_NATIVE, PASS, SKIP, CaseName, CaseResult, Judged

if TYPE_CHECKING:
    from husk.conform.judge.expected import Expected
    from husk.conform.judge.native_baseline import Baseline
    from husk.conform.suite_file import Suite

NOT_REACHED = "passes natively, and this run said nothing about it: its program ended early"


def verdict(outcome: str, native: list[str]) -> str:
    """`native` are the outcomes of the native runs; none: nothing is known about the case. One that passes natively and
    skips here did not find what it looks for: the runtime lacks it."""
    if native and all(one == PASS for one in native):
        return FAIL if outcome == SKIP else outcome
    if PASS in native:
        return FLAKY
    return SKIP if outcome == SKIP and native and all(one == SKIP for one in native) else NOT_NATIVE


def judge(
    results: Iterable[CaseResult], baseline: Baseline, expected: Expected, runtime: str, suites: dict[str, Suite]
) -> list[Judged]:
    """In the order of names."""
    judged = []
    for one in sorted(results, key=lambda result: result.name):
        found = verdict(one.outcome, baseline.outcomes.get(one.name, []))
        row = expected.find(one.name, runtime) if found == PASS or found in MISSES else None
        if row and row.sometimes and found == PASS:
            row = None
        family = suites[one.name.suite].family(one.name.file)
        judged.append(
            Judged(
                one.name, family, found, one.outcome, round(one.seconds, 3), one.why,
                "" if one.outcome == PASS else one.output,
                row.text if row else "", bool(row and row.by_design and found in MISSES),
            )
        )  # fmt: skip
    return judged


def not_reached(names: Iterable[CaseName], baseline: Baseline) -> list[CaseResult]:
    """Cases that pass natively and of which a run that ended knows nothing: they did not pass there."""
    return [CaseResult(name, FAIL, why=NOT_REACHED) for name in names if baseline.passes(name)]

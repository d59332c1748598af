"""Records with known answers, for tests of history and reports."""

from __future__ import annotations

from typing import Any

from husk.conform.outcomes import FLAKY, NOT_NATIVE, PASS, CaseName, Judged, RunInfo, RunRecord

RAW_OF = {NOT_NATIVE: "fail", FLAKY: PASS}


def judged(name: str, verdict: str = PASS, **more: Any) -> Judged:
    """`name` is FILE/CASE."""
    file, case = name.split("/", 1)
    suite = more.pop("suite", "mini")
    return Judged(CaseName(suite, file, case), "files", verdict, RAW_OF.get(verdict, verdict), **more)


def a_run(number: int, cases: dict[str, str] | list[Judged], runtime: str = "husk", **more: Any) -> RunRecord:
    """The run of the night `number`. Cases as {FILE/CASE: verdict}, or whole."""
    listed = [judged(*pair) for pair in cases.items()] if isinstance(cases, dict) else cases
    day = f"2026{1 + number // 28:02}{1 + number % 28:02}"
    started = f"{day[:4]}-{day[4:6]}-{day[6:]}T03:00:00Z"
    about = {"suites": ("mini",), "started": started, "ended": started, "user": "guest", "kernel": "6.18"} | more
    return RunRecord(RunInfo(f"{day}-030000-{runtime}", runtime, **about), listed)

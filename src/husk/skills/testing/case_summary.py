"""skills/testing: verdicts on the cases of many skills, put together: skill by setting, and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from husk.skills.collections.junit_file import ERROR, FAILURE, SKIPPED, JunitCase, JunitSuite, junit_file
from husk.skills.testing.compare_cases import BROKEN, DIFFERS, FAILS, WORKS, Verdict
from husk.skills.testing.compare_cases import SKIPPED as NOT_RUN

NATIVE = "native"
_KINDS = {WORKS: "", NOT_RUN: SKIPPED, BROKEN: ERROR, FAILS: FAILURE, DIFFERS: FAILURE}
BAD = (FAILS, DIFFERS, BROKEN)


@dataclass(frozen=True)
class Row:
    """One skill: for each setting how many of its cases have which status."""

    skill: Path
    cells: dict[str, Counter[str]]


def matrix(verdicts: Sequence[Verdict], *, native: bool) -> list[Row]:
    """Skills in the order of their verdicts; settings likewise, the native one first where there is one."""
    rows: dict[Path, Row] = {}
    first = next((one.setting for one in verdicts), "")
    for one in verdicts:
        row = rows.setdefault(one.case.skill, Row(one.case.skill, {NATIVE: Counter()} if native else {}))
        row.cells.setdefault(one.setting, Counter())[one.status] += 1
        if native and one.setting == first:
            row.cells[NATIVE][one.status if one.status in (BROKEN, NOT_RUN) else WORKS] += 1
    return list(rows.values())


def cell_text(counts: Counter[str]) -> str:
    """`3` where all work; else how many of each kind, the bad ones first."""
    if set(counts) == {WORKS}:
        return f"{counts[WORKS]} work" if counts[WORKS] > 1 else WORKS
    return ", ".join(f"{counts[kind]} {kind}" for kind in (FAILS, DIFFERS, BROKEN, NOT_RUN, WORKS) if counts[kind])


def junit_of(verdicts: Sequence[Verdict]) -> bytes:
    """A `testsuite` for each skill; the setting is part of the class."""
    skills: dict[Path, list[JunitCase]] = {}
    for one in verdicts:
        kind = _KINDS[one.status]
        name = one.case.skill.name
        case = JunitCase(one.case.name, f"{name}.{one.setting}", one.box_seconds, kind, one.reason, one.status)
        skills.setdefault(one.case.skill, []).append(case)
    return junit_file("husk skill test", [JunitSuite(str(skill), cases) for skill, cases in skills.items()])

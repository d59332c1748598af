"""review: would the skill run in other runtimes? The verdicts of husk.compat, for each runtime that husk knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from husk.compat.look.elf_file import Unreadable
from husk.compat.need.skill_needs import case_census
from husk.compat.runtimes import find, names
from husk.compat.verdict.judge import STATUSES, Verdict, judge
from husk.compat.verdict.subjects import look_at_subject
from husk.sandbox.errors import HuskError
from husk.skills.running import Request
from husk.skills.testing.cases import Case


def newest_runtimes() -> list[str]:
    """The newest file of each runtime. Plain Linux is left out: a skill that runs here runs there."""
    newest: dict[str, str] = {}
    for name in names():
        family = re.sub(r"-v?\d[\d.]*$", "", name)
        if family != "linux":
            newest[family] = max(name, newest.get(family, ""), key=_number)
    return list(newest.values())


def _number(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name)]


def runtime_verdicts(skill: Path, cases: Sequence[Case], request: Request) -> tuple[list[Verdict], list[str]]:
    """From traces of the cases where there are any that run, the worst verdict of each runtime; else from a look at the
    programs that the skill names."""
    surfaces = [find(name) for name in newest_runtimes()]
    notes, found = [], dict[str, Verdict]()
    for case in cases:
        try:
            census = case_census(case, request)
        except HuskError as error:
            notes.append(f"The case {case.name!r} was not traced for runtimes: {error}")
            continue
        for surface in surfaces:
            verdict = judge(skill.name, surface, None, census)
            before = found.get(surface.name)
            if before is None or STATUSES.index(verdict.status) < STATUSES.index(before.status):
                found[surface.name] = verdict
    if not found:
        try:
            look = look_at_subject(str(skill))
        except (HuskError, Unreadable) as error:
            return [], [*notes, f"No verdict on other runtimes: {error}"]
        found = {surface.name: judge(skill.name, surface, look, None) for surface in surfaces}
    return list(found.values()), notes

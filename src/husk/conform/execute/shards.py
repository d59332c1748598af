"""conform/execute: cut units into pieces that take about equally long: small enough to balance and to lose, large
enough that starting a process does not count."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from husk.conform.outcomes import CaseName

if TYPE_CHECKING:
    from husk.conform.units import Unit

# A unit is full with this many cases, seconds of an earlier run, or letters: their names stand on a command line.
MOST_CASES, MOST_SECONDS, MOST_LETTERS = 60, 8.0, 60_000

Only = Callable[["Unit", Sequence[str]], "Unit"]


def cut(unit: Unit, only: Only | None, seconds: Mapping[CaseName, float]) -> list[Unit]:
    """In the order of the cases. A kind without `only` has no smaller pieces."""
    if only is None or not unit.cases:
        return [unit]
    costs = [
        1 / MOST_CASES
        + seconds.get(CaseName(unit.suite, unit.file, case), 0.0) / MOST_SECONDS
        + len(case) / MOST_LETTERS
        for case in unit.cases
    ]
    pieces = max(1, round(sum(costs) + 0.49))
    full = sum(costs) / pieces
    cuts: list[list[str]] = [[]]
    filled = 0.0
    for case, cost in zip(unit.cases, costs, strict=True):
        if cuts[-1] and filled + cost > full * 1.0001:
            cuts.append([])
            filled = 0.0
        cuts[-1].append(case)
        filled += cost
    return [unit] if len(cuts) == 1 else [only(unit, part) for part in cuts]


def spread(units: list[Unit], seconds: Mapping[CaseName, float]) -> list[Unit]:
    """The units of each file over the whole run: so the first minutes show every part of a suite, and the pieces of one
    heavy program do not all run at once. Long units begin within the first four fifths: none is waited for in the
    end."""

    def is_long(unit: Unit) -> bool:
        cases = (CaseName(unit.suite, unit.file, case) for case in unit.cases)
        return sum(seconds.get(name, 0.0) for name in cases) > MOST_SECONDS / 2

    files: dict[tuple[str, str, bool], list[Unit]] = {}
    for unit in units:
        files.setdefault((unit.suite, unit.file, is_long(unit)), []).append(unit)
    placed = [
        ((number + (at + 0.5) / len(files)) / len(group) * (0.8 if long else 1.0), unit)
        for at, ((_, _, long), group) in enumerate(files.items())
        for number, unit in enumerate(group)
    ]
    return [unit for _, unit in sorted(placed, key=lambda one: one[0])]


class Filter:
    """Shell patterns for FILE/CASE or SUITE/FILE/CASE; without any, every case fits."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._texts = tuple(patterns)
        self._patterns = [re.compile(fnmatch.translate(pattern)) for pattern in patterns]

    def fits(self, name: CaseName) -> bool:
        texts = (f"{name.file}/{name.case}", str(name))
        return not self._patterns or any(one.match(text) for one in self._patterns for text in texts)

    def _may_fit(self, unit: Unit) -> bool:
        """Whether a case of some name would fit: a beginning of a pattern fits what stands before that name."""
        starts = (f"{unit.file}/", f"{unit.suite}/{unit.file}/")
        return any(
            fnmatch.fnmatchcase(start, pattern[:end])
            for start in starts
            for pattern in self._texts
            for end in range(1, len(pattern) + 1)
        )

    def applied(self, unit: Unit, only: Only | None) -> Unit | None:
        """The unit with the cases that fit. Where only a run can tell the cases, the whole unit if one may fit."""
        if not self._patterns:
            return unit
        if not unit.cases:
            return unit if self._may_fit(unit) else None
        wanted = [case for case in unit.cases if self.fits(CaseName(unit.suite, unit.file, case))]
        if not wanted:
            return None
        return only(unit, wanted) if only and len(wanted) < len(unit.cases) else unit

"""conform/execute: run units until every case has its result, and tell how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from husk.conform.outcomes import RAW, SKIP, CaseName, CaseResult
from husk.conform.suites import kind
from husk.conform.units import SKIP_SETTING, Reading, Unit

if TYPE_CHECKING:
    from husk.conform.execute.run_journal import Journal
    from husk.conform.execute.workers import Workers

TICK = 0.5  # seconds between two looks at progress
EACH = 0.02  # seconds that a case costs at least, for what is said about the time that is left
MOST_RESTS = 10_000  # processes that one unit may need: only a kind with a mistake needs more


@dataclass
class Progress:
    """How far a phase is. `cases` is what is known to come; some kinds tell only as they go."""

    title: str  # "native, run 2", "husk"
    cases: int
    done: int = 0  # cases with a result, those of an earlier attempt included
    resumed: int = 0  # of them, from an earlier attempt
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RAW, 0))
    began: float = field(default_factory=time.monotonic)
    running: list[tuple[Unit, float]] = field(default_factory=list)
    cost: float = 0.0  # what is to be done in this attempt: seconds of an earlier run, and a little for each case
    spent: float = 0.0  # of it
    ended: bool = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def rate(self) -> float:
        """Cases in a second."""
        return (self.done - self.resumed) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By what the cases took before: some sleep for seconds, and they begin first."""
        return self.seconds * max(0.0, self.cost / self.spent - 1) if self.spent else None


Watch = Callable[[Progress], None]


def run_units(
    phase: str,
    title: str,
    units: Sequence[Unit],
    workers: Workers,
    journal: Journal,
    watch: Watch,
    seconds: Mapping[CaseName, float],
) -> bool:
    """Run what the journal does not know yet. `seconds` is what cases took before, to say how much time is left. False:
    some units were lost and their cases have no result."""
    known = journal.of_phase(phase)
    progress = Progress(title, len(known) + sum(max(1, len(unit.cases)) for unit in units))
    for result in known.values():
        progress.counts[result.outcome] += 1
    progress.done = progress.resumed = len(known)
    progress.cost = sum(_cost(unit, unit.cases, seconds) for unit in units)
    outstanding, whole, rests = 0, True, 0
    for unit in units:
        if reason := unit.setting(SKIP_SETTING):
            _record(journal, phase, progress, unit, Reading(_skipped(unit, reason)))
        else:
            workers.submit(unit)
            outstanding += 1
    watch(progress)
    while outstanding:
        got = workers.next_ended(TICK)
        if got is not None:
            unit, ended = got
            if ended is None:
                whole = False
                outstanding -= 1
            else:
                reading = kind(unit.kind).read(unit, ended)
                _record(journal, phase, progress, unit, reading)
                rest = reading.rest.cases if reading.rest else ()
                progress.spent += _cost(unit, [case for case in unit.cases if case not in rest], seconds)
                outstanding -= 1
                if reading.rest is not None and rests < MOST_RESTS + len(units):
                    workers.submit(reading.rest)
                    outstanding, rests = outstanding + 1, rests + 1
        progress.running = workers.running()
        watch(progress)
    progress.ended = True
    watch(progress)
    return whole


def _cost(unit: Unit, cases: Sequence[str], seconds: Mapping[CaseName, float]) -> float:
    if not unit.cases:
        return 1.0
    return sum(EACH + seconds.get(CaseName(unit.suite, unit.file, case), 0.0) for case in cases)


def _skipped(unit: Unit, reason: str) -> list[CaseResult]:
    return [CaseResult(CaseName(unit.suite, unit.file, case), SKIP, why=reason) for case in unit.cases or ("*",)]


def _record(journal: Journal, phase: str, progress: Progress, unit: Unit, reading: Reading) -> None:
    known = journal.of_phase(phase)
    for result in reading.results:
        before = known.get(result.name)
        if before is not None:
            progress.counts[before.outcome] -= 1
        progress.counts[result.outcome] += 1
    journal.add(phase, unit, reading)
    progress.done = len(known)
    if not unit.cases:  # only now one knows how many there are
        progress.cases += max(0, len(reading.results) - 1)

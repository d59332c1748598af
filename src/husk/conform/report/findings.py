"""conform/report: what the data say should be done: gaps and recommendations, computed by the rules below.

Not here: how they are written (analysis.py, evaluation.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from husk.conform.matrix.calls_file import words_of
from husk.conform.matrix.coverage import REFUSED, Row
from husk.conform.matrix.priority import CRITICAL, HIGH, LOW
from husk.conform.matrix.uses_file import WORKS, Uses
from husk.conform.outcomes import CRASH, FLAKY, HANG, MISSES, Judged, RunRecord
from husk.conform.report.markdown import Markup, code, escaped, listed

MOST_FILES = 8  # with unexplained misses that a recommendation names
MOST_CALLS = 5  # that are named for one file
RARE = 6  # a call that no more files exercise tells what a file is about


@dataclass(frozen=True)
class FileMisses:
    """The misses of one file. `calls` tell what it is about: those it is named after, then those that few other files
    exercise."""

    suite: str
    file: str
    family: str
    misses: list[Judged]
    counted: int
    calls: list[str]

    @property
    def unexplained(self) -> list[Judged]:
        return [one for one in self.misses if one.unexpected_miss]


@dataclass(frozen=True)
class RefusedInUse:
    row: Row
    failing: list[str]  # interpreters and skills that make the call and do not work


def misses_by_file(record: RunRecord, rows: Sequence[Row]) -> list[FileMisses]:
    """Files with misses: those with the most unexplained ones first, then with the most."""
    about: dict[tuple[str, str], list[tuple[bool, int, str]]] = {}
    for row in rows:
        for file in row.files or ():
            other, count = row.call not in words_of(file[1]), len(row.files or ())
            if not other or count <= RARE:
                about.setdefault(file, []).append((other, count, row.call))
    counted: Counter[tuple[str, str]] = Counter()
    missed: dict[tuple[str, str], list[Judged]] = {}
    for one in record.cases:
        key = (one.name.suite, one.name.file)
        if one.verdict in MISSES:
            missed.setdefault(key, []).append(one)
        counted[key] += one.verdict in (*MISSES, "pass")
    found = [
        FileMisses(*key, misses[0].family, misses, counted[key], [call for _, _, call in sorted(about.get(key, ()))])
        for key, misses in missed.items()
    ]
    return sorted(found, key=lambda one: (-len(one.unexplained), -len(one.misses), one.suite, one.file))


def refused_in_use(rows: Sequence[Row], uses: Uses | None) -> list[RefusedInUse]:
    """Calls that programs make and husk refuses; those that something fails with first."""
    broken = {one.name for one in uses.uses if one.outcome != WORKS} if uses is not None else set()
    found = [
        RefusedInUse(row, [name for name in (*(row.interpreters or ()), *(row.skills or ())) if name in broken])
        for row in rows
        if row.way == REFUSED and row.used
    ]
    return sorted(found, key=lambda one: not one.failing)  # else as the rows stand: by priority


def not_exercised(rows: Sequence[Row]) -> list[Row]:
    """Calls that programs make and no traced file exercises."""
    return [row for row in rows if row.files == () and row.used and row.priority != LOW]


def recommendations(records: Sequence[RunRecord], rows: Sequence[Row], uses: Uses | None) -> list[Markup]:
    """Sentences, the most urgent first: programs that fail; crashes and hangs; unexplained misses by file; rows of
    the list of expected failures that hold no longer; calls in use without a test; and what was not measured."""
    found: list[Markup] = []
    for use in uses.uses if uses is not None else ():
        if use.calls and use.outcome != WORKS:
            found.append(Markup(f"Make {escaped(use.name)} ({use.kind}) work: {escaped(use.why)}."))
    for one in refused_in_use(rows, uses):
        if one.failing:
            found.append(
                Markup(f"See whether {code(one.row.call)}, which husk refuses, is needed by {listed(one.failing)}.")
            )
    for record in records:
        found += _of_record(record, rows)
    untested = [row for row in not_exercised(rows) if row.priority in (CRITICAL, HIGH)]
    if untested:
        names = listed([code(row.call) for row in untested], 12)
        found.append(Markup(f"Find or write a test for calls that programs use and no traced file exercises: {names}."))
    if records and any(row.files is None for row in rows):
        found.append(
            Markup("Trace the suites (`husk conform trace SUITE…`): nothing says yet which file exercises a call.")
        )
    if any(row.interpreters is None for row in rows):
        found.append(Markup("Measure what programs use (`husk conform uses`): no call has a priority yet."))
    return found


def _of_record(record: RunRecord, rows: Sequence[Row]) -> list[Markup]:
    where = f"in {escaped(record.info.runtime)}"
    found: list[Markup] = []
    ended = [one for one in record.cases if one.verdict in (CRASH, HANG) and one.unexpected_miss]
    if ended:
        named = listed([code(one.name) for one in ended], MOST_CALLS)
        found.append(Markup(f"Look first at what crashed or hung {where}, {_cases(len(ended))}: {named}."))
    for one in misses_by_file(record, rows)[:MOST_FILES]:
        if one.unexplained:
            about = listed([code(call) for call in one.calls], MOST_CALLS)
            what = f"{_cases(len(one.unexplained))} of {code(one.file)} {where} ({escaped(one.family)})"
            found.append(Markup(f"Fix or explain {what}{f'; the file is about {about}' if about else ''}."))
    better = [one for one in record.cases if one.unexpected_pass]
    if better:
        named = listed([code(one.name) for one in better], MOST_CALLS)
        found.append(
            Markup(f"Update the list of expected failures: {_cases(len(better))} in it passed {where}: {named}.")
        )
    flaky = sum(one.verdict == FLAKY for one in record.cases)
    if flaky and flaky * 100 > len(record.cases):
        found.append(
            Markup(
                f"Run fewer units at once: natively, {_cases(flaky)} passed only sometimes, more than one in a hundred."
            )
        )
    return found


def _cases(count: int) -> str:
    return f"{count} case{'s' if count != 1 else ''}"

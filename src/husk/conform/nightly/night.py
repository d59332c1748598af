"""conform/nightly: one night: measure what is used, choose, run, compare with the night before, write the documents.

Whatever goes wrong later, what was run stays: results.json of each run first, then the history, then the documents.
Not here: publishing them (publish.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from husk.conform.execute.one_unit import run_unit
from husk.conform.execute.run_suites import Options, run_suites
from husk.conform.execute.where import Where, native, where
from husk.conform.history.database import History, open_history
from husk.conform.history.narrow import state
from husk.conform.history.run_changes import Change, Changes, changes
from husk.conform.judge.expected import Expected, expected_failures
from husk.conform.matrix.calls_file import Calls, read_calls
from husk.conform.matrix.coverage import coverage
from husk.conform.matrix.measure_uses import measure_uses
from husk.conform.matrix.trace_suites import trace_suites
from husk.conform.matrix.uses_file import Use, Uses, read_uses, write_uses
from husk.conform.nightly.choose_files import BY_FILE, Chosen, choose_again
from husk.conform.nightly.nightly_config import USED, NightlyConfig
from husk.conform.outcomes import CaseName, RunRecord, percent, score
from husk.conform.places import conform_directory
from husk.conform.report.write_reports import write_reports
from husk.conform.suite_file import Suite, read_suite
from husk.sandbox.errors import HuskError, UsageError

NO_CHANGE, REPORT, REGRESSION = "no change", "report", "regression"
EXIT_CODES = {NO_CHANGE: 0, REPORT: 3, REGRESSION: 1}
UNSTEADY_RUNS, UNSTEADY_CHANGES = 10, 3  # a case that changed so often in so many runs says nothing by changing again
MOST_LOOKED_UP = 500  # changes whose past is looked at: with more, something else is the matter

Told = Callable[[str], None]
Run = Callable[[list[Suite], Where, Options], RunRecord]


@dataclass(frozen=True)
class Compared:
    """A run of this night beside the one before it. `unsteady` are changes of cases that come and go: neither a
    regression nor a fix."""

    record: RunRecord
    old: RunRecord | None
    found: Changes | None
    unsteady: tuple[Change, ...] = ()

    @property
    def end(self) -> str:
        if self.found is not None and self.found.regressions:
            return REGRESSION
        if self.found is None or self.found.any or self.unsteady or not self.record.info.whole:
            return REPORT
        return NO_CHANGE


@dataclass(frozen=True)
class Night:
    runs: list[Compared]
    documents: list[Path]

    @property
    def end(self) -> str:
        ends = {one.end for one in self.runs}
        return next(end for end in (REGRESSION, REPORT, NO_CHANGE) if end in ends)

    def summary(self) -> str:
        return f"{self.end}: {'; '.join(map(_in_short, self.runs))}"


def _in_short(one: Compared) -> str:
    now = score(one.record.cases)
    text = f"{one.record.info.runtime} {percent(now.share)} ({now.passed} of {now.counted}"
    if one.found is None:
        return f"{text}, the first run)"
    counts = {
        "regression": one.found.regressions, "fix": one.found.fixes, "new case": one.found.appeared,
        "case gone": one.found.gone, "other change": one.found.shifted, "unsteady case": one.unsteady,
    }  # fmt: skip
    words = [_counted(len(listed), word) for word, listed in counts.items() if listed]
    return f"{text}, {', '.join(words) or 'no change'})"


def _counted(number: int, word: str) -> str:
    plural = {"fix": "fixes", "case gone": "cases gone"}.get(word, f"{word}s")
    return f"{number} {word if number == 1 else plural}"


# -- before anything runs ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Prepared:
    suites: list[Suite]
    places: list[Where]
    expected: Expected


def prepare(config: NightlyConfig) -> Prepared:
    """Everything a person may have got wrong comes to light here, not after hours."""
    try:
        import jinja2  # noqa: F401
    except ModuleNotFoundError:
        raise HuskError("reports need jinja2; install huskbox[conform].") from None
    suites = [read_suite(path) for path in config.suites]
    if len({suite.name for suite in suites}) < len(suites):
        raise UsageError(f"{config.path}: two of the suites have the same name.")
    places = [where(one.under, one.setting, one.user) for one in config.runs]
    return Prepared(suites, places, expected_failures(config.expected, [suite.place for suite in suites]))


# -- the night ---------------------------------------------------------------------------------------------------------
def run_night(
    config: NightlyConfig, prepared: Prepared, today: str, told: Told, run: Run = run_suites
) -> Night:
    place = conform_directory()
    with _alone(place):
        uses = _uses(config, place / "uses.json", today, told)
        calls, chosen = _chosen(config, prepared.suites, uses, place / "calls.json", told)
        options = Options(
            jobs=config.jobs, timeout=config.timeout, repeat=config.repeat, expected=prepared.expected,
            files=chosen.files,
        )  # fmt: skip
        records = []
        with open_history() as history:
            for there in prepared.places:
                told(f"{there.runtime}{f' as {there.user}' if there.user else ''}: running")
                records.append(run(chosen.suites, there, options))
                _keep(history, records[-1])
            compared = [compare(history, record) for record in records]
            told(f"writing the documents to {config.out}")
            rows = coverage(records, calls, uses)
            documents = write_reports(records, rows, history, config.out, today, calls=calls, uses=uses)
    return Night(compared, documents)


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """A night that takes longer than a day must not meet the next one."""
    lock = os.open(place / "nightly.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HuskError(f"another `husk conform nightly` runs with {place}; wait for it.") from None
        yield
    finally:
        os.close(lock)


def _keep(history: History, record: RunRecord) -> None:
    try:
        history.add(record)
    except HuskError as error:
        results = conform_directory() / "runs" / record.info.run / "results.json"
        raise HuskError(f"{error} The run itself is in {results}; `husk conform import` adds it later.") from None


def _uses(config: NightlyConfig, path: Path, today: str, told: Told) -> Uses:
    """What interpreters and skills call. Those that did not change since the last time are not run again, nor what a
    night measured before it was stopped."""
    known = read_uses(path) if path.exists() else Uses()
    found: list[Use] = []

    def heard(use: Use, old: bool) -> None:
        found.append(use)
        if not old:
            told(f"{use.kind} {use.name}: {use.outcome}")
            names = {(one.kind, one.name) for one in found}
            rest = [one for one in known.uses if (one.kind, one.name) not in names]
            write_uses(replace(known, uses=(*found, *rest)), path)

    walled = any(one.setting == "walled" for one in config.runs)
    uses = measure_uses(config.skills, known, today, namespaces=walled, told=heard)
    write_uses(uses, path)
    return uses


def _chosen(
    config: NightlyConfig, suites: list[Suite], uses: Uses, path: Path, told: Told
) -> tuple[Calls, Chosen]:
    known = read_calls(path) if path.exists() else Calls()
    traceable = [suite for suite in suites if suite.kind in BY_FILE]
    asked_as = native(config.runs[0].user)  # some programs must not run natively as root
    calls = trace_suites(
        traceable, known, path, jobs=config.jobs or len(os.sched_getaffinity(0)),
        namespaces=any(one.setting == "walled" for one in config.runs), ask=lambda unit: run_unit(unit, asked_as),
        told=lambda suite, file, seen: told(f"{suite}/{file}: {len(seen.calls)} calls"),
    )  # fmt: skip
    if config.choose != USED:
        return calls, Chosen(suites)
    chosen = choose_again(suites, calls, uses, config.files_per_call, path.with_name("chosen.json"))
    told(f"the skills make {len(chosen.used)} different calls")
    for name, every in chosen.counts.items():
        told(f"{name}: {len(chosen.files.get(name, ()))} of {every} programs exercise them")
    return calls, chosen


# -- comparing ---------------------------------------------------------------------------------------------------------
def compare(history: History, record: RunRecord) -> Compared:
    """With the latest whole run before it of the same runtime, suites and user."""
    info = record.info
    for old in reversed(history.line(info.runtime, info.suites)):
        mine = (old.info.user, old.info.case_filter) == (info.user, info.case_filter)
        if mine and old.info.run != info.run and old.info.started <= info.started and old.info.whole:
            before = history.record(old.info.run, outputs=False)
            return _steady(history, record, before, changes(before, record))
    return Compared(record, None, None)


def _steady(history: History, record: RunRecord, old: RunRecord, found: Changes) -> Compared:
    suspects = [*found.regressions, *found.fixes]
    unsteady: set[CaseName] = set()
    if len(suspects) <= MOST_LOOKED_UP:
        unsteady = {one.name for one in suspects if _comes_and_goes(history, one.name, record)}
    left = replace(
        found,
        regressions=[one for one in found.regressions if one.name not in unsteady],
        fixes=[one for one in found.fixes if one.name not in unsteady],
    )
    return Compared(record, old, left, tuple(one for one in suspects if one.name in unsteady))


def _comes_and_goes(history: History, name: CaseName, record: RunRecord) -> bool:
    seen = [one for one in history.of_case(name, record.info.runtime) if one.info.user == record.info.user]
    return _turns([state(one.case.verdict) for one in seen][-UNSTEADY_RUNS:]) >= UNSTEADY_CHANGES


def _turns(states: Sequence[str]) -> int:
    telling = [one for one in states if one]
    return sum(old != new for old, new in itertools.pairwise(telling))

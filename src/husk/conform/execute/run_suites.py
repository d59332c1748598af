"""conform/execute: run whole suites: the native baseline, the run itself, and the judgement.

A run has a directory HUSK_CONFORM/runs/NAME: a journal while it lasts, results.json when it is done.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.conform.execute.one_unit import account, run_unit
from husk.conform.execute.run_journal import NAME as JOURNAL
from husk.conform.execute.run_journal import Journal, read_header
from husk.conform.execute.run_units import Progress, Watch, run_units
from husk.conform.execute.shards import Filter, Only, cut, spread
from husk.conform.execute.where import Where, native
from husk.conform.execute.workers import LocalWorkers, Workers
from husk.conform.judge.expected import Expected, ExpectedFailure
from husk.conform.judge.native_baseline import (
    Baseline,
    baseline_path,
    file_digests,
    from_record,
    load_baseline,
    save_baseline,
)
from husk.conform.judge.verdicts import judge, not_reached
from husk.conform.outcomes import SKIP, CaseName, CaseResult, RunInfo, RunRecord
from husk.conform.places import conform_directory
from husk.conform.results_file import write_results
from husk.conform.suites import kind
from husk.conform.units import Ended, Unit
from husk.sandbox.errors import HuskError, UsageError

if TYPE_CHECKING:
    from husk.conform.suite_file import Suite

RESULTS_NAME = "results.json"
HANGS_NATIVELY = "it hangs natively, and was not run"
RUN = "run"  # the phase that counts; the others are native-1, native-2, …


@dataclass(frozen=True)
class Options:
    """How to run, as `husk conform run` has it."""

    filters: tuple[str, ...] = ()
    jobs: int = 0  # 0: the number of processors
    timeout: float = 0.0  # 0: the suite's
    repeat: int = 2  # runs of the native baseline
    baseline: RunRecord | None = None  # a native run to judge by
    fresh_baseline: bool = False  # forget what is remembered of native runs
    expected: Expected = field(default_factory=Expected)
    resume: bool = False
    alone: bool = False  # each case in a process of its own, natively too
    files: Mapping[str, frozenset[str]] = field(default_factory=dict)  # suite -> the only files of it that are run


# A workers object for each place that units run at: natively for the baseline, then where they are to be measured.
MakeWorkers = Callable[[Where, int], Workers]


def run_suites(
    suites: list[Suite],
    where: Where,
    options: Options | None = None,
    *,
    workers: MakeWorkers | None = None,
    watch: Watch | None = None,
) -> RunRecord:
    """Run, judge, and leave results.json in the run's directory. Stopped, by an exception or a kill, it can be gone on
    with (`Options.resume`)."""
    run = _Run(suites, where, options or Options(), workers or LocalWorkers, watch or (lambda _: None))
    try:
        return run.whole()
    finally:
        run.journal.close()


def unused_rows(record: RunRecord, expected: Expected) -> list[ExpectedFailure]:
    """Rows of expected failures that fit no case. A filtered run has not seen all cases, and cannot tell."""
    if record.info.case_filter or not record.info.whole:
        return []
    return expected.unused([one.name for one in record.cases], record.info.runtime)


def run_directory(run: str) -> Path:
    return conform_directory() / "runs" / run


class _Run:
    def __init__(
        self, suites: list[Suite], where: Where, options: Options, workers: MakeWorkers, watch: Watch
    ) -> None:
        self.suites = {suite.name: suite for suite in suites}
        if len(self.suites) < len(suites):
            raise UsageError("two of the suites have the same name; give each a `name` of its own.")
        self.where, self.options, self.workers, self.watch = where, options, workers, watch
        self.jobs = options.jobs or len(os.sched_getaffinity(0))
        self.filter = Filter(options.filters)
        self.uid = account(where.user).uid
        every = {suite.name: self._all_units(suite) for suite in suites}
        self.digests = {suite.name: file_digests(suite, every[suite.name]) for suite in suites}
        self.units = [unit for name, units in every.items() for unit in self._wanted(name, units)]
        if not self.units:
            raise UsageError(f"no case fits --filter {' '.join(options.filters)}; a pattern is held against FILE/CASE.")
        self.journal = self._resumed() if options.resume else self._begun()
        self.info = RunInfo(**{**self.journal.header["info"], "suites": tuple(self.suites)})

    # -- what there is to run ------------------------------------------------------------------------------------------
    def _all_units(self, suite: Suite) -> list[Unit]:
        progress = Progress(f"{suite.name}: asking for cases", len(suite.files))

        def ask(unit: Unit) -> Ended:
            """Called by several threads, perhaps."""
            ended = run_unit(unit, native(self.where.user))
            progress.done += 1
            self.watch(progress)
            return ended

        return kind(suite.kind).units(suite, ask)

    def _wanted(self, suite: str, units: list[Unit]) -> Iterable[Unit]:
        files = self.options.files.get(suite)
        for unit in units:
            wanted = self.filter.applied(unit, _only(unit))
            if wanted and (files is None or unit.file in files):
                yield replace(wanted, timeout=self.options.timeout) if self.options.timeout else wanted

    def _left(self, lacking: Callable[[CaseName], bool], lacks: Callable[[Unit], bool], times: Baseline) -> list[Unit]:
        """The units that a phase still has to run, cut to size. `lacks` is asked where the cases are unknown."""
        found = []
        for unit in self.units:
            cases = [case for case in unit.cases if lacking(CaseName(unit.suite, unit.file, case))]
            only = _only(unit)
            if unit.cases and only and self.options.alone:
                found += [only(unit, [case]) for case in cases]
            elif unit.cases and cases:
                found += cut(only(unit, cases) if only and len(cases) < len(unit.cases) else unit, only, times.seconds)
            elif not unit.cases and lacks(unit):
                found.append(unit)
        return spread(found, times.seconds)

    # -- beginning and going on ----------------------------------------------------------------------------------------
    def _key(self) -> dict[str, Any]:
        files = {suite: sorted(files) for suite, files in self.options.files.items()}
        return {
            "suites": [[suite.name, str(suite.place)] for suite in self.suites.values()],
            "runtime": self.where.runtime,
            "words": list(self.where.words),
            "uid": self.uid,
            "filters": list(self.options.filters),
            **({"files": files} if files else {}),
        }

    def _begun(self) -> Journal:
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        runs = conform_directory() / "runs"
        name = base = f"{now:%Y%m%d-%H%M%S}-{self.where.runtime}"
        number = 1
        while True:
            try:
                (runs / name).mkdir(mode=0o700)
                break
            except FileExistsError:
                number += 1
                name = f"{base}-{number}"
        info = {
            "run": name,
            "runtime": self.where.runtime,
            "command": " ".join(self.where.words),
            "user": self.where.user or str(self.uid),
            "started": _stamp(),
            "version": _version(self.where),
            "commit": _commit(self.where),
            "kernel": platform.release(),
            "machine": platform.machine(),
            "case_filter": " ".join(self.options.filters),
            "jobs": self.jobs,
            "timeout": self.options.timeout,
        }
        return Journal(runs / name, {"key": self._key(), "digests": self.digests, "info": info})

    def _resumed(self) -> Journal:
        runs = conform_directory() / "runs"
        for directory in sorted((one for one in runs.iterdir() if (one / JOURNAL).exists()), reverse=True):
            header = read_header(directory)
            if header is None or header.get("key") != self._key():
                continue
            changed = [name for name, digest in self.digests.items() if header["digests"].get(name) != digest]
            if changed:
                raise UsageError(
                    f"the programs of {', '.join(changed)} changed since the run {directory.name} was stopped; run them"
                    f" anew, without --resume. What was recorded stays in {directory}."
                )
            return Journal(directory)
        raise UsageError(f"there is no stopped run of this kind in {runs}; run it without --resume.")

    # -- running -------------------------------------------------------------------------------------------------------
    def whole(self) -> RunRecord:
        baseline, whole = self._native_baseline()
        results = self.journal.of_phase(RUN)
        hung = set() if self.where.is_native else {name for name in baseline.outcomes if baseline.hangs(name)}
        left = self._left(
            lambda name: name not in results and name not in hung,
            lambda unit: not self.journal.is_done(RUN, unit),
            baseline,
        )
        whole = self._phase(RUN, self.where, left, baseline) and whole
        results = {name: result for name, result in results.items() if self.filter.fits(name)}
        if self.where.is_native:
            baseline.add(results.values())
            self._remember(baseline)
        silent = self._silent(results, baseline)
        found = [*results.values(), *(CaseResult(name, SKIP, why=HANGS_NATIVELY) for name in silent if name in hung)]
        found += not_reached(silent, baseline) if whole else []
        cases = judge(found, baseline, self.options.expected, self.where.runtime, self.suites)
        record = RunRecord(self.info, cases).ended_at(_stamp(), whole=whole)
        self._write(record)
        return record

    def _native_baseline(self) -> tuple[Baseline, bool]:
        if self.options.baseline is not None:
            return from_record(self.options.baseline), True
        known, whole = Baseline(), True
        if not self.options.fresh_baseline:
            for name in self.suites:
                one = load_baseline(self._baseline_path(name), name, self.digests[name])
                known.outcomes |= one.outcomes
                known.seconds |= one.seconds
                known.files |= one.files
        # A native run is a run of the baseline itself.
        for number in range(1, self.options.repeat + (0 if self.where.is_native else 1)):
            whole = self._native_run(number, known) and whole
        return known, whole

    def _native_run(self, number: int, known: Baseline) -> bool:
        phase = f"native-{number}"
        results = self.journal.of_phase(phase)
        missing = {
            name
            for unit in self.units
            for case in unit.cases
            if known.runs(name := CaseName(unit.suite, unit.file, case)) < number
        }
        runs = known.files
        unknown = [unit for unit in self.units if not unit.cases and runs.get((unit.suite, unit.file), 0) < number]
        left = self._left(
            lambda name: name in missing and name not in results,
            lambda unit: unit in unknown and not self.journal.is_done(phase, unit),
            known,
        )
        whole = self._phase(phase, native(self.where.user), left, known)
        files = {(unit.suite, unit.file) for unit in unknown}
        added = [one for one in results.values() if one.name in missing or (one.name.suite, one.name.file) in files]
        if added:
            known.add(added)
            known.files |= dict.fromkeys(files, number)
            self._remember(known)
        return whole

    def _phase(self, phase: str, where: Where, units: list[Unit], times: Baseline) -> bool:
        if not units:
            return True
        workers = self.workers(where, max(1, min(self.jobs, len(units))))
        try:
            title = where.runtime if phase == RUN else phase.replace("-", ", run ")
            return run_units(phase, title, units, workers, self.journal, self.watch, times.seconds)
        finally:
            workers.close()

    def _silent(self, results: dict[CaseName, CaseResult], baseline: Baseline) -> list[CaseName]:
        """Cases of the baseline that a run of their program should have told about."""
        listed = {CaseName(unit.suite, unit.file, case) for unit in self.units for case in unit.cases}
        unlisted = {(unit.suite, unit.file) for unit in self.units if not unit.cases}
        return [
            name
            for name in baseline.outcomes
            if name not in results
            and (name in listed or ((name.suite, name.file) in unlisted and self.filter.fits(name)))
        ]

    # -- files ---------------------------------------------------------------------------------------------------------
    def _baseline_path(self, suite: str) -> Path:
        return baseline_path(conform_directory(), self.suites[suite], self.uid)

    def _remember(self, baseline: Baseline) -> None:
        for name in self.suites:
            save_baseline(self._baseline_path(name), name, self.digests[name], baseline)

    def _write(self, record: RunRecord) -> None:
        path = self.journal.directory / RESULTS_NAME
        try:
            write_results(record, path)
        except OSError as error:
            raise HuskError(
                f"{path}: {error.strerror}; what is recorded stays: make room, and run the same with --resume."
            ) from None
        (self.journal.directory / JOURNAL).unlink()  # results.json holds it all now


def _only(unit: Unit) -> Only | None:
    found: Only | None = getattr(kind(unit.kind), "only", None)
    return found


def _stamp() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _version(where: Where) -> str:
    """As the runtime says it itself."""
    words = where.words[: where.words.index("run")] if where.is_husk else where.words[:1]
    return _said([*words, "--version"]) if words else ""


def _commit(where: Where) -> str:
    """Of the checkout that this husk was installed from, if its environment lies in one, as `make setup` has it."""
    checkout = os.path.dirname(sys.prefix)
    if not where.is_husk or not os.path.isdir(os.path.join(checkout, ".git")):
        return ""
    return _said(["git", "-c", f"safe.directory={checkout}", "-C", checkout, "rev-parse", "--short=12", "HEAD"])


def _said(command: list[str]) -> str:
    """The first line that a command prints; empty where it fails."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []
    return lines[0].strip()[:200] if lines else ""

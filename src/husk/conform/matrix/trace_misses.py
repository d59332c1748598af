"""conform/matrix: trace the cases that a run missed, each alone, and keep an excerpt of what it called.

Not here: the file that keeps the excerpts (traces_file.py), and which calls a whole file makes (trace_suites.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from husk.compat.trace.traced_run import trace
from husk.conform.matrix.trace_suites import MOST_OUTPUT, ask_natively, box_argv, box_policy, units_by_file
from husk.conform.matrix.traces_file import CaseTrace, Traces, write_traces
from husk.conform.outcomes import MISSES, CaseName, RunRecord
from husk.conform.suite_file import Suite
from husk.conform.suites import kind
from husk.conform.units import SKIP_SETTING, Ask, Unit
from husk.sandbox.errors import HuskError

SECONDS = 20.0  # for one case
MOST_MISSES = 300  # that are traced
LINES = 20_000  # of one case's log
LAST, FAILED = 40, 40  # lines of an excerpt: the last ones, and before them those of calls that failed
_FAILED = re.compile(r" = -1 E[A-Z0-9]+")
_SAYS = re.compile(r"\] writev?\([12], ")
Told = Callable[[CaseName, str], None]  # a case, and how it ended


@dataclass(frozen=True)
class Done:
    """`left` are misses that were not traced: their suite cannot run them alone, or they were too many."""

    traces: Traces
    traced: int
    left: int


def trace_misses(
    suites: Sequence[Suite],
    record: RunRecord,
    known: Traces,
    out: Path,
    *,
    most: int = MOST_MISSES,
    seconds: float = SECONDS,
    jobs: int = 1,
    namespaces: bool = True,
    ask: Ask = ask_natively,
    told: Told = lambda name, ended: None,
) -> Done:
    """Those that no one expected first. What `known` has of this run is not traced again; what the run did not miss is
    forgotten. `out` is written after each case."""
    missed = sorted((bool(one.expected), one.name) for one in record.cases if one.verdict in MISSES)
    run = record.info.run
    traces = {name: known[name] for _, name in missed if name in known and known[name].run == run}
    alone = {suite.name: _alone(units_by_file(suite, ask)) for suite in suites}
    wanted = [name for _, name in missed if name not in traces and name.suite in alone]
    units = {name: unit for name in wanted if (unit := alone[name.suite](name)) is not None}
    chosen = list(units)[: max(0, most - len(traces))]
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(_trace, units[name], seconds, namespaces): name for name in chosen}
        try:
            for future in as_completed(running):
                ended, lines = future.result()
                traces[running[future]] = CaseTrace(run, tuple(lines))
                write_traces(traces, out)
                told(running[future], ended)
        finally:
            for future in running:
                future.cancel()
    write_traces(traces, out)
    return Done(traces, len(chosen), len(wanted) - len(chosen))


def _alone(files: dict[str, list[Unit]]) -> Callable[[CaseName], Unit | None]:
    """From a case to the unit that runs only it; None where there is none."""

    def find(name: CaseName) -> Unit | None:
        for unit in files.get(name.file, ()):
            only = getattr(kind(unit.kind), "only", None)
            if unit.setting(SKIP_SETTING):
                return None
            if unit.cases == (name.case,):
                return unit
            if only is not None and name.case in unit.cases:
                narrowed: Unit = only(unit, (name.case,))
                return narrowed
        return None

    return find


def _trace(unit: Unit, seconds: float, namespaces: bool) -> tuple[str, list[str]]:
    policy = box_policy(unit, namespaces)
    policy.argv = box_argv(unit)
    policy.timeout = min(seconds, unit.timeout)
    try:
        traced = trace(policy, lambda runner: runner.run(), lines=LINES, stdin=b"", keep=MOST_OUTPUT)
    except HuskError as error:
        return f"not run: {error}", [f"+++ not run: {error} +++"]
    ended = traced.census.crash or f"exit {traced.census.status}"
    return ended, [*excerpt([line for _, line in traced.log()]), f"+++ {ended} +++"]


def excerpt(log: Iterable[str]) -> list[str]:
    """The last calls, and before them those that failed. What a program does before it first says something is how it
    starts, and told only where nothing else is."""
    lines = list(log)
    begin = next((number for number, line in enumerate(lines) if _SAYS.search(line)), 0)
    tail = max(begin, len(lines) - LAST)
    failed = [number for number in range(begin, tail) if _FAILED.search(lines[number])][-FAILED:]
    made, after = [], begin
    for number in (*failed, *range(tail, len(lines))):
        if number > after:
            made.append(f"… {number - after:,} calls …")
        made.append(lines[number])
        after = number + 1
    return made

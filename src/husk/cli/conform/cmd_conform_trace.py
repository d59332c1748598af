"""cli/conform: `husk conform trace`: learn which calls the files of suites make, and cases that a run missed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.conform.conform_inputs import CALLS, TRACES, kept_file, named_records, processors, whole_number
from husk.cli.output import say, say_result
from husk.conform.matrix.calls_file import Calls, TracedFile, read_calls
from husk.conform.matrix.trace_misses import MOST_MISSES, trace_misses
from husk.conform.matrix.trace_suites import SECONDS, trace_suites
from husk.conform.matrix.traces_file import read_traces
from husk.conform.outcomes import CaseName
from husk.conform.suite_file import Suite, read_suite

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    suites = [read_suite(Path(name)) for name in options.suites]
    if options.misses:
        return _misses(suites, options)
    out = kept_file(options.out, CALLS)
    known = Calls() if options.fresh or not out.exists() else read_calls(out)
    seconds = whole_number("--seconds", options.seconds, int(SECONDS), 86_400)
    traced = 0

    def told(suite: str, file: str, seen: TracedFile) -> None:
        nonlocal traced
        traced += 1
        if not options.quiet:
            say(f"{suite}/{file}: {len(seen.calls)} calls, {seen.ended}", file=sys.stderr)

    calls = trace_suites(
        suites,
        known,
        out,
        seconds=float(seconds),
        jobs=whole_number("--jobs", options.jobs, processors(), 256),
        namespaces=options.setting == "walled",
        told=told,
    )
    names = [suite.name for suite in suites]
    files = [one for name in names for one in calls.suites[name].files.values()]
    seen = {call for one in files for call in one.calls}
    late = sum(one.ended.startswith("after ") for one in files)
    missing = [
        f"{name}/{file}: {one.ended}"
        for name in names
        for file, one in calls.suites[name].files.items()
        if not one.calls
    ]
    document = {"out": str(out), "files": len(files), "traced": traced, "calls": len(seen), "not_run": missing}
    lines = [f"{len(files)} files ({traced} traced now) make {len(seen)} different calls: {out}"]
    lines += [f"{late} were still running when their {seconds} s were over: what they did until then counts."] * bool(
        late
    )
    say_result(document, [*lines, *missing], as_json=options.json)
    return 0


def _misses(suites: list[Suite], options: Values) -> int:
    (record,) = named_records([], [options.misses])
    out = kept_file(options.out, TRACES)
    known = {} if options.fresh or not out.exists() else read_traces(out)

    def told(name: CaseName, ended: str) -> None:
        if not options.quiet:
            say(f"{name}: {ended}", file=sys.stderr)

    done = trace_misses(
        suites,
        record,
        known,
        out,
        most=whole_number("--most", options.most, MOST_MISSES, 100_000),
        seconds=float(whole_number("--seconds", options.seconds, int(SECONDS), 86_400)),
        jobs=whole_number("--jobs", options.jobs, processors(), 256),
        namespaces=options.setting == "walled",
        told=told,
    )
    document = {"out": str(out), "cases": len(done.traces), "traced": done.traced, "left": done.left}
    lines = [f"{len(done.traces)} misses of {record.info.run} have a trace ({done.traced} traced now): {out}"]
    if done.left:
        lines.append(f"{done.left} more have none: they are too many (--most), or cannot be run alone.")
    say_result(document, lines, as_json=options.json)
    return 0

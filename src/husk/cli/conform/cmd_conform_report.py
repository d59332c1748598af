"""cli/conform: `husk conform report`: all documents about some runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.conform.conform_inputs import known_calls, known_traces, known_uses, named_records
from husk.cli.output import say_result
from husk.conform.history.database import History, open_history
from husk.conform.matrix.coverage import coverage
from husk.conform.report.write_reports import write_reports
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.conform.outcomes import RunRecord


def main(options: Values) -> int:
    if options.date and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", options.date, re.ASCII):
        raise UsageError(f"--date {options.date}: write YYYY-MM-DD.")
    records = named_records(options.results, options.runs)
    if not options.out:
        raise UsageError("say where the documents go: husk conform report --out DIR")
    with open_history() as history:
        records = records or _last(history)
        today = options.date or records[0].info.ended[:10] or records[0].info.started[:10]
        if not today:
            raise UsageError("the run has no date; give one with --date YYYY-MM-DD.")
        calls, uses, traces = known_calls(options.calls), known_uses(options.uses), known_traces(options.traces)
        whole = [record for record in records if not record.info.case_filter]  # a part would give other shares
        rows = coverage(whole or records, calls, uses)
        written = write_reports(records, rows, history, Path(options.out), today, calls=calls, uses=uses, traces=traces)
    say_result({"files": [str(path) for path in written]}, [str(path) for path in written], as_json=options.json)
    return 0


def _last(history: History) -> list[RunRecord]:
    runs = history.runs()
    if not runs:
        raise UsageError("there is no run yet; `husk conform run SUITE…` makes one, or name a results.json.")
    return [history.record(max(runs, key=lambda one: one.info.started).info.run)]

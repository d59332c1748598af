"""cli/conform: `husk conform history`, `import` and `forget`: what runs there were, and which are kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.conform.conform_show import MOST_NAMED
from husk.cli.conform.history_show import case_lines, run_document, run_lines, sighting_document
from husk.cli.output import say_result
from husk.conform.history.database import open_history
from husk.conform.results_file import read_results
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.conform.history.database import History

MOST_RUNS = 30  # that are listed without --last


def main(options: Values) -> int:
    with open_history() as history:
        return _cases(history, options) if options.case else _runs(history, options)


def _runs(history: History, options: Values) -> int:
    runs = history.runs(options.runtime)
    if options.runtime and not runs:
        raise _no_runtime(history, options.runtime)
    last = options.last or (len(runs) if options.json else MOST_RUNS)
    say_result({"runs": [run_document(one) for one in runs[-last:]]}, run_lines(runs, last), as_json=options.json)
    return 0


def _no_runtime(history: History, runtime: str) -> UsageError:
    known = sorted({one.info.runtime for one in history.runs()})
    there = f"there are runs of {', '.join(known)}" if known else "there are no runs yet; `husk conform run` adds one"
    return UsageError(f"--runtime {runtime}: {there}.")


def _cases(history: History, options: Values) -> int:
    names = history.cases(options.case)
    if not names:
        raise UsageError(f"--case {options.case}: no case of the history fits; it is a pattern for SUITE/FILE/CASE.")
    shown = names if options.json else names[:MOST_NAMED]
    seen = {name: history.of_case(name, options.runtime) for name in shown}
    lines = [line for name in shown for line in case_lines(name, seen[name])]
    if len(names) > len(shown):
        lines.append(f"… and {len(names) - len(shown)} more cases; --json has them all")
    document = {str(name): [sighting_document(one) for one in seen[name]] for name in shown}
    say_result({"cases": document}, lines, as_json=options.json)
    return 0


def import_runs(options: Values) -> int:
    # All are read before one is added: a file that is none keeps the others out, too.
    records = [read_results(Path(name)) for name in options.results]
    with open_history() as history:
        added = {record.info.run: history.add(record) for record in records}
    lines = [f"{run}: {'added' if new else 'is there already'}" for run, new in added.items()]
    say_result({"added": [run for run, new in added.items() if new], "runs": list(added)}, lines, as_json=options.json)
    return 0


def forget_runs(options: Values) -> int:
    with open_history() as history:
        known = {one.info.run for one in history.runs()}
        for run in options.runs:
            if run not in known:
                raise UsageError(f"the history holds no run {run!r}; `husk conform history` lists them.")
        for run in dict.fromkeys(options.runs):
            history.forget(run)
    say_result({"forgotten": options.runs}, [f"{run}: forgotten" for run in options.runs], as_json=options.json)
    return 0

"""cli/conform: `husk conform run`: suites, natively first and then where they are to be measured."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.conform.conform_show import score_lines
from husk.cli.exit_codes import INTERRUPTED
from husk.cli.live_progress import told_progress
from husk.cli.output import say, say_result
from husk.conform.execute.run_suites import Options, run_directory, run_suites, unused_rows
from husk.conform.execute.where import where
from husk.conform.judge.expected import Expected, expected_failures
from husk.conform.results_file import as_document, read_results, write_results
from husk.conform.suite_file import read_suite
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.conform.execute.run_suites import MakeWorkers
    from husk.conform.execute.where import Where
    from husk.conform.outcomes import RunRecord


def main(options: Values) -> int:
    suites = [read_suite(Path(name)) for name in options.suites]
    expected = expected_failures([Path(name) for name in options.expected], [suite.place for suite in suites])
    place = where(options.under, options.setting, options.user, options.image)
    if options.out and not Path(options.out).absolute().parent.is_dir():
        raise UsageError(f"--out {options.out}: the directory does not exist; make it first.")
    how = Options(
        filters=tuple(options.filter),
        jobs=options.jobs,
        timeout=options.timeout,
        repeat=options.repeat,
        baseline=read_results(Path(options.baseline)) if options.baseline else None,
        fresh_baseline=options.fresh_baseline,
        expected=expected,
        resume=options.resume,
        alone=options.alone,
    )
    try:
        with _workers(options.cluster, place) as workers, told_progress(quiet=options.quiet) as watch:
            record = run_suites(suites, place, how, workers=workers, watch=watch)
    except KeyboardInterrupt:
        say("husk conform: stopped; what ran is recorded: the same command with --resume goes on.", file=sys.stderr)
        return INTERRUPTED
    return _tell(record, options, expected)


def _workers(cluster: str, place: Where) -> AbstractContextManager[MakeWorkers | None]:
    """None: threads of this process."""
    if not cluster:
        return nullcontext()
    from husk.conform.execute.cluster_workers import cluster_workers

    return cluster_workers(cluster, place)


def _tell(record: RunRecord, options: Values, expected: Expected) -> int:
    from husk.conform.history.database import open_history

    with open_history() as history:
        history.add(record)
    if options.out:
        write_results(record, Path(options.out))
    unused = unused_rows(record, expected)
    misses = sum(one.unexpected_miss for one in record.cases)
    path = run_directory(record.info.run) / "results.json"
    lines = score_lines(record)
    if unused:
        lines += ["", f"expected failures that fit no case ({len(unused)}):"]
        lines += [f"  {row.case}: {row.text}" for row in unused]
    if not record.info.whole:
        lines += ["", "Not whole: some units were lost, and their cases have no result."]
    document = as_document(record)
    document["path"] = str(path)
    document["unused_rows"] = [row.case for row in unused]
    say_result(document, [*lines, "", f"{path}"], as_json=options.json)
    return 1 if misses or not record.info.whole else 0

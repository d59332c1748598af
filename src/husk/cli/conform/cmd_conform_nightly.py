"""cli/conform: `husk conform nightly`: what a timer starts every night."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.cli.conform.history_show import change_lines, changes_document
from husk.cli.live_progress import told_progress
from husk.cli.output import say, say_result
from husk.conform.execute.run_suites import run_suites
from husk.conform.nightly.night import EXIT_CODES, NO_CHANGE, prepare, run_night
from husk.conform.nightly.nightly_config import NightlyConfig, read_nightly
from husk.conform.nightly.publish import committed, plan_publication, publish
from husk.conform.nightly.request_text import request_text
from husk.sandbox.errors import HuskError, UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.conform.execute.run_suites import MakeWorkers, Options
    from husk.conform.execute.where import Where
    from husk.conform.nightly.night import Compared, Night, Prepared
    from husk.conform.outcomes import RunRecord
    from husk.conform.suite_file import Suite


def main(options: Values) -> int:
    config = read_nightly(Path(options.config))
    if options.publish and config.publish is None:
        raise UsageError(f"{options.config}: --publish needs a section [publish].")
    prepared = prepare(config)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    if options.dry_run:
        return _show_plan(config, prepared, today, options)
    if options.publish:
        _check_publishing(config, today)

    def told(line: str) -> None:
        if not options.quiet:
            say(line, file=sys.stderr)

    def run(suites: list[Suite], there: Where, how: Options) -> RunRecord:
        with _workers(config.cluster, there) as workers, told_progress(quiet=options.quiet) as watch:
            return run_suites(suites, there, how, workers=workers, watch=watch)

    night = run_night(config, prepared, today, told, run)
    document = _document(night)
    lines = [line for one in night.runs for line in _lines(one)]
    failure: HuskError | None = None
    if options.publish:
        try:
            document["published"] = _publish(config, night, today)
            lines.append(document["published"])
        except HuskError as error:  # the night itself is told first
            failure = error
    say_result(document, [*lines, night.summary()], as_json=options.json and failure is None)
    if failure is not None:
        raise HuskError(f"{failure} Runs and documents are kept: {config.out}.") from None
    return EXIT_CODES[night.end]


def _workers(cluster: str, there: Where) -> AbstractContextManager[MakeWorkers | None]:
    """None: threads of this process."""
    if not cluster:
        return nullcontext()
    from husk.conform.execute.cluster_workers import cluster_workers

    return cluster_workers(cluster, there)


def _publish(config: NightlyConfig, night: Night, today: str) -> str:
    assert config.publish is not None
    if night.end == NO_CHANGE:
        return "nothing is published: no change"
    plan = plan_publication(config.publish, today)
    files = committed(config.publish, plan.root, night.documents)
    body = request_text(night, list(files.values()))
    return publish(config.publish, plan, night.documents, night.summary(), body)


def _check_publishing(config: NightlyConfig, today: str) -> None:
    """Before hours of running: is there a repository, a remote and gh at all?"""
    assert config.publish is not None
    plan_publication(config.publish, today)


def _lines(one: Compared) -> list[str]:
    if one.old is None or one.found is None:
        return []
    lines = change_lines(one.old, one.record, one.found)
    if one.unsteady:
        lines += ["", f"come and go, counted as neither ({len(one.unsteady)}):"]
        lines += [f"  {change.name}" for change in one.unsteady]
    return [*lines, ""]


def _document(night: Night) -> dict[str, Any]:
    return {
        "end": night.end,
        "exit_code": EXIT_CODES[night.end],
        "summary": night.summary(),
        "runs": [_run_document(one) for one in night.runs],
        "documents": [str(path) for path in night.documents],
    }


def _run_document(one: Compared) -> dict[str, Any]:
    about: dict[str, Any] = {"run": one.record.info.run, "end": one.end}
    if one.old is not None and one.found is not None:
        about["changes"] = changes_document(one.old, one.record, one.found)
        about["unsteady"] = [str(change.name) for change in one.unsteady]
    return about


def _show_plan(config: NightlyConfig, prepared: Prepared, today: str, options: Values) -> int:
    """Nothing is run and nothing is written."""
    which = "the programs that exercise what the skills call" if config.choose == "used" else "all programs"
    lines = [f"would trace {len(config.skills)} directories of skills"] if config.skills else []
    lines += [f"would run {which} of {', '.join(suite.name for suite in prepared.suites)}:"]
    lines += [
        f"  {there.runtime}" + (f" as {there.user}" if there.user else "") + f": {' '.join(there.words) or 'natively'}"
        for there in prepared.places
    ]
    lines += [f"would write the documents to {config.out}"]
    document: dict[str, Any] = {
        "suites": [suite.name for suite in prepared.suites],
        "runs": [there.runtime for there in prepared.places],
        "out": str(config.out),
    }
    if options.publish and config.publish is not None:
        plan = plan_publication(config.publish, today)
        lines += plan.lines([str(config.out / name) for name in config.publish.files])
        document["publish"] = {
            "branch": plan.branch, "pull_request": plan.number or None, "push": ["git", *plan.push],
            "request": plan.request,
        }  # fmt: skip
    say_result(document, lines, as_json=options.json)
    return 0

"""cli/conform: `husk conform build`: the programs of a suite from a checkout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from husk.cli.output import say, say_result
from husk.conform.builders.gvisor_build import BuildReport, BuildRequest, build_gvisor
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.conform.builders.ninja_run import Progress

NOT_ALL = 1  # exit code: some programs could not be built


def main(options: Values) -> int:
    for name in ("source", "out"):
        if not getattr(options, name):
            raise UsageError(f"say --{name} DIR; `husk conform build --help` tells what goes there.")
    request = BuildRequest(
        options.source, options.out, options.abseil, options.googletest, options.benchmark, options.jobs,
        tuple(options.filter),
    )  # fmt: skip
    with _progress(quiet=options.quiet or options.json) as progress:
        report = build_gvisor(request, progress)
    say_result(asdict(report), _lines(report), as_json=options.json)
    return 0 if report.whole else NOT_ALL


def _lines(report: BuildReport) -> list[str]:
    lines = [f"{name}: {error}" for name, error in report.failed.items()]
    lines += [f"{name}: left out: {reason}" for name, reason in report.left_out.items()]
    lines += [f"{name}: built without {what}" for name, missing in report.incomplete.items() for what in missing]
    return [*lines, f"{len(report.built)} of {report.wanted} programs are built; the suite is {report.suite}"]


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress]:
    """On a terminal a bar; elsewhere a line for each tenth, for the log of a long build."""
    if quiet:
        yield lambda done, total, step: None
    elif not sys.stderr.isatty():
        yield _tenths()
    else:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        from husk.abi.text import harmless

        with Progress(
            TextColumn("building"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeRemainingColumn(),
            TextColumn("{task.description}"), console=Console(stderr=True), transient=True,
        ) as bar:  # fmt: skip
            task = bar.add_task("", total=None)
            yield lambda done, total, step: bar.update(
                task, completed=done, total=total, description=escape(harmless(step))
            )


def _tenths() -> Progress:
    said = 0

    def advance(done: int, total: int, step: str) -> None:
        nonlocal said
        if done * 10 // total > said:
            said = done * 10 // total
            say(f"{done} of {total} steps", file=sys.stderr)

    return advance

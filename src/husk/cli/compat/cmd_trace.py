"""cli/compat: `husk trace`: run a program as `husk run` does, and report what it asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from husk.cli.cmd_run import with_signals
from husk.cli.exit_codes import failed, reader_left
from husk.cli.options.compat_options import TRACE
from husk.cli.options.values import positive_count
from husk.cli.output import say, say_table
from husk.cli.run_policy import RunOptions
from husk.compat.census import Census, write_census
from husk.compat.trace.call_log import log_lines
from husk.compat.trace.families import totals
from husk.compat.trace.html_page import LOST, html_page
from husk.compat.trace.traced_run import LINES, Traced, trace
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

MOST_LINES = 10_000_000  # of a log: some gigabyte of memory
MOST_ROWS = 40  # of the table


def main(args: list[str]) -> int:
    try:
        options = RunOptions(args, TRACE)
        if options.help:
            from husk.cli.options.help_text import print_help

            return print_help("husk trace", TRACE)
        return _trace(options)
    except BrokenPipeError:
        return reader_left()
    except Exception as error:
        return failed(TRACE, args, error)


def _trace(options: RunOptions) -> int:
    report = Report(options)
    # Where the report goes to standard output, the program's own output must not stand in it.
    stdio = (0, 2, 2) if report.on_stdout else (0, 1, 2)
    traced = trace(options.policy, with_signals, lines=report.lines, stdio=stdio)
    for fault in traced.result.faults:
        say("husk: a fault of husk's own (the guest saw EIO):", *fault.splitlines(), file=sys.stderr)
    for limit in traced.result.limits:
        say(f"husk: {limit}{'; the box was ended' if limit.ended else ''}.", file=sys.stderr)
    report.write(traced)
    if not report.quiet:
        show_summary(traced.census)
    return traced.result.exit_code


class Report:
    """Where the report goes, and in which form. Files are opened before the program runs: a mistake should not cost a
    run."""

    def __init__(self, options: RunOptions) -> None:
        more = options.more
        output, log = more.get("output", ""), more.get("log", "")
        html = "html" in more or output.endswith(".html")
        json = options.json or (output.endswith(".json") and not html)
        if options.json and html:
            raise UsageError("--json and --html are two forms of the same; choose one, and -o FILE for each run.")
        self.form = "json" if json else "html" if html else "log" if output else ""
        if self.form == "log" and log:
            raise UsageError("-o and --log would both write the log; leave one out, or add --json or --html.")
        self.on_stdout = self.form in ("json", "html") and not output
        self.quiet = options.quiet or self.on_stdout
        wanted = positive_count(more["log_lines"]) if "log_lines" in more else LINES
        if wanted > MOST_LINES:
            raise UsageError(f"--log-lines {wanted}: the most is {MOST_LINES}.")
        if "log_lines" in more and not (log or self.form == "log"):
            raise UsageError("--log-lines is about a log; add -o FILE or --log FILE.")
        self.lines = wanted if log or self.form == "log" else 0
        self._output = _opened("-o", output)
        self._log = _opened("--log", log)

    def write(self, traced: Traced) -> None:
        text: Iterable[str] = ()
        if self.form:
            text = log_lines(traced) if self.form == "log" else (as_text(traced.census, self.form),)
        if self.on_stdout:
            say(*"".join(text).splitlines())
        elif self._output is not None:
            with self._output:
                self._output.writelines(text)
        if self._log is not None:
            with self._log:
                self._log.writelines(log_lines(traced))


def as_text(census: Census, form: str) -> str:
    return write_census(census) if form == "json" else html_page(census)


def _opened(option: str, name: str) -> TextIO | None:
    if not name:
        return None
    try:
        return open(name, "w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"{option} {name}: {error.strerror}.") from None


def show_summary(census: Census) -> None:
    """On standard error: standard output is the program's."""
    out, every = sys.stderr, totals(census)
    count, processes = sum(total.count for total in every), len({program.pid for program in census.programs})
    end = f"ended by {census.crash}" if census.crash else f"exit code {census.status}"
    rows = [
        (
            total.call,
            f"{total.count}",
            ", ".join(sorted(total.ways)),
            f"{total.seconds * 1000:.1f}" if total.seconds else "",
            ", ".join(f"{name} {number}" for name, number in sorted(total.errors.items())),
        )
        for total in every[:MOST_ROWS]
    ]
    head = [("call", "left"), ("count", "right"), ("way", "left"), ("ms in husk", "right"), ("errors", "left")]
    say("", file=out)
    title = f"{count} calls of {processes} process{'es' if processes != 1 else ''} in {census.seconds:.2f} s; {end}"
    say_table(title, head, rows, file=out)
    if len(every) > MOST_ROWS:
        say(f"{len(every) - MOST_ROWS} more calls are in the reports (--json, --html).", file=out)
    refused = [(asked, reason) for asked in census.calls for reason in asked.reasons]
    for asked, reason in refused[:MOST_ROWS]:
        say(f"{asked.call} was refused: {reason}", file=out)
    used = [
        f"{sum(1 for file in census.files if getattr(file, how))} {how}"
        for how in ("read", "written", "executed", "listed")
    ]
    say(f"Files: {', '.join(used)}. Addresses: {len(census.addresses)}.", file=out)
    for kind, number in census.lost.items():
        say(f"Not written down: {number} {LOST.get(kind, kind)}.", file=out)
    say("Results and durations of native calls are not seen.", file=out)

"""cli/conform: `husk conform matrix`: the coverage matrix as a table, as Markdown, as JSON."""

from __future__ import annotations

import difflib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from husk.cli.conform.conform_inputs import known_calls, known_uses, named_records
from husk.cli.output import say, say_json, say_table
from husk.conform.matrix.coverage import Row, coverage
from husk.conform.report.analysis import matrix_table
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from husk.cli.options.parse_words import Values

MOST_FILES = 1


def main(options: Values) -> int:
    if options.json and options.markdown:
        raise UsageError("--json and --markdown are two forms of the same; choose one.")
    calls, uses = known_calls(options.calls), known_uses(options.uses)
    rows = coverage(named_records(options.results, options.runs), calls, uses)
    rows = _chosen(rows, options.calls_wanted)
    if options.priority:
        if uses is None:
            raise UsageError("--priority: what programs use was not measured; do so with `husk conform uses`.")
        rows = [row for row in rows if row.priority == options.priority]
    if options.json:
        say_json([as_json(row) for row in rows])
    elif options.markdown:
        say(*matrix_table(rows).splitlines())
    else:
        _show(rows, notes=bool(options.calls_wanted))
        if calls is None:
            say("not traced: no suite file is known to exercise a call; `husk conform trace SUITE…` finds out.")
        if uses is None:
            say("not measured: no call has a priority; `husk conform uses` finds out.")
    return 0


def _chosen(rows: list[Row], names: Sequence[str]) -> list[Row]:
    known = {row.call: row for row in rows}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3)
            hint = f"; did you mean {' or '.join(close)}?" if close else "; `husk syscalls` lists them all."
            raise UsageError(f"Linux on x86-64 has no system call {name!r}{hint}")
    return [known[name] for name in dict.fromkeys(names)] if names else rows


def as_json(row: Row) -> dict[str, Any]:
    """Null where something was not traced or not measured."""
    shown = asdict(row)
    shown["files"] = None if row.files is None else [f"{suite}/{file}" for suite, file in row.files]
    shown["by_runtime"] = {name: {"passed": passed, "total": total} for name, passed, total in row.by_runtime}
    return shown


def _show(rows: Sequence[Row], *, notes: bool) -> None:
    """Everything about a call where only some are asked for."""
    head = [("call", "left"), ("husk", "left"), ("priority", "left"), ("cases", "right"), ("exercised by", "left"),
            ("used by", "left")]  # fmt: skip
    cells = []
    for row in rows:
        users = [*(row.interpreters or ()), *([f"{len(row.skills)} skills"] if row.skills else [])]
        way = row.way + ("*" if row.depends else "")
        cases = f"{row.passed}/{row.total}" if row.total else ""
        cells.append((row.call, way, row.priority, cases, _exercised(row), ", ".join(users)))
    say_table("", head, cells, file=sys.stdout)
    for row in rows if notes else ():
        say(f"{row.call}: {row.note}")
        if row.files:
            say(f"  exercised by {', '.join(f'{suite}/{file}' for suite, file in row.files)}")
        if row.skills:
            say(f"  used by the skills {', '.join(row.skills)}")
        for name, passed, total in row.by_runtime:
            say(f"  {name}: {passed} of {total} cases pass")


def _exercised(row: Row) -> str:
    if row.files is None:
        return "not traced"
    names = ", ".join(file.rpartition("/")[2] for _, file in row.files[:MOST_FILES])
    return f"{names}, {len(row.files) - MOST_FILES} more" if len(row.files) > MOST_FILES else names

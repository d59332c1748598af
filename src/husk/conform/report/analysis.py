"""conform/report: SYSCALL_ANALYSIS.md: the coverage matrix by priority, gaps, recommendations, references."""

from __future__ import annotations

from collections.abc import Sequence

from husk.abi.registry import NEWEST_LINUX
from husk.conform.matrix.calls_file import Calls
from husk.conform.matrix.coverage import NATIVE, REFUSED, VIRTUAL, Row
from husk.conform.matrix.priority import NOT_MEASURED, PRIORITIES
from husk.conform.matrix.uses_file import INTERPRETER, SKILL, Uses
from husk.conform.outcomes import RunRecord, percent, score
from husk.conform.report.findings import misses_by_file, not_exercised, recommendations, refused_in_use
from husk.conform.report.markdown import Markup, code, fill, listed, table

MOST_FILES_OF_A_CALL, MOST_USERS, MOST_MISSING_FILES = 3, 4, 30
MOST_FILTER = 60  # characters of a filter


def analysis(
    records: Sequence[RunRecord], rows: Sequence[Row], calls: Calls | None, uses: Uses | None, today: str
) -> str:
    unused = not_exercised(rows)
    return fill(
        "syscall_analysis.md.j2",
        {
            "today": today,
            "runs": run_table(records) if records else None,
            "traced": calls is not None and bool(calls.suites),
            "measured": any(row.interpreters is not None or row.skills is not None for row in rows),
            "linux": NEWEST_LINUX,
            "ways": {way: sum(row.way == way for row in rows) for way in (NATIVE, VIRTUAL, REFUSED)},
            "calls": len(rows),
            "exercised": sum(bool(row.files) for row in rows),
            "used": sum(row.used for row in rows),
            "used_fine": sum(row.used and row.way != REFUSED for row in rows),
            "summary": summary_table(rows),
            "sections": [
                (priority.capitalize(), len(some), matrix_table(some))
                for priority in (*PRIORITIES, NOT_MEASURED)
                if (some := [row for row in rows if row.priority == priority])
            ],
            "refused": _refused(rows, uses),
            "families": [(name, _families(one)) for name, one in labelled(records) if len(one.families()) > 1],
            "files": [(name, _files(record, rows)) for name, record in labelled(records)],
            "unexercised": listed([code(row.call) for row in unused]) if unused else None,
            "recommendations": recommendations(records, rows, uses),
            "suites": [
                (name, suite.title, suite.source, len(suite.files))
                for name, suite in (calls.suites.items() if calls is not None else ())
            ],
            "interpreters": len(uses.measured(INTERPRETER)) if uses is not None else 0,
            "skills": len(uses.measured(SKILL)) if uses is not None else 0,
            "uses": uses,
        },
    )


def labelled(records: Sequence[RunRecord]) -> list[tuple[str, RunRecord]]:
    """Each with its runtime's name, and with its suites where other records are of that runtime, too."""
    runtimes = [record.info.runtime for record in records]
    return [
        (f"{name}, {', '.join(record.info.suites)}" if runtimes.count(name) > 1 else name, record)
        for name, record in zip(runtimes, records, strict=True)
    ]


def suites_of(record: RunRecord) -> str:
    """And which of their cases, where a filter chose some."""
    only = record.info.case_filter
    shown = only if len(only) <= MOST_FILTER else f"{only[:MOST_FILTER]}…"
    return ", ".join(record.info.suites) + (f" (only {shown})" if only else "")


def run_table(records: Sequence[RunRecord]) -> Markup:
    def row(record: RunRecord) -> list[object]:
        info, total = record.info, score(record.cases)
        passed = f"{total.passed} of {total.counted}"
        return [
            code(info.run), info.runtime, info.version, info.kernel, info.user, suites_of(record), passed,
            percent(total.share), percent(total.share_but_design), "yes" if info.whole else "no",
        ]  # fmt: skip

    head = ("run", "runtime", "version", "kernel", "user", "suites", "pass #", "share #", "but design #", "whole")
    return table(head, map(row, records))


def summary_table(rows: Sequence[Row]) -> Markup:
    def row(priority: str) -> list[object]:
        some = [one for one in rows if one.priority == priority]
        ways = [sum(one.way == way for one in some) for way in (NATIVE, VIRTUAL, REFUSED)]
        traced = any(one.files is not None for one in some)
        exercised = [one for one in some if one.files]
        whole = sum(one.total > 0 and not one.missed for one in exercised)
        ran = any(one.total for one in exercised)
        return [priority, len(some), *ways, len(exercised) if traced else "not traced", whole if ran else "–"]

    there = [name for name in (*PRIORITIES, NOT_MEASURED) if any(one.priority == name for one in rows)]
    head = ("priority", "calls #", "native #", "virtual #", "refused #", "exercised #", "all cases pass #")
    return table(head, map(row, there))


def matrix_table(rows: Sequence[Row]) -> Markup:
    """A column of cases for each runtime that was run."""
    runtimes = list(dict.fromkeys(name for row in rows for name, _, _ in row.by_runtime))
    several = len(runtimes) > 1

    def line(row: Row) -> list[object]:
        passed = {name: f"{good} of {total}" if total else "–" for name, good, total in row.by_runtime}
        way = f"{row.way}\u202f*" if row.depends else row.way
        return [
            code(row.call), way, _exercised(row),
            *([passed.get(name, "–") for name in runtimes] or ["–"]), _used_by(row), row.note,
        ]  # fmt: skip

    heads = [f"cases passed, {name} #" for name in runtimes] if several else ["cases passed #"]
    return table(("call", "husk", "exercised by", *heads, "used by", "note"), map(line, rows))


def _exercised(row: Row) -> object:
    if row.files is None:
        return "not traced"
    return listed([code(file.rpartition("/")[2]) for _, file in row.files], MOST_FILES_OF_A_CALL) or "no file"


def _used_by(row: Row) -> object:
    if row.interpreters is None and row.skills is None:
        return "not measured"
    names = list(row.interpreters or ())
    skills = len(row.skills or ())
    if skills > MOST_USERS:
        return listed([*names, f"{skills} skills"])
    return listed([*names, *(row.skills or ())]) or "–"


def _refused(rows: Sequence[Row], uses: Uses | None) -> Markup | None:
    found = refused_in_use(rows, uses)
    if not found:
        return None
    return table(
        ("call", "priority", "used by", "and they", "note"),
        (
            [code(one.row.call), one.row.priority, _used_by(one.row),
             Markup(f"fail: {listed(one.failing)}") if one.failing else "work without it", one.row.note]
            for one in found
        ),
    )  # fmt: skip


def _families(record: RunRecord) -> Markup:
    lines = []
    for name, cases in record.families().items():
        total = score(cases)
        lines.append(
            [
                name,
                f"{total.passed} of {total.counted}",
                percent(total.share),
                total.missed,
                total.expected,
                total.by_design,
            ]
        )
    return table(("family", "pass #", "share #", "missed #", "expected #", "by design #"), lines)


def _files(record: RunRecord, rows: Sequence[Row]) -> Markup | None:
    found = misses_by_file(record, rows)
    if not found:
        return None
    lines: list[list[object]] = []
    for one in found[:MOST_MISSING_FILES]:
        worst = (one.unexplained or one.misses)[0]
        why = f"{worst.name.case}: {worst.expected or worst.why or worst.verdict}"
        lines.append(
            [
                code(one.file),
                f"{len(one.misses)} of {one.counted}",
                len(one.unexplained),
                listed(map(code, one.calls), 4),
                why,
            ]
        )
    left = found[MOST_MISSING_FILES:]
    if left:
        sums = f"{sum(len(one.misses) for one in left)} of {sum(one.counted for one in left)}"
        lines.append([f"{len(left)} more files", sums, sum(len(one.unexplained) for one in left), "", ""])
    return table(("file", "missed #", "unexplained #", "about", "for one"), lines)

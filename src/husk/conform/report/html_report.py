"""conform/report: the HTML report: one file for a browser, without a network.

Here: what the page says, as values for templates/report.html. The parts that are the same with and without a script are
made here; the table of cases is made by templates/report.js from the data that page_data.py embeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from husk.compat.html_shell import base_style, markup, page_head, template_environment
from husk.conform.history.run_changes import Changes, changes
from husk.conform.matrix.coverage import Row
from husk.conform.matrix.priority import NOT_MEASURED, PRIORITIES
from husk.conform.outcomes import MISSES, PASS, CaseName, Judged, RunRecord, Score, percent
from husk.conform.report.page_data import MOST_OUTPUTS, Column, Embedded, columns, embedded, reasons, user_text
from husk.conform.report.trend_chart import SERIES, TrendPoint, chart, trends_of

_TEMPLATES = Path(__file__).parent / "templates"
_TITLE = "Linux conformance"
MOST_MISSES = 2000  # rows of the list for paper
MOST_NAMED = 12  # cases of a change that are named
MOST_TRENDS = 4
WIDE, NARROW = (960, 260), (340, 220)  # charts for a desk and for a phone
# The lowest share of each shade of the heat map, the best first; what passes wholly has one of its own.
_SHADES = ((1.0, "all"), (0.99, "99 %"), (0.97, "97 %"), (0.9, "90 %"), (0.75, "75 %"), (0.5, "50 %"), (0.0, "less"))


def html_report(
    records: Sequence[RunRecord],
    trends: Sequence[TrendPoint],
    rows: Sequence[Row],
    today: str,
    *,
    previous: Mapping[str, RunRecord] | None = None,
    traces: Mapping[CaseName, str] | None = None,
) -> str:
    """The page. The headline is about the first record's runtime; the others stand beside it. `previous` has the run
    that each run is compared with, by the later one's name. `traces` are excerpts of what a case called. Outputs are
    shortened to a budget that the page states."""
    found = columns(records)
    changed = _changes(found, records, previous or {})
    why_missed = reasons(found)
    data = embedded(found, why_missed, rows, {number: one.what for number, one in changed.items()}, traces or {})
    style = base_style() + (_TEMPLATES / "report.css").read_text()
    script = (_TEMPLATES / "report.js").read_text()
    page = _environment().get_template("report.html")
    lead = found[0] if found else Column("", (), {})
    made: str = page.render(
        head=markup(page_head(f"{_TITLE}: {lead.label}", style, script)),
        title=_TITLE,
        today=today,
        script=markup(script),
        data=markup(data.json()),
        lead=lead,
        columns=found,
        suites=sorted({name.suite for name in data.names}),
        hero=_parts(lead.score),
        parts={column.label: _parts(column.score) for column in found},
        changed=changed,
        trends=_trends(trends, found),
        families=_families(found),
        shades=[text for _, text in _SHADES],
        differences=_differences(found),
        reasons=list(enumerate(why_missed)),
        priorities=_by_priority(rows),
        traced=any(row.files is not None for row in rows),
        misses=_misses(lead),
        most_misses=MOST_MISSES,
        most_named=MOST_NAMED,
        outputs=_outputs_note(data),
        total=len(data.names),
    )
    return made


def _environment() -> Any:
    made = template_environment(_TEMPLATES, "The HTML report", "conform")
    made.filters |= {"percent": percent, "count": _count, "share_of": _shade, "duration": _duration, "user": user_text}
    made.globals["SERIES"] = SERIES
    return made


def _count(number: int) -> str:
    return f"{number:,}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


# -- headline ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Part:
    """A part of a bar of cases: what it is called, how many, and where it begins and how wide it is in per cent."""

    name: str
    kind: str
    count: int
    begin: float
    width: float


def _parts(total: Score) -> list[_Part]:
    """What counts, split by what became of it."""
    other = total.expected - total.by_design
    split = [
        ("pass", "pass", total.passed),
        ("refused by design", "design", total.by_design),
        ("expected, with a reason", "expected", other),
        ("missed, not expected", "missed", total.missed - total.expected),
    ]
    made, begin = [], 0.0
    for name, kind, count in split:
        width = 100 * count / total.counted if total.counted else 0.0
        made.append(_Part(name, kind, count, round(begin, 3), round(width, 3)))
        begin += width
    return made


@dataclass(frozen=True)
class _Change:
    """What changed in a column since the runs before. `points` is the change of its score in per cent."""

    what: Changes
    points: float | None
    since: str


def _changes(
    found: Sequence[Column], records: Sequence[RunRecord], previous: Mapping[str, RunRecord]
) -> dict[int, _Change]:
    by_run = {record.info.run: record for record in records}
    made = {}
    for number, column in enumerate(found):
        pairs = [(previous[info.run], by_run[info.run]) for info in column.infos if info.run in previous]
        if not pairs:
            continue
        each = [changes(old, new) for old, new in pairs]
        whole = Changes(
            [one for found in each for one in found.regressions], [one for found in each for one in found.fixes],
            [one for found in each for one in found.appeared], [one for found in each for one in found.gone],
            [one for found in each for one in found.shifted], tuple(note for found in each for note in found.notes),
        )  # fmt: skip
        before, after = _share([old for old, _ in pairs]), _share([new for _, new in pairs])
        points = 100 * (after - before) if before is not None and after is not None else None
        made[number] = _Change(whole, points, max(old.info.started for old, _ in pairs)[:10])
    return made


def _share(records: Sequence[RunRecord]) -> float | None:
    scores = [column.score for column in (columns([record])[0] for record in records)]
    counted = sum(one.counted for one in scores)
    return sum(one.passed for one in scores) / counted if counted else None


# -- sections ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Trend:
    suites: str
    wide: Any
    narrow: Any
    numbers: list[tuple[str, str, str, str]]  # date, runtime, share, passed of counted; the newest first


def _trends(points: Sequence[TrendPoint], found: Sequence[Column]) -> list[_Trend]:
    series = [column.label for column in found]
    made = []
    for trend in trends_of(points, series)[:MOST_TRENDS]:
        suites = ", ".join(trend.suites)
        name = f"Share of cases that pass over time, {suites}: {', '.join(trend.lines)}. The numbers follow as a table."
        wide, narrow = (
            markup(chart(trend, series, width=width, height=height, name=name)) for width, height in (WIDE, NARROW)
        )
        numbers = [
            (point.info.started[:16].replace("T", " "), runtime, percent(point.score.share),
             f"{point.score.passed:,} of {point.score.counted:,}")
            for runtime, line in trend.lines.items()
            for point in line
        ]  # fmt: skip
        made.append(_Trend(suites, wide, narrow, sorted(numbers, reverse=True)))
    return made


@dataclass(frozen=True)
class _Family:
    name: str
    cells: list[Score | None]


def _families(found: Sequence[Column]) -> list[_Family]:
    """Where most is missed first."""
    names = {name for column in found for name in column.families}
    made = [_Family(name, [column.families.get(name) for column in found]) for name in names]

    def weight(one: _Family) -> tuple[int, int, str]:
        first = one.cells[0]
        return (-first.missed if first is not None else 1, -sum(cell.missed for cell in one.cells if cell), one.name)

    return sorted(made, key=weight)


def _shade(total: Score) -> str:
    """The class of a cell of the heat map."""
    share = total.share
    if share is None:
        return "none"
    return f"{next(number for number, (least, _) in enumerate(_SHADES) if share >= least)}"


def _differences(found: Sequence[Column]) -> list[list[int | None]]:
    """How many cases pass in the row's runtime and are missed in the column's."""
    return [
        [
            None
            if here is there
            else sum(
                one.verdict == PASS and (other := there.cases.get(name)) is not None and other.verdict in MISSES
                for name, one in here.cases.items()
            )
            for there in found
        ]
        for here in found
    ]


def _by_priority(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    groups = [(name, [row for row in rows if row.priority == name]) for name in (*PRIORITIES, NOT_MEASURED)]
    return [(name, group) for name, group in groups if group]


def _misses(lead: Column) -> list[Judged]:
    """For paper: what is not expected first."""
    missed = [one for one in lead.cases.values() if one.verdict in MISSES]
    return sorted(missed, key=lambda one: (bool(one.expected), one.by_design, one.family, one.name))


def _outputs_note(data: Embedded) -> str:
    if not data.outputs:
        return "No case that was missed left any output."
    text = f"Outputs are kept for cases that were missed, up to {MOST_OUTPUTS >> 20} MiB in all."
    if data.cut:
        text += f" {data.cut:,} of {data.outputs:,} are shortened to {data.longest:,} characters;"
        text += " results.json has them whole."
    return text

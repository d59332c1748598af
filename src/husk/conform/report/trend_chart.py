"""conform/report: scores over time as inline SVG: lines that are told apart without colour, each with its name at its
end.

Colours are classes (`s0`, `s1`, …), so the page's style sheet decides them for light, dark and paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from husk.compat.html_shell import escaped
from husk.conform.outcomes import RunInfo, Score, percent

MOST_POINTS = 90  # of one line: a quarter of nights
SERIES = 6  # colours and dashes; more lines begin again


class TrendPoint(Protocol):
    """A run without its cases: what history lists."""

    @property
    def info(self) -> RunInfo: ...

    @property
    def score(self) -> Score: ...


@dataclass(frozen=True)
class Trend:
    """Runs that can be held against each other: the same suites, a line for each runtime."""

    suites: tuple[str, ...]
    lines: dict[str, list[TrendPoint]]

    @property
    def runs(self) -> int:
        return sum(len(points) for points in self.lines.values())


def trends_of(points: Sequence[TrendPoint], first: Sequence[str]) -> list[Trend]:
    """Of whole runs in which something counts, the trend of most runs first. `first` are the runtimes whose lines lead,
    so that a runtime has the same colour everywhere."""
    found: dict[tuple[str, ...], dict[str, list[TrendPoint]]] = {}
    for point in sorted(points, key=lambda point: point.info.started):
        if point.info.whole and not point.info.case_filter and point.score.counted:
            lines = found.setdefault(tuple(sorted(point.info.suites)), {})
            lines.setdefault(point.info.runtime, []).append(point)
    trends = []
    for suites, lines in found.items():
        order = sorted(lines, key=lambda name: (first.index(name) if name in first else len(first), name))
        trend = Trend(suites, {name: lines[name][-MOST_POINTS:] for name in order})
        if any(len(line) > 1 for line in trend.lines.values()):
            trends.append(trend)
    return sorted(trends, key=lambda trend: (-trend.runs, trend.suites))


def chart(trend: Trend, series: Sequence[str], *, width: int, height: int, name: str) -> str:
    """`name` becomes the accessible label; `series` gives the runtimes their colours."""
    left, top, bottom = 44, 10, 26
    right = min(16 + 9 * max(map(len, trend.lines)), width // 3)  # room for the names, in a wide font too
    times = [_time(point) for line in trend.lines.values() for point in line]
    begin, end = min(times), max(times)
    lowest = min(_share(point) for line in trend.lines.values() for point in line)
    floor, step = _scale(lowest)

    def x(point: TrendPoint) -> float:
        part = (_time(point) - begin) / (end - begin) if end > begin else 1.0
        return left + part * (width - left - right)

    def y(share: float) -> float:
        return top + (1 - share) / (1 - floor) * (height - top - bottom)

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(name)}">', '<g class="grid">']
    for number in range(round((1 - floor) / step) + 1):
        share = 1 - number * step
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y(share):.1f}" y2="{y(share):.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y(share) + 4:.1f}" text-anchor="end">{_tick(share)}</text>')
    for place, anchor, moment in _dates(begin, end, left, width - right):
        parts.append(f'<text x="{place}" y="{height - 6}" text-anchor="{anchor}">{moment}</text>')
    parts.append("</g>")
    ends = _apart([(y(_share(line[-1])), runtime) for runtime, line in trend.lines.items()], top + 4, height - bottom)
    for number, (runtime, line) in enumerate(trend.lines.items()):
        place = series.index(runtime) if runtime in series else len(series) + number
        dots = [(x(point), y(_share(point)), point) for point in line]
        path = " ".join(f"{across:.1f},{down:.1f}" for across, down, _ in dots)
        parts.append(f'<g class="s{place % SERIES}"><polyline points="{path}"/>')
        for across, down, point in dots if len(dots) <= 40 else dots[-1:]:
            words = f"{runtime}, {point.info.started[:10]}: {percent(point.score.share)}"
            parts.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="2.5"><title>{escaped(words)}</title></circle>')
        parts.append(f'<text x="{dots[-1][0] + 8:.1f}" y="{ends[runtime] + 4:.1f}">{escaped(runtime[:20])}</text></g>')
    parts.append("</svg>")
    return "".join(parts)


def _share(point: TrendPoint) -> float:
    share = point.score.share
    assert share is not None
    return share


def _time(point: TrendPoint) -> float:
    try:
        moment = datetime.fromisoformat(point.info.started)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _scale(lowest: float) -> tuple[float, float]:
    """The lowest share of the axis, and the step between its lines: two to five of them. The axis ends at 100 %."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2):
        lines = math.ceil(round((1 - lowest) / step, 6)) or 1
        if lines <= 4:
            return 1 - max(lines, 2) * step, step
    return 0.0, 0.25


def _tick(share: float) -> str:
    return f"{100 * share:.0f} %"


def _dates(begin: float, end: float, left: int, right: int) -> list[tuple[int, str, str]]:
    def day(moment: float) -> str:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")

    if day(begin) == day(end):
        return [(right, "end", day(end))]
    return [(left, "start", day(begin)), (right, "end", day(end))]


def _apart(wanted: list[tuple[float, str]], top: float, bottom: float, gap: float = 14) -> dict[str, float]:
    """Heights for labels, near the wanted ones, that do not cover each other."""
    placed: list[tuple[float, str]] = []
    for height, name in sorted(wanted):
        placed.append((max(height, placed[-1][0] + gap if placed else top), name))
    over = placed[-1][0] - bottom if placed else 0
    for number in range(len(placed) - 1, -1, -1):
        if over <= 0:
            break
        height, name = placed[number]
        placed[number] = (height - over, name)
        if number:
            over = placed[number - 1][0] + gap - placed[number][0]
    return {name: height for height, name in placed}

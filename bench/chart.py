"""Pictures of results, as SVG: points on a logarithmic axis, and curves with two logarithmic axes.

Written by hand because it is little, and because a plotting library would be the largest dependency of the tree.
"""

from __future__ import annotations

import itertools
import math
from html import escape

COLOURS = ("#1f1f1f", "#7b9acc", "#c9b037", "#8a6fb0", "#66a182", "#3a7ca5", "#d67ab1", "#9c7a5b", "#c22f2f", "#e8702a")
HUSK = {"husk rw": "#f08020", "husk cow": "#c21f1f"}
FONT = 'font-family="DejaVu Sans, Verdana, sans-serif"'


class Drawing:
    """Shapes of one picture, on white: a page may be dark."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.parts = [f'<rect width="{width}" height="{height}" fill="#ffffff"/>']

    def text(
        self, x: float, y: float, words: str, *, size: int = 12, anchor: str = "start", fill: str = "#333"
    ) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"'
        self.parts.append(f"<text {place}>{escape(words)}</text>")

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = "#dddddd", width: float = 1) -> None:
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.parts.append(f'<line {ends} stroke="{colour}" stroke-width="{width}"/>')

    def dot(self, x: float, y: float, colour: str, radius: float = 5, title: str = "") -> None:
        shape = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}" fill-opacity="0.85"'
        self.parts.append(f"<circle {shape}><title>{escape(title)}</title></circle>")

    def svg(self) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {FONT}>\n' + "\n".join(self.parts) + "\n</svg>\n"


def ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade between; powers of ten alone where there are many decades."""
    steps = (1, 2, 5) if high / low < 2000 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high * 1.001]


def points(title: str, foot: list[str], rows: list[str], columns: dict[str, list[float | None]]) -> str:
    """A row for each workload, a point for each subject: how many times native it took."""
    left, right, top, row_height = 250, 30, 78, 24
    width, height = 980, top + row_height * len(rows) + 46 + 16 * len(foot)
    drawing = Drawing(width, height)
    values = [value for column in columns.values() for value in column if value]
    low, high = min(0.7, *values), max(2.0, *values) * 1.15

    def x_of(value: float) -> float:
        return left + (width - left - right) * math.log(value / low) / math.log(high / low)

    drawing.text(20, 26, title, size=16, fill="#111")
    x = 20.0
    colours = {name: HUSK.get(name, colour) for name, colour in zip(columns, COLOURS, strict=False)}
    for name, column in columns.items():
        if any(column):
            drawing.dot(x + 5, 48, colours[name])
            drawing.text(x + 14, 52, name)
            x += 30 + 7.4 * len(name)
    bottom = top + row_height * len(rows)
    for value in ticks(low, high):
        drawing.line(x_of(value), top - 6, x_of(value), bottom, "#999999" if value == 1 else "#e4e4e4")
        drawing.text(x_of(value), bottom + 16, f"{value:g}×", size=11, anchor="middle")
    for number, row in enumerate(rows):
        y = top + row_height * (number + 0.5)
        drawing.text(left - 12, y + 4, row, anchor="end")
        drawing.line(left, y, width - right, y, "#f0f0f0")
        for name, column in columns.items():
            if ratio := column[number]:
                drawing.dot(
                    x_of(ratio), y, colours[name], 6 if name.startswith("husk") else 4.5, f"{name}: {ratio:.2f}×"
                )
    for number, words in enumerate(foot):
        drawing.text(20, bottom + 38 + 16 * number, words, size=11, fill="#666")
    return drawing.svg()


def curves(title: str, foot: list[str], panels: list[tuple[str, dict[str, list[tuple[float, float]]]]]) -> str:
    """A panel for each axis of growth: the cost of one against how many there are, both logarithmic."""
    across, panel_width, panel_height, top = 3, 320, 250, 44
    rows = math.ceil(len(panels) / across)
    width, height = across * panel_width + 20, top + rows * panel_height + 16 * len(foot) + 16
    drawing = Drawing(width, height)
    drawing.text(20, 26, title, size=16, fill="#111")
    for number, (name, lines) in enumerate(panels):
        panel(drawing, 10 + panel_width * (number % across), top + panel_height * (number // across), name, lines)
    for number, words in enumerate(foot):
        drawing.text(20, height - 16 * (len(foot) - number), words, size=11, fill="#666")
    return drawing.svg()


def panel(drawing: Drawing, x: float, y: float, name: str, lines: dict[str, list[tuple[float, float]]]) -> None:
    left, right, top, bottom = x + 62, x + 304, y + 26, y + 168
    every = [point for line in lines.values() for point in line]
    drawing.text(x + 12, y + 16, name, size=12, fill="#111")
    if not every:
        return
    low_n, high_n = min(n for n, _ in every), max(n for n, _ in every) * 1.01
    low, high = min(cost for _, cost in every) / 1.5, max(cost for _, cost in every) * 1.5

    def at(n: float, cost: float) -> tuple[float, float]:
        across = (math.log(n / low_n) / math.log(high_n / low_n)) if high_n > low_n * 1.02 else 0.5
        return left + (right - left) * across, bottom - (bottom - top) * math.log(cost / low) / math.log(high / low)

    for value in ticks(low, high):
        _, height = at(low_n, value)
        drawing.line(left, height, right, height, "#e8e8e8")
        drawing.text(left - 6, height + 4, short(value), size=10, anchor="end")
    for value in sorted({n for n, _ in every}):
        across, _ = at(value, high)
        drawing.text(across, bottom + 15, f"{value:,.0f}", size=9, anchor="middle")
    for number, (label, line) in enumerate(lines.items()):
        colour = COLOURS[(number * 3 + 8) % len(COLOURS)]
        places = [at(n, cost) for n, cost in sorted(line)]
        for (x1, y1), (x2, y2) in itertools.pairwise(places):
            drawing.line(x1, y1, x2, y2, colour, 1.6)
        for across, height in places:
            drawing.dot(across, height, colour, 2.6)
        column, row = number % 2, number // 2
        drawing.dot(x + 18 + 152 * column, bottom + 30 + 14 * row, colour, 3)
        drawing.text(x + 25 + 152 * column, bottom + 34 + 14 * row, label, size=10)


def short(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:g} {unit}"
    return f"{nanoseconds:g} ns"

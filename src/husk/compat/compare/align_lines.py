"""compat/compare: which lines of an output vary natively, and a run's lines with those taken out.

A line that differs between two native runs (a time, a pid, an order of threads) says nothing about the place. So the
native runs are aligned with the first one; its lines that are not the same in all of them vary. The lines of another
run are aligned with the first native run too: what stands where native lines vary is replaced by VARIES, whatever it
is. The rest is kept, also what differs from the native runs: two places are compared with each other, not with the
host.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

VARIES = "\0varies"  # no line of an output is this: lines have no NUL after `lines_of`
MOST_WORK = 1 << 20  # pairs of equal lines that are aligned in full; with more, lines are paired by their numbers
MOST_SIMILAR = 400  # pairs of lines that are compared letter by letter
LONGEST_COMPARED = 80
LONGEST_LINE = 2000


@dataclass(frozen=True)
class Baseline:
    """The lines of the first native run; `varying` are places of lines that vary, `gaps` places before which some
    native run had lines more."""

    lines: tuple[str, ...]
    varying: frozenset[int]
    gaps: frozenset[int]

    @property
    def count(self) -> int:
        return len(self.varying) + len(self.gaps)


def lines_of(output: bytes) -> list[str]:
    lines = output.decode("utf-8", "backslashreplace").replace("\0", "\\0").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in lines]


def baseline(runs: Sequence[Sequence[str]]) -> Baseline:
    """From the outputs of native runs; without any, nothing varies."""
    if not runs:
        return Baseline((), frozenset(), frozenset())
    first = list(runs[0])
    varying: set[int] = set()
    gaps: set[int] = set()
    for other in runs[1:]:
        for tag, a, b, c, d in opcodes(first, other):
            if tag == "equal":
                continue
            varying.update(range(a, b))
            if d - c > b - a:
                gaps.add(b)
    return Baseline(tuple(first), frozenset(varying), frozenset(gaps))


def masked(lines: Sequence[str], base: Baseline) -> list[tuple[int, str]]:
    """The lines of a run with their numbers from 1, VARIES where native lines vary. Several in a row are one: how many
    there are may vary too."""
    if not base.count:
        return list(enumerate(lines, 1))
    shown: list[tuple[int, str]] = []
    for tag, a, b, c, d in opcodes(base.lines, lines):
        partners = [*range(a, b)] if tag == "equal" else _partners(base.lines[a:b], lines[c:d], a)
        spare = any(n in base.gaps for n in range(a, b + 1))  # natively there are sometimes more lines here
        for at, partner in zip(range(c, d), partners, strict=True):
            # A line that is equal by chance varies all the same.
            hidden = partner in base.varying if partner is not None else spare and tag != "equal"
            _append(shown, at + 1, VARIES if hidden else lines[at])
        if any(n in base.varying for n in range(a, b) if n not in partners):
            _append(shown, d + 1, VARIES)  # it is missing here, and stands for itself
    return shown


def _partners(native: Sequence[str], lines: Sequence[str], first: int) -> list[int | None]:
    """For each line of a stretch that differs, the native line that it stands for. With as many lines on both sides
    that is the one at the same place; else the most similar ones, in order."""
    if len(native) == len(lines) or len(native) * len(lines) > MOST_SIMILAR:
        return [first + n if n < len(native) else None for n in range(len(lines))]
    best = [[0.0] * (len(lines) + 1) for _ in range(len(native) + 1)]
    for n in range(len(native) - 1, -1, -1):
        for m in range(len(lines) - 1, -1, -1):
            both = best[n + 1][m + 1] + _likeness(native[n], lines[m])
            best[n][m] = max(both, best[n + 1][m], best[n][m + 1])
    found: list[int | None] = [None] * len(lines)
    n = m = 0
    while n < len(native) and m < len(lines):
        if best[n][m] == best[n + 1][m + 1] + _likeness(native[n], lines[m]):
            found[m] = first + n
            n, m = n + 1, m + 1
        elif best[n][m] == best[n][m + 1]:
            m += 1
        else:
            n += 1
    return found


def _likeness(first: str, second: str) -> float:
    """From 0 to 1, and never 0, so that as many lines as possible find a partner: digits count as the same digit."""
    a, b = (re.sub(r"\d", "0", text[:LONGEST_COMPARED]) for text in (first, second))
    return 0.01 + SequenceMatcher(None, a, b, autojunk=False).ratio()


def _append(shown: list[tuple[int, str]], number: int, text: str) -> None:
    if text != VARIES or not shown or shown[-1][1] != VARIES:
        shown.append((number, text))


def opcodes(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """How to turn one list into the other. Equal ends are cut off first, and what would take too long is paired by
    numbers: an alignment costs time for each pair of equal lines, over and over."""
    start, most = 0, min(len(first), len(second))
    while start < most and first[start] == second[start]:
        start += 1
    end = 0
    while end < most - start and first[-1 - end] == second[-1 - end]:
        end += 1
    a, b, c, d = start, len(first) - end, start, len(second) - end
    inner: list[tuple[str, int, int, int, int]]
    ours, theirs = Counter(first[a:b]), Counter(second[c:d])
    if sum(count * theirs[line] for line, count in ours.items()) + (b - a) * (d - c) // 16 > MOST_WORK:
        inner = _paired(first, second, a, b, c, d)
    else:
        matcher = SequenceMatcher(None, first[a:b], second[c:d], autojunk=False)
        inner = [(tag, a + i, a + j, c + k, c + m) for tag, i, j, k, m in matcher.get_opcodes()]
    head = [("equal", 0, start, 0, start)] if start else []
    tail = [("equal", b, len(first), d, len(second))] if end else []
    return [*head, *inner, *tail]


def _paired(
    first: Sequence[str], second: Sequence[str], a: int, b: int, c: int, d: int
) -> list[tuple[str, int, int, int, int]]:
    found = []
    for n in range(min(b - a, d - c)):
        tag = "equal" if first[a + n] == second[c + n] else "replace"
        found.append((tag, a + n, a + n + 1, c + n, c + n + 1))
    n = min(b - a, d - c)
    if (b - a) != (d - c):
        found.append(("replace", a + n, b, c + n, d))
    return found

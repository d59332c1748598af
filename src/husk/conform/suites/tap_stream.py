"""conform/suites: read the Test Anything Protocol, versions 12 to 14. Pure: text in, test points out.

Whatever is no TAP is passed over, as every reader of TAP does: programs print other things in between. Numbers of
subtests are joined by dots: `3.1` is the first test point of the subtest that test point 3 sums up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

DEEPEST = 8  # of subtests in subtests; deeper ones are passed over
INDENT = "    "
LARGEST_PLAN = 1_000_000
MOST_NOTES = 50  # lines of diagnosis kept of a test point
_PLAN = re.compile(r"1\.\.(\d+)\s*(?:#\s*(?:SKIP\S*\s*)?(.*))?$", re.IGNORECASE)
_POINT = re.compile(r"(not )?ok\b(?:\s+(\d{1,9})(?=\s|$))?\s*(.*)$")
_DIRECTIVE = re.compile(r"(?:^|\s)#\s*(SKIP|TODO)\S*\s*(.*)$", re.IGNORECASE)
_BAIL = re.compile(r"Bail out!\s*(.*)$", re.IGNORECASE)
_YAML_MESSAGE = re.compile(r"\s*message:\s*(.+)$")


@dataclass
class Point:
    """One test point. `directive` is "", "SKIP" or "TODO", `reason` is what follows it."""

    number: str
    ok: bool
    text: str = ""
    directive: str = ""
    reason: str = ""
    notes: list[str] = field(default_factory=list)  # comments and YAML that follow it, and its message if YAML has one
    message: str = ""


@dataclass
class Stream:
    """What a program printed. `planned` is None where there is no plan."""

    points: list[Point] = field(default_factory=list)
    planned: int | None = None
    skip_all: str | None = None
    bail: str | None = None
    lines: int = 0  # lines that are TAP

    def missing(self) -> list[int]:
        """Numbers that were planned and did not come."""
        there = {point.number for point in self.points}
        return [number for number in range(1, (self.planned or 0) + 1) if str(number) not in there]

    def beyond(self) -> int:
        """How many test points came that were not planned."""
        if self.planned is None:
            return 0
        own = [point for point in self.points if "." not in point.number]
        return sum(int(point.number) > self.planned for point in own)


def read_tap(text: str) -> Stream:
    return _read(text.splitlines(), "", 0)


def _read(lines: list[str], prefix: str, depth: int) -> Stream:
    found, inner, counted, in_yaml = Stream(), list[str](), 0, False
    for line in lines:
        if in_yaml:
            in_yaml = line.strip() != "..."
            _note(found, line)
        elif line.startswith(INDENT):
            inner.append(line[len(INDENT) :])
        elif line.strip() == "---" and line.startswith("  ") and found.points:
            in_yaml = True
        elif match := _POINT.match(line):
            counted = int(match[2]) if match[2] else counted + 1
            point = _point(prefix + str(counted), match[3], ok=match[1] is None)
            _take_inner(found, inner, point.number, depth)
            inner = []
            found.points.append(point)
            found.lines += 1
        elif match := _BAIL.match(line):
            found.bail = match[1].strip()
            found.lines += 1
            break
        elif match := _PLAN.match(line):
            found.planned = min(int(match[1]), LARGEST_PLAN)
            if found.planned == 0:
                found.skip_all = (match[2] or "").strip()
            found.lines += 1
        elif line.startswith("#"):
            _note(found, line[1:].strip())
    _take_inner(found, inner, f"{prefix}{counted + 1}", depth)
    return found


def _take_inner(found: Stream, lines: list[str], number: str, depth: int) -> None:
    """A subtest stands before the test point that sums it up."""
    if not lines or depth == DEEPEST:
        return
    inner = _read(lines, f"{number}.", depth + 1)
    found.points += inner.points
    found.lines += inner.lines
    if inner.bail is not None:
        found.bail = inner.bail


def _point(number: str, rest: str, *, ok: bool) -> Point:
    directive = reason = ""
    if match := _DIRECTIVE.search(rest):
        directive, reason = match[1].upper(), match[2].strip()
        rest = rest[: match.start()]
    text = rest.strip().removeprefix("-").strip().replace("\\#", "#").replace("\\\\", "\\")
    return Point(number, ok, text, directive, reason)


def _note(found: Stream, line: str) -> None:
    if not found.points:
        return
    last = found.points[-1]
    if (match := _YAML_MESSAGE.match(line)) and not last.message:
        last.message = match[1].strip().strip("'\"")
    if len(last.notes) < MOST_NOTES:
        last.notes.append(line)

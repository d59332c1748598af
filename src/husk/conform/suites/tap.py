"""conform/suites: `tap`: test files that print the Test Anything Protocol, as prove runs them.

A file is one unit. Its cases are its test points, and one more, `(end)`: that the file came to its end as planned. It
is there in every run, so a file that dies is a miss even where no plan says what else was to come.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from husk.conform.outcomes import CRASH, FAIL, HANG, PASS, SKIP, CaseResult
from husk.conform.suite_file import Reader
from husk.conform.suites.discover import chosen_files, make_unit, start_words
from husk.conform.suites.endings import all_output, as_text, bad_ending, result, skipped
from husk.conform.suites.tap_stream import read_tap
from husk.conform.units import Reading
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.conform.suite_file import Suite
    from husk.conform.suites.tap_stream import Point, Stream
    from husk.conform.units import Ask, Ended, Unit

END = "(end)"
_NAMES = ("both", "number")
MOST_MISSING = 10_000  # test points reported one by one though they did not come


def units(suite: Suite, _ask: Ask) -> list[Unit]:
    reader = Reader(f"{suite.name}: settings", dict(suite.settings), ("find", "command", "directory", "names"))
    names = reader.text("names") or "both"
    if names not in _NAMES:
        raise UsageError(f"{suite.name}: `names` is one of {', '.join(_NAMES)}.")
    command, directory = list(reader.texts("command")), reader.text("directory")
    made = []
    for one in chosen_files(suite, reader.texts("find") or ("t/*.t",)):
        path = suite.place / one.path
        start = [] if one.skip else [*command, str(path)] if command else start_words(path)
        cases = [END] if one.skip else []
        made.append(
            make_unit(suite, one, [*start, *one.args], cases=cases, directory=directory, settings=[("names", names)])
        )
    return made


def read(unit: Unit, ended: Ended) -> Reading:
    if done := skipped(unit):
        return Reading(done)
    stream = read_tap(as_text(ended.stdout))
    bad = bad_ending(unit, ended)
    results, seen = [], Counter[str]()
    for point in stream.points:
        name = _name(unit, point)
        seen[name] += 1
        if seen[name] > 1:  # a number that came twice
            name = f"{name} ({seen[name]})"
        outcome, why = _outcome(point)
        notes = "\n".join(point.notes) if outcome == FAIL else ""
        results.append(result(unit, name, outcome, why, notes))
    if unit.setting("names") == "number":
        results += _missing(unit, stream, bad)
    end = _end(stream, ended, bad)
    output = all_output(ended) if end[0] in (FAIL, CRASH, HANG) else ""
    return Reading([*results, result(unit, END, *end, output, ended.seconds)])


def _name(unit: Unit, point: Point) -> str:
    """Where a test point is described only if it fails (`names = "number"`), the description is no name."""
    return f"{point.number} {point.text}".strip() if unit.setting("names") == "both" else point.number


def _outcome(point: Point) -> tuple[str, str]:
    if point.directive == "SKIP":
        return SKIP, point.reason
    if not point.ok and point.directive == "TODO":
        return SKIP, f"TODO {point.reason}"
    if point.ok:
        return PASS, ""
    return FAIL, point.message or point.text or next((note for note in point.notes if note), "not ok")


def _missing(unit: Unit, stream: Stream, bad: tuple[str, str] | None) -> list[CaseResult]:
    """The first that did not come is the one that ended the file; the others did not get their turn."""
    found = list[CaseResult]()
    before = "the file ended before it" if stream.bail is None else f"Bail out! {stream.bail}"
    for number in stream.missing()[:MOST_MISSING]:
        outcome, why = bad if bad and not found else (FAIL, before)
        found.append(result(unit, str(number), outcome, why))
    return found


def _end(stream: Stream, ended: Ended, bad: tuple[str, str] | None) -> tuple[str, str]:
    if bad:
        return bad
    if stream.bail is not None:
        return FAIL, f"Bail out! {stream.bail}"
    if not stream.lines:
        return FAIL, f"it printed no TAP, and ended with exit code {ended.code}"
    if stream.skip_all is not None and not stream.points:
        return SKIP, stream.skip_all or "the whole file"
    if stream.planned is None:
        return FAIL, "there is no plan"
    if missing := stream.missing():
        return FAIL, f"{len(missing)} of {stream.planned} planned tests did not run"
    if more := stream.beyond():
        return FAIL, f"{more} tests more than the {stream.planned} that were planned"
    failed = any(not point.ok and point.directive != "TODO" for point in stream.points)
    if ended.code and not failed:
        return FAIL, f"exit code {ended.code} though no test failed"
    return PASS, ""

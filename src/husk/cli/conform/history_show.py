"""cli/conform: the history as lines for a terminal: runs with their trend, a case over time, what changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from husk.cli.conform.conform_show import MOST_NAMED
from husk.conform.outcomes import MISSES, percent, score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from husk.conform.history.database import RecordedRun, Sighting
    from husk.conform.history.run_changes import Change, Changes
    from husk.conform.outcomes import CaseName, RunRecord, Score

_BARS = "▁▂▃▄▅▆▇█"
_LINE_LENGTH = 30  # runs in one trend line


# -- runs --------------------------------------------------------------------------------------------------------------
def run_lines(runs: Sequence[RecordedRun], shown: int) -> list[str]:
    """A line for each run, the newest last, with the difference to the one before it of the same runtime and suites;
    then a trend for each runtime with its suites. `shown`: how many runs are listed."""
    if not runs:
        return ["no runs yet; `husk conform run` adds one"]
    width = max(len(one.info.run) for one in runs[-shown:])
    lines = [f"… {len(runs) - shown} earlier runs"] if len(runs) > shown else []
    before: dict[tuple[str, ...], Score] = {}
    listed = []
    for one in runs:
        line = _line(one)
        marks = _marks(one)
        listed.append(
            f"{one.info.run:<{width}}  {percent(one.score.share):>7}  {_step(before.get(line), one.score):>6}"
            f"  {one.score.passed} of {one.score.counted}  {', '.join(one.info.suites)}{marks}"
        )
        if one.score.share is not None and not marks:
            before[line] = one.score
    trends = _trends(runs)
    return lines + listed[-shown:] + (["", *trends] if trends else [])


def _line(one: RecordedRun) -> tuple[str, ...]:
    return one.info.runtime, one.info.user, *sorted(one.info.suites)


def _marks(one: RecordedRun) -> str:
    marks = [] if one.info.whole else ["not finished"]
    marks += [f"only {one.info.case_filter}"] if one.info.case_filter else []
    return f" ({'; '.join(marks)})" if marks else ""


def _step(old: Score | None, new: Score) -> str:
    if old is None or old.share is None or new.share is None:
        return ""
    points = 100 * (new.share - old.share)
    return "=" if (old.passed, old.counted) == (new.passed, new.counted) else f"{points:+.2f}"


def _trends(runs: Sequence[RecordedRun]) -> list[str]:
    lines: dict[tuple[str, ...], list[RecordedRun]] = {}
    for one in runs:
        if one.score.share is not None and not _marks(one):
            lines.setdefault(_line(one), []).append(one)
    found = []
    for line, ones in lines.items():
        shares = [one.score.share or 0.0 for one in ones][-_LINE_LENGTH:]
        if len(shares) > 1:
            name = f"{line[0]} ({', '.join(line[2:])})"
            found.append(f"{name}: {_bars(shares)} {percent(shares[0])} → {percent(shares[-1])} in {len(shares)} runs")
    return found


def _bars(shares: list[float]) -> str:
    low, high = min(shares), max(shares)
    if high == low:
        return _BARS[-1] * len(shares)
    return "".join(_BARS[round((share - low) / (high - low) * (len(_BARS) - 1))] for share in shares)


def run_document(one: RecordedRun) -> dict[str, Any]:
    return {**asdict(one.info), "score": asdict(one.score) | {"share": one.score.share}}


# -- a case ------------------------------------------------------------------------------------------------------------
def case_lines(name: CaseName, seen: Sequence[Sighting]) -> list[str]:
    """Verdicts in each runtime, the oldest first; runs with the same verdict one after another share a line."""
    lines = [str(name)]
    for runtime in dict.fromkeys(one.info.runtime for one in seen):
        groups: list[list[Sighting]] = []
        for one in seen:
            if one.info.runtime != runtime:
                continue
            if groups and groups[-1][-1].case.verdict == one.case.verdict:
                groups[-1].append(one)
            else:
                groups.append([one])
        for group in groups:
            first, last = group[0], group[-1]
            until = f" to {last.info.run}, {len(group)} runs" if len(group) > 1 else ""
            why = f": {last.case.why}" if last.case.why else ""
            lines.append(f"  {last.case.verdict:<10} {first.info.run}{until}{why}")
    return lines


def sighting_document(seen: Sighting) -> dict[str, Any]:
    return {
        "run": seen.info.run, "runtime": seen.info.runtime, "started": seen.info.started, "commit": seen.info.commit,
        "verdict": seen.case.verdict, "seconds": seen.case.seconds, "why": seen.case.why,
        "expected": seen.case.expected,
    }  # fmt: skip


# -- what changed ------------------------------------------------------------------------------------------------------
_TITLES = {
    "regressions": "regressions", "fixes": "fixes", "shifted": "other changes", "appeared": "new cases",
    "gone": "cases that are gone",
}  # fmt: skip


def change_lines(old: RunRecord, new: RunRecord, found: Changes) -> list[str]:
    """Regressions are all named, of the other kinds the first ones."""
    was, now = score(old.cases), score(new.cases)
    shares = f"{percent(was.share)} → {percent(now.share)}"
    counts = f"{was.passed} of {was.counted} → {now.passed} of {now.counted}"
    lines = [f"{old.info.run} → {new.info.run}: {shares} ({counts})", *(f"note: {note}" for note in found.notes)]
    for key, title in _TITLES.items():
        listed: list[Change] = getattr(found, key)
        most = len(listed) if key == "regressions" else MOST_NAMED
        if listed:
            lines += ["", f"{title} ({len(listed)}):", *map(_change_line, listed[:most])]
        if len(listed) > most:
            lines.append(f"  … and {len(listed) - most} more; --json has them all")
    return lines if found.any else [*lines, "no change"]


def _change_line(change: Change) -> str:
    words = [one.verdict for one in (change.old, change.new) if one is not None]
    why = change.new.why if change.new is not None and change.new.verdict in MISSES else ""
    return f"  {' → '.join(words)}  {change.name}" + (f": {why}" if why else "")


def changes_document(old: RunRecord, new: RunRecord, found: Changes) -> dict[str, Any]:
    was, now = score(old.cases), score(new.cases)
    document: dict[str, Any] = {
        "old": old.info.run,
        "new": new.info.run,
        "score": {"old": asdict(was) | {"share": was.share}, "new": asdict(now) | {"share": now.share}},
        "notes": list(found.notes),
    }
    return document | {key: [_change_document(one) for one in getattr(found, key)] for key in _TITLES}


def _change_document(change: Change) -> dict[str, Any]:
    return {
        "case": str(change.name),
        "family": change.case.family,
        "old": change.old.verdict if change.old else None,
        "new": change.new.verdict if change.new else None,
        "why": change.case.why,
    }

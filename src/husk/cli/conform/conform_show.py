"""cli/conform: records as lines for a terminal."""

from __future__ import annotations

from husk.conform.outcomes import FLAKY, NOT_NATIVE, SKIP, Judged, RunRecord, Score, percent, score

MOST_NAMED = 20  # cases of one kind that are listed


def score_lines(record: RunRecord) -> list[str]:
    """The score, the families, and the cases that need a look."""
    total = score(record.cases)
    families = record.families()
    width = max([len(name) for name in families], default=0)
    lines = [f"{record.info.runtime}: {_share(total)}", *_aside(total)]
    if len(families) > 1:
        lines += ["", *(f"  {name:<{width}}  {_share(score(cases))}" for name, cases in families.items())]
    lines += _named("missed, and not expected", [one for one in record.cases if one.unexpected_miss])
    return lines + _named("passes, though a failure is expected", [one for one in record.cases if one.unexpected_pass])


def _share(total: Score) -> str:
    text = f"{total.passed} of {total.counted} pass ({percent(total.share)})"
    return text + (f", {total.expected} misses expected" if total.expected else "")


def _aside(total: Score) -> list[str]:
    words = {NOT_NATIVE: "do not pass natively", FLAKY: "are flaky natively", SKIP: "skipped"}
    counts = [f"{total.counts[verdict]} {text}" for verdict, text in words.items() if total.counts[verdict]]
    return [f"  not counted: {', '.join(counts)}"] if counts else []


def _named(title: str, cases: list[Judged]) -> list[str]:
    if not cases:
        return []
    lines = ["", f"{title} ({len(cases)}):"]
    lines += [f"  {one.verdict:<5} {one.name}" + (f": {one.why}" if one.why else "") for one in cases[:MOST_NAMED]]
    return lines + ([f"  … and {len(cases) - MOST_NAMED} more"] if len(cases) > MOST_NAMED else [])

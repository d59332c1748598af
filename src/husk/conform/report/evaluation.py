"""conform/report: EVALUATION_DATE.md: what changed against the last run, the results, the next steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from husk.conform.history.run_changes import Change, changes
from husk.conform.matrix.coverage import Row
from husk.conform.matrix.uses_file import Uses
from husk.conform.outcomes import FLAKY, MISSES, NOT_NATIVE, SKIP, Judged, RunRecord, percent, score
from husk.conform.report.analysis import labelled, run_table, suites_of
from husk.conform.report.findings import recommendations
from husk.conform.report.markdown import Markup, code, escaped, fill, listed, table

MOST_NAMED, MOST_REASONS, MOST_STEPS = 40, 40, 15


def evaluation(
    records: Sequence[RunRecord],
    previous: Mapping[str, RunRecord],
    rows: Sequence[Row],
    uses: Uses | None,
    today: str,
) -> str:
    """`previous`: for the name of a run, the run before that it is compared with."""
    steps = recommendations(records, rows, uses)
    return fill(
        "evaluation.md.j2",
        {
            "today": today,
            "runs": run_table(records),
            "changes": [
                _changed(name, record, previous[record.info.run])
                for name, record in labelled(records)
                if record.info.run in previous
            ],
            "first": listed([code(record.info.run) for record in records if record.info.run not in previous]),
            "groups": [_group(title, some) for title, some in _by_suites(records)],
            "steps": steps[:MOST_STEPS],
            "more_steps": len(steps) - MOST_STEPS,
        },
    )


def _changed(name: str, record: RunRecord, old: RunRecord) -> dict[str, object]:
    seen = changes(old, record)
    lists = (
        ("Regressions", seen.regressions), ("Fixes", seen.fixes), ("New verdicts that are neither", seen.shifted),
        ("Cases that are new", seen.appeared), ("Cases that are gone", seen.gone),
    )  # fmt: skip
    return {
        "runtime": name,
        "run": code(record.info.run),
        "old": code(old.info.run),
        "before": percent(score(old.cases).share),
        "after": percent(score(record.cases).share),
        "notes": seen.notes,
        "lists": [(title, len(some), _change_lines(some), max(0, len(some) - MOST_NAMED)) for title, some in lists],
        "same": not seen.any,
    }


def _change_lines(some: Sequence[Change]) -> list[Markup]:
    lines = []
    for one in some[:MOST_NAMED]:
        old, new = (judged.verdict if judged else "–" for judged in (one.old, one.new))
        why = one.new.why if one.new and one.new.verdict in MISSES else ""
        lines.append(Markup(f"{code(one.name)}: {old} → {new}{f': {escaped(why)}' if why else ''}"))
    return lines


def _by_suites(records: Sequence[RunRecord]) -> list[tuple[str, list[RunRecord]]]:
    """Runs of the same suites side by side, in the order of the records, and those of the same cases only."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(suites_of(record), []).append(record)
    return list(groups.items())


def _group(suites: str, records: Sequence[RunRecord]) -> dict[str, object]:
    return {
        "suites": suites,
        "families": _families(records) if len({one.family for record in records for one in record.cases}) > 1 else None,
        "records": [_results(name, record) for name, record in labelled(records)],
    }


def _families(records: Sequence[RunRecord]) -> Markup:
    every = [record.families() for record in records]
    lines = []
    for name in sorted({name for families in every for name in families}):
        totals = [score(families.get(name, [])) for families in every]
        lines.append(
            [name, *(f"{one.passed} of {one.counted} ({percent(one.share)})" if one.counted else "–" for one in totals)]
        )
    return table(("family", *(f"{escaped(name)} #" for name, _ in labelled(records))), lines)


def _results(name: str, record: RunRecord) -> dict[str, object]:
    total = score(record.cases)
    unexplained = [one for one in record.cases if one.unexpected_miss]
    better = [one for one in record.cases if one.unexpected_pass]
    reasons = Counter((one.expected, one.by_design) for one in record.cases if one.verdict in MISSES and one.expected)
    ranked = sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0]))
    return {
        "runtime": name,
        "total": total,
        "share": percent(total.share),
        "but_design": percent(total.share_but_design),
        "missed": {verdict: total.counts.get(verdict, 0) for verdict in MISSES},
        "aside": {verdict: total.counts.get(verdict, 0) for verdict in (NOT_NATIVE, FLAKY, SKIP)},
        "unexplained": len(unexplained),
        "unexplained_lines": _case_lines(unexplained),
        "better": listed((code(one.name) for one in better), MOST_NAMED),
        "reasons": table(
            ("reason", "by design", "cases #"),
            ([reason, "yes" if design else "no", count] for (reason, design), count in ranked[:MOST_REASONS]),
        )
        if ranked
        else None,
        "more_reasons": max(0, len(ranked) - MOST_REASONS),
        "more": max(0, len(unexplained) - MOST_NAMED),
        "whole": record.info.whole,
    }  # fmt: skip


def _case_lines(cases: Iterable[Judged]) -> list[Markup]:
    return [
        Markup(f"{one.verdict}: {code(one.name)}{f': {escaped(one.why)}' if one.why else ''}")
        for one in list(cases)[:MOST_NAMED]
    ]

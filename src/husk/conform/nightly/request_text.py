"""conform/nightly: the text of the pull request: what changed this night, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from husk.conform.outcomes import percent, score
from husk.conform.report.markdown import code, escaped, table

if TYPE_CHECKING:
    from pathlib import Path

    from husk.conform.history.run_changes import Change
    from husk.conform.nightly.night import Compared, Night

MOST_NAMED = 50  # changes of one kind: a pull request has a limit


def request_text(night: Night, files: Sequence[Path]) -> str:
    rows = []
    for one in night.runs:
        now = score(one.record.cases)
        was = percent(score(one.old.cases).share) if one.old else "–"
        rows.append((one.record.info.runtime, was, percent(now.share), now.passed, now.counted, one.end))
    head = ("runtime", "before #", "now #", "passed #", "of #", "")
    parts = [escaped(night.summary()), "", table(head, rows)]
    for one in night.runs:
        parts += _lists(one)
    parts += ["", f"Written: {', '.join(str(code(path.name)) for path in files)}.", ""]
    return "\n".join(parts)


def _lists(one: Compared) -> list[str]:
    if one.found is None:
        return []
    titles: dict[str, Sequence[Change]] = {
        "Regressions": one.found.regressions,
        "Fixes": one.found.fixes,
        "Cases that come and go": one.unsteady,
        "Other changes": one.found.shifted,
        "New cases": one.found.appeared,
        "Cases that are gone": one.found.gone,
    }
    lines = []
    for title, listed in titles.items():
        if listed:
            lines += ["", f"## {title} in {code(one.record.info.runtime)} ({len(listed)})", ""]
            lines += [_line(change) for change in listed[:MOST_NAMED]]
            lines += [f"- and {len(listed) - MOST_NAMED} more"] if len(listed) > MOST_NAMED else []
    return lines + [f"\n{escaped(note)}" for note in one.found.notes]


def _line(change: Change) -> str:
    words = " → ".join(one.verdict for one in (change.old, change.new) if one is not None)
    why = f": {code(change.new.why)}" if change.new is not None and change.new.why else ""
    return f"- {words} {code(change.name)}{why}"

"""conform/report: CAPABILITIES.md: interpreters and skills with evidence: what was run, its end, the calls it made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from husk.conform.matrix.coverage import NATIVE, REFUSED, VIRTUAL, Row
from husk.conform.matrix.uses_file import ABSENT, FAILS, INTERPRETER, SKILL, WORKS, Use, Uses
from husk.conform.report.markdown import Markup, code, fill, listed, table

OUTCOMES = {WORKS: "works", FAILS: "**fails**", ABSENT: "not measured"}


def capabilities(rows: Sequence[Row], uses: Uses | None, today: str) -> str:
    ways = {row.call: row.way for row in rows}
    kinds = (("Interpreters", INTERPRETER, "scripts that were run"), ("Skills", SKILL, "cases that were run"))
    found = uses or Uses()
    sections = []
    for title, kind, ran in kinds:
        some = found.of(kind)
        works = sum(one.outcome == WORKS for one in some)
        measured = len(found.measured(kind))
        sections.append((title, works, measured, len(some) - measured, _table(some, ran, ways) if some else None))
    return fill(
        "capabilities.md.j2",
        {
            "today": today,
            "uses": uses,
            "sections": sections,
            "calls": [(one.name, _ways(one, ways), _calls(one)) for one in found.uses if one.calls],
        },
    )


def _table(some: Sequence[Use], ran: str, ways: dict[str, str]) -> Markup:
    def line(one: Use) -> list[object]:
        numbers = _ways(one, ways)
        counts = [numbers[way] if one.calls else "–" for way in (NATIVE, VIRTUAL, REFUSED)]
        version = [one.version or "–"] if one.kind == INTERPRETER else []
        return [one.name, *version, Markup(OUTCOMES[one.outcome]), ", ".join(one.ran) or "–", *counts, one.why]

    version = ["version"] if some[0].kind == INTERPRETER else []
    head = ("name", *version, "in husk", ran, "native calls #", "virtual #", "refused #", "remark")
    return table(head, map(line, some))


def _ways(one: Use, ways: dict[str, str]) -> Counter[str]:
    """How many different calls of each way it makes; a number that is no call of Linux is refused."""
    return Counter(ways.get(call, REFUSED) for call in one.calls)


def _calls(one: Use) -> Markup:
    return listed(code(call) for call in sorted(one.calls))

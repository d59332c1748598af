"""compat: verdicts as SARIF 2.1.0, the form in which code hosts show what a check found.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/. A call is a rule; a divergence in a runtime is a result.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from husk import __version__
from husk.compat.verdict.judge import BREAKS, FALLBACK, RUNS, UNCLEAR, Divergence, Verdict

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {BREAKS: "error", UNCLEAR: "warning", FALLBACK: "note", RUNS: "none"}


def sarif(verdicts: list[Verdict]) -> dict[str, Any]:
    rules: dict[str, dict[str, Any]] = {}
    results: list[dict[str, Any]] = []
    for verdict in verdicts:
        for one in verdict.divergences:
            rule = f"linux/{one.need.call}"
            rules.setdefault(rule, _rule(rule, one))
            results.append(_result(rule, list(rules).index(rule), verdict, one))
        if not verdict.divergences and verdict.status in (UNCLEAR, BREAKS):
            rule = "unknown" if verdict.status == UNCLEAR else "differs"
            rules.setdefault(rule, {"id": rule, "shortDescription": {"text": f"The program's fate is {rule}"}})
            text = f"{verdict.subject} in {verdict.runtime}: {verdict.line}"
            results.append(
                {
                    "ruleId": rule,
                    "ruleIndex": list(rules).index(rule),
                    "level": _LEVELS[verdict.status],
                    "message": {"text": text},
                    "locations": [_location(verdict.subject)],
                    "properties": {"runtime": verdict.runtime, "status": verdict.status},
                }
            )
    driver = {
        "name": "husk check",
        "version": __version__,
        "rules": list(rules.values()),
    }
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str, one: Divergence) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": name,
        "name": one.need.call,
        "shortDescription": {"text": f"The system call {one.need.call} is missing or differs"},
    }
    if one.remedy is not None:
        rule["help"] = {"text": f"{one.remedy.text} ({one.remedy.source})"}
    return rule


def _result(rule: str, index: int, verdict: Verdict, one: Divergence) -> dict[str, Any]:
    level = "error" if verdict.status == BREAKS and one.certain else "warning"
    if not one.fatal or one.excused:
        level = "note"
    text = one.line(verdict.title).replace("`", "")
    if one.remedy is not None and one.fatal:
        text += f". Remedy: {one.remedy.text}"
    return {
        "ruleId": rule,
        "ruleIndex": index,
        "level": level,
        "message": {"text": text},
        "locations": [_location(verdict.subject, one.need.places)],
        "partialFingerprints": {"husk/v1": f"{verdict.subject}:{verdict.runtime}:{one.need.text}"},
        "properties": {"runtime": verdict.runtime, "status": verdict.status, "sure": one.need.sure},
    }


def _location(subject: str, places: list[str] | None = None) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": quote(subject, safe="/")}},
    }
    if places:
        location["message"] = {"text": "; ".join(places)}
    return location

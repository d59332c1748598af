"""cli/compat: how surfaces look as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from husk.cli.output import say_result
from husk.compat.surface import ERRNO_NAMES, MISSING, SUPPORT, Claim, Note, Surface, rows_by_name

if TYPE_CHECKING:
    from husk.abi.registry.rules import ArgTest

_LONGEST = 100  # characters of a remark in a table


def counted(surface: Surface) -> str:
    """How many calls of Linux have which support."""
    counts = Counter(surface.claim(call).level for call in rows_by_name())
    return ", ".join(f"{counts[level]:>3} {level}" for level in SUPPORT if counts[level] or level != "unknown")


def verdict(one: Claim | Note) -> str:
    return f"{one.support} {ERRNO_NAMES[one.errno]}" if one.errno else one.support


def table_lines(surface: Surface, claims: list[Claim]) -> list[str]:
    """The head of a runtime and one line for each call."""
    head = [surface.title, f"version {surface.version}" + (f", {surface.date}" if surface.date else "")]
    head += [f"from {surface.source}", counted(surface), ""]
    rows = [(claim.call, f"{_short(claim)}{'*' if claim.notes else ''}", claim.text) for claim in claims]
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    lines = [f"{call:<{first}}  {level:<{second}}  {_shortened(text)}".rstrip() for call, level, text in rows]
    paths = [f"{path.path}  {path.support}  {_shortened(path.text)}".rstrip() for path in surface.paths]
    more = ["", "* has notes: name the call to see them"] if any(claim.notes for claim in claims) else []
    return [*head, *lines, *(["", *paths] if paths else []), *more]


def _short(claim: Claim) -> str:
    return f"{claim.level} {ERRNO_NAMES[claim.errno]}" if claim.errno and claim.level == MISSING else claim.level


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def claim_lines(claim: Claim) -> list[str]:
    """A call with its notes, in the order they are tried."""
    lines = [f"{claim.call}: {claim.level}"]
    for note in claim.notes:
        where = f"when {note.condition}" if note.tests else "remark"
        lines += _told(f"{verdict(note)} {where}", note)
    return [*lines, *_told(f"{verdict(claim)} {'otherwise' if claim.notes else 'always'}", claim)]


def _told(what: str, one: Claim | Note) -> list[str]:
    return [f"  {what}", *(f"    {text}" for text in (one.text, one.source) if text)]


def difference_lines(first: Surface, second: Surface, found: list[tuple[Claim, Claim]]) -> list[str]:
    if not found:
        return [f"{first.name} and {second.name} treat every call alike."]
    lines = [f"{len(found)} calls differ; left {first.name}, right {second.name}"]
    width = max(len(a.call) for a, _ in found)
    left = max(len(_short(a)) for a, _ in found)
    for a, b in found:
        arguments = "  by arguments" if (a.level, a.errno) == (b.level, b.errno) else ""
        lines.append(f"{a.call:<{width}}  {_short(a):<{left}}  {_short(b)}{arguments}")
    return lines


# -- JSON --------------------------------------------------------------------------------------------------------------
def surface_json(surface: Surface, *, calls: bool) -> dict[str, Any]:
    counts = Counter(surface.claim(call).level for call in rows_by_name())
    document: dict[str, Any] = {
        "name": surface.name,
        "title": surface.title,
        "version": surface.version,
        "date": surface.date,
        "source": surface.source,
        "measured": surface.measured,
        "counts": {level: counts[level] for level in SUPPORT},
        "paths": [
            {"path": path.path, **_verdict_json(path.support, path.errno), "text": path.text} for path in surface.paths
        ],
    }
    if calls:
        document["calls"] = [claim_json(surface.claim(call)) for call in sorted(rows_by_name())]
    return document


def claim_json(claim: Claim) -> dict[str, Any]:
    return {
        "call": claim.call,
        "level": claim.level,
        **_verdict_json(claim.support, claim.errno),
        "text": claim.text,
        "source": claim.source,
        "notes": [
            {
                **_verdict_json(note.support, note.errno),
                "when": [_test_json(test) for test in note.tests],
                "text": note.text,
                "source": note.source,
            }
            for note in claim.notes
        ],
    }


def _verdict_json(support: str, errno: int) -> dict[str, Any]:
    return {"support": support, "errno": ERRNO_NAMES[errno] if errno else None}


def _test_json(test: ArgTest) -> dict[str, Any]:
    return {"argument": test.index, "kind": test.kind, "values": dict(test.names), "mask": test.mask, "text": test.text}


def say_differences(first: Surface, second: Surface, found: list[tuple[Claim, Claim]], *, as_json: bool) -> int:
    """Print them; the exit code is 1 if there are any."""
    document: dict[str, Any] = {
        "a": first.name,
        "b": second.name,
        "differences": [{"call": a.call, "a": claim_json(a), "b": claim_json(b)} for a, b in found],
    }
    say_result(document, difference_lines(first, second, found), as_json=as_json)
    return 1 if found else 0

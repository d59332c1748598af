"""compat/runtimes: husk's own surface, from the registry's rows. Never a copy: what a row says is what is claimed."""

from __future__ import annotations

from husk import __version__
from husk.abi.registry import NEWEST_LINUX, ROWS
from husk.abi.registry.rules import COOKIE, INSTRUCTION, Row, Rule, Verdict, Walls
from husk.compat.surface import FULL, MISSING, PARTIAL, Claim, Note, Surface

SUPPORT = {"native": FULL, "virtual": FULL, "judged": MISSING}


def husk_surface(walls: Walls, name: str = "husk") -> Surface:
    """What a box with these walls offers."""
    setting = "every wall stands" if walls.pid else "without namespaces"
    return Surface(
        name,
        f"husk, {setting}",
        __version__,
        "",
        f"the registry of this husk, up to Linux {NEWEST_LINUX}",
        False,
        MISSING,
        38,  # ENOSYS: a number that has no row
        {row.name: _claim(row, walls) for row in sorted(ROWS.values(), key=lambda row: row.nr)},
    )


def _claim(row: Row, walls: Walls) -> Claim:
    notes, last = [], row.otherwise
    for rule in row.rules:
        if not rule.stands(walls) or _is_husks_own(rule):
            continue
        if not rule.tests:
            last = rule.verdict  # it always holds, so the rules after it never decide
            break
        support, errno, text = _meaning(rule.verdict, row)
        notes.append(Note(tuple(rule.tests), support, errno, text))
    support, errno, text = _meaning(last, row)
    return Claim(row.name, support, errno, text, "", tuple(notes))


def _is_husks_own(rule: Rule) -> bool:
    """Calls that husk makes in a guest's place, or its code in the guest. No guest knows the cookie."""
    return any(COOKIE in test.values or test.index == INSTRUCTION for test in rule.tests)


def _meaning(verdict: Verdict, row: Row) -> tuple[str, int, str]:
    """Support, errno and reason. A call that is answered with success while nothing happens is partial."""
    text = verdict.reason or row.reason
    if verdict.way == "refused" and not verdict.errno:
        return PARTIAL, 0, f"success, and nothing happens: {text}"
    return SUPPORT.get(verdict.way, MISSING), verdict.errno, text

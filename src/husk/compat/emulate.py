"""compat: from a runtime's surface to the rules that give a box this surface (`husk run --as`).

Here: which claims become rules, and what is left out. Not here: how a box holds to them (husk.kernel.emulation).

What a surface says to be missing is refused with its errno. What it says to be full, partial or unknown goes husk's
way: words such as "partial" name no argument that could be refused, so only notes with argument values count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from errno import ENOENT, ENOSYS

from husk.abi.registry import ROWS, by_name
from husk.abi.registry.rules import IN_C, ArgTest, Rule, Verdict, refuse
from husk.compat.surface import MISSING, Claim, Surface
from husk.kernel.emulation import Emulation

# A box without these could not begin or end, and no runtime lacks them.
NEVER_REFUSED = frozenset(("exit", "exit_group", "rt_sigreturn", "restart_syscall"))


def emulation(surface: Surface) -> Emulation:
    """The rules for a box that offers no more than `surface`."""
    rules = {row.nr: _rules(surface, surface.claim(row.name)) for row in ROWS.values()}
    paths = [
        (path.path, path.errno or ENOENT, f"{surface.name} has no {path.path}{_because(path.text)}")
        for path in surface.paths
        if path.support == MISSING
    ]
    return Emulation(surface.name, rules, paths)


@dataclass(frozen=True)
class Take:
    """A call to take away, whole or where all `tests` hold: it fails with `errno`, or with 0 succeeds and does
    nothing."""

    call: str
    tests: tuple[ArgTest, ...]
    errno: int


def taken_away(taken: Iterable[Take]) -> Emulation:
    """A box that has everything but these."""
    rules: dict[int, tuple[Rule, ...]] = {}
    for each in taken:
        row = by_name(each.call)
        if row is None:
            raise ValueError(f"Linux has no system call {each.call}")
        reason = f"{each.call} is {'stubbed' if each.errno else 'faked'} in this run"
        rules[row.nr] = (*rules.get(row.nr, ()), Rule(refuse(each.errno, reason), each.tests))
    return Emulation("without", rules)


def _rules(surface: Surface, claim: Claim) -> tuple[Rule, ...]:
    row = by_name(claim.call)
    if row is None or claim.call in NEVER_REFUSED:
        return ()
    rules = []
    if row.family != IN_C:  # such a call is refused as a whole or not at all
        for note in claim.notes:
            if note.tests:
                what = f"{claim.call} where {note.condition}"
                rules.append(Rule(_verdict(surface, what, note.support, note.errno, note.text), note.tests))
    if claim.support == MISSING:
        rules.append(Rule(_verdict(surface, claim.call, MISSING, claim.errno, claim.text), ()))
    # Exceptions behind the last refusal change nothing, and would only make husk look at every call.
    while rules and rules[-1].verdict.way != "refused":
        rules.pop()
    return tuple(rules)


def _verdict(surface: Surface, what: str, support: str, code: int, text: str) -> Verdict:
    if support != MISSING:
        return Verdict("native")
    return refuse(code or surface.default_errno or ENOSYS, f"{surface.name} has no {what}{_because(text)}")


def _because(text: str) -> str:
    return f": {text.rstrip('.')}" if text else ""

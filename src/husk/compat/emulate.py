"""compat: from a runtime's surface to the rules that give a box this surface (`husk run --as`).

Here: which claims become rules, and what is left out. Not here: how a box holds to them (husk.kernel.emulation).

What a surface says to be missing is refused with its errno. What it says to be full, partial or unknown goes husk's
way: words such as "partial" name no argument that could be refused, so only notes with argument values count.
"""

from __future__ import annotations

from errno import ENOENT, ENOSYS

from husk.abi.registry import by_name
from husk.abi.registry.rules import IN_C, ArgTest, Rule, Verdict, refuse
from husk.compat.surface import MISSING, Claim, Surface
from husk.kernel.emulation import Emulation

# A box without these could not begin or end, and no runtime lacks them.
NEVER_REFUSED = frozenset(("exit", "exit_group", "rt_sigreturn", "restart_syscall"))


def emulation(surface: Surface) -> Emulation:
    """The rules for a box that offers no more than `surface`."""
    from husk.abi.registry import ROWS

    rules = {row.nr: _rules(surface, surface.claim(row.name)) for row in ROWS.values()}
    paths = [
        (path.path, path.errno or ENOENT, f"{surface.name} has no {path.path}{_because(path.text)}")
        for path in surface.paths
        if path.support == MISSING
    ]
    return Emulation(surface.name, rules, paths)


def without(calls: dict[str, int], name: str = "need") -> Emulation:
    """Rules for a box where some calls are missing (an errno) or faked (0: success, and nothing done)."""
    return Emulation(
        name, {_number(call): (Rule(refuse(code, _stubbed(call, code)), ()),) for call, code in calls.items()}
    )


def without_value(call: str, tests: tuple[ArgTest, ...], code: int, name: str = "need") -> Emulation:
    """The same for one call with some argument values only."""
    return Emulation(name, {_number(call): (Rule(refuse(code, _stubbed(call, code)), tests),)})


def _stubbed(call: str, code: int) -> str:
    return f"{call} is stubbed in this run" if code else f"{call} is faked in this run"


def _number(call: str) -> int:
    row = by_name(call)
    if row is None:
        raise ValueError(f"Linux has no system call {call}")
    return row.nr


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

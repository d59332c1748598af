"""compat/runtimes: which calls two runtimes treat differently, by what their notes decide and not by their words."""

from __future__ import annotations

from husk.abi.registry.rules import ArgTest
from husk.compat.surface import MISSING, Claim, Note, Surface, rows_by_name

Condition = tuple[int, str, frozenset[int], int, bool]


def differences(first: Surface, second: Surface) -> list[tuple[Claim, Claim]]:
    """The claims of both about each call that they treat differently, by the call's name."""
    pairs = ((first.claim(call), second.claim(call)) for call in sorted(rows_by_name()))
    return [(a, b) for a, b in pairs if _effect(a) != _effect(b)]


def _effect(claim: Claim) -> tuple[object, ...]:
    """Support and errno of the claim and of every note that decides something. An errno counts only where the call is
    missing: elsewhere it is a remark. Notes that say what the claim says anyway, at the end, decide nothing."""
    last = _verdict(claim)
    notes = [(frozenset(map(_condition, note.tests)), *_verdict(note)) for note in claim.notes if note.tests]
    while notes and notes[-1][1:] == last:
        notes.pop()
    return (last, tuple(notes))


def _verdict(one: Claim | Note) -> tuple[str, int]:
    return one.support, one.errno if one.support == MISSING else 0


def _condition(test: ArgTest) -> Condition:
    return test.index, test.kind, test.values, test.mask, test.wide

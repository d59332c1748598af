"""compat/need: what a runtime should implement next, by how many programs that unlocks.

Here: the arithmetic, over values. A program's needs come from `husk need` (only what it requires counts) or from a
trace (then everything it asks for counts, since nobody tried it without).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from husk.abi.registry.flags import FLAGS
from husk.compat.census import telling
from husk.compat.need.needs_file import REQUIRED, UNTRIED, Needs
from husk.compat.surface import MISSING, UNKNOWN, Surface

if TYPE_CHECKING:
    from husk.compat.census import Census


@dataclass
class Program:
    """A program of the corpus: what it needs and the runtime lacks, and what it needs and the runtime's file does not
    speak of. `tried`: which needs are real was found out by `husk need`."""

    name: str
    missing: frozenset[str]
    unknown: frozenset[str] = frozenset()
    tried: bool = False
    weight: int = 1


@dataclass
class Step:
    """Calls to implement, the programs that then run, and the weighted completeness after it."""

    calls: list[str]
    programs: list[str]
    completeness: float


@dataclass
class Growth:
    """A plan. `wanted` has, for each missing call, the programs that need it and how many of them need nothing else."""

    runtime: str
    programs: list[Program]
    now: float
    runs: list[str]
    steps: list[Step] = field(default_factory=list)
    wanted: dict[str, tuple[int, int]] = field(default_factory=dict)


def from_census(name: str, census: Census, surface: Surface, weight: int = 1) -> Program:
    missing: set[str] = set()
    unknown: set[str] = set()
    for asked in census.calls:
        args = [asked.values.get(place, 0) for place in range(6)]
        _judge(surface, asked.call, args, missing, unknown)
    return Program(name, frozenset(missing), frozenset(unknown), False, weight)


def from_needs(name: str, needs: Needs, surface: Surface, weight: int = 1) -> Program:
    """A call is required as a whole, or by the values of it that are required."""
    missing: set[str] = set()
    unknown: set[str] = set()
    by_value = {need.target.call for need in needs.needs if need.target.argument}
    for need in needs.needs:
        target = need.target
        if need.verdict not in (REQUIRED, UNTRIED) or (target.call in by_value and not target.argument):
            continue
        args = [0] * 6
        for place, argument, kind in telling(target.call):
            if argument == target.argument:
                values = [value for value, word in FLAGS[kind].choices.items() if word == target.value]
                args[place] = values[0] if values else 0
        _judge(surface, target.call, args, missing, unknown)
    return Program(name, frozenset(missing), frozenset(unknown), True, weight)


def _judge(surface: Surface, call: str, args: Sequence[int], missing: set[str], unknown: set[str]) -> None:
    support = surface.answer(call, args)[0]
    if support == UNKNOWN:
        unknown.add(call)
    elif support == MISSING:
        whole = surface.claim(call).support == MISSING
        missing.add(call if whole else _with_value(surface, call, args))


def _with_value(surface: Surface, call: str, args: Sequence[int]) -> str:
    for note in surface.claim(call).notes:
        if note.holds(args):
            words = [FLAGS[kind].spell(args[place]) for place, _, kind in telling(call)
                     if place in {test.index for test in note.tests}]  # fmt: skip
            return f"{call}({', '.join(words)})" if words else f"{call} ({note.condition})"
    return call


def plan(runtime: str, programs: Sequence[Program]) -> Growth:
    """Each step takes the calls that unlock most for each call: all that one more program lacks, and whatever else
    these make run. The order is the same for the same corpus."""
    total = sum(program.weight for program in programs) or 1
    done: set[str] = set()
    waiting = sorted((program for program in programs if program.missing), key=lambda program: program.name)
    runs = [program.name for program in programs if not program.missing]
    reached = total - sum(program.weight for program in waiting)
    growth = Growth(runtime, list(programs), reached / total, sorted(runs))
    for call in sorted(set().union(*(program.missing for program in programs))):
        users = [program for program in programs if call in program.missing]
        growth.wanted[call] = (len(users), sum(program.missing == {call} for program in users))
    while waiting:
        best = min({program.missing - done for program in waiting}, key=lambda calls: _rank(calls, done, waiting))
        done |= best
        unlocked = [program for program in waiting if program.missing <= done]
        waiting = [program for program in waiting if not program.missing <= done]
        reached += sum(program.weight for program in unlocked)
        growth.steps.append(Step(sorted(best), [program.name for program in unlocked], reached / total))
    return growth


def _rank(calls: frozenset[str], done: set[str], waiting: Sequence[Program]) -> tuple[Fraction, int, list[str]]:
    unlocked = sum(program.weight for program in waiting if program.missing <= done | calls)
    return Fraction(-unlocked, len(calls)), len(calls), sorted(calls)

"""conform/history: between which two recorded runs a case changed, and between which two commits.

The search itself, without running anything: `narrow` looks into the history, `first_changed` asks a function about
commits. Not here: checking out, building and running (bisect_commits.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from husk.conform.outcomes import MISSES, PASS
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.conform.history.database import Sighting

WORKS, BROKEN = "works", "broken"


def state(verdict: str) -> str:
    """Empty: it says neither, as a skip or a flaky case."""
    return WORKS if verdict == PASS else BROKEN if verdict in MISSES else ""


@dataclass(frozen=True)
class Narrowed:
    """Two runs, one right after the other among those that say anything, with different states of the case."""

    old: Sighting
    new: Sighting


def narrow(seen: Sequence[Sighting], first: str = "", last: str = "") -> Narrowed:
    """The newest change; with two runs, the one between them. `seen` is the case in one runtime, oldest first.
    UsageError: it did not change."""
    telling = [one for one in seen if state(one.case.verdict)]
    if first or last:
        low, high = sorted((_at(telling, first), _at(telling, last)))
        telling = telling[low : high + 1]
    for old, new in reversed(list(itertools.pairwise(telling))):
        if state(old.case.verdict) != state(new.case.verdict):
            return Narrowed(old, new)
    if not telling:
        raise UsageError("no run tells whether the case works: it is always skipped, flaky or not native.")
    which = f"the runs from {telling[0].info.run} to {telling[-1].info.run}" if len(telling) > 1 else "the one run"
    raise UsageError(f"the case has always the same verdict, {telling[-1].case.verdict}, in {which}.")


def _at(seen: Sequence[Sighting], run: str) -> int:
    for number, one in enumerate(seen):
        if one.info.run == run:
            return number
    raise UsageError(f"{run} does not tell whether the case works: it lacks it, skips it, or it is flaky there.")


@dataclass(frozen=True)
class Found:
    """`commits` is one, the first that is different; or several, where those between could not be tried."""

    commits: tuple[str, ...]
    tried: int


def first_changed(commits: Sequence[str], old_state: str, ask: Callable[[str], str]) -> Found:
    """`commits` lead from the old state, which is not among them, to the last, which has the new one. `ask` gives the
    state at a commit, or an empty text where it cannot be told; it is asked about the logarithm of their number, and
    once more for each that cannot be told."""
    low, high = -1, len(commits) - 1
    unknown: set[int] = set()
    tried = 0
    while high - low > 1:
        middle = (low + high) / 2
        left = sorted((at for at in range(low + 1, high) if at not in unknown), key=lambda at: abs(at - middle))
        if not left:
            break
        answer = ask(commits[left[0]])
        tried += 1
        if not answer:
            unknown.add(left[0])
        elif answer == old_state:
            low = left[0]
        else:
            high = left[0]
    return Found(tuple(commits[low + 1 : high + 1]), tried)

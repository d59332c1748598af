"""compat/need: try a program without each call it makes, and without each value of an argument that chooses.

The method is that of the Loupe study (Lefeuvre et al., ASPLOS 2024): a call that can fail with ENOSYS (a stub) or
succeed without effect (a fake) while the program still does its work need not be implemented first.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from husk.abi.registry import by_name
from husk.abi.registry.flags import FLAGS
from husk.abi.registry.rules import IN_C, Arg
from husk.cluster.work import LostWork, Stop, Stopped, Workers
from husk.compat.census import telling
from husk.compat.emulate import NEVER_REFUSED, Take, taken_away
from husk.compat.need.needs_file import EITHER, FAKE, FAKEABLE, MANNERS, STUB, STUBBABLE, WORKS, Need, Needs, Target
from husk.compat.need.try_without import Check, attempt, ended
from husk.sandbox.errors import HuskError, UsageError

if TYPE_CHECKING:
    from husk.compat.census import Census
    from husk.sandbox.policy import Policy

ERRNOS = {STUB: errno.ENOSYS, FAKE: 0}
SECONDS_AT_LEAST, TIMES_AS_LONG = 5.0, 10.0  # how long an attempt may take, against the first run
REPEATS = 3  # runs with everything there, before anything is taken away
MOST_VALUES = 40  # of one argument that are tried one by one

Told = Callable[[Target, str, str], None]


def baseline(policy: Policy, check_command: str, seconds: float) -> tuple[Check, float]:
    """What the program does when nothing is missing, seen several times, and how long it takes. UsageError: it fails,
    or does not do the same each time."""
    check = Check(check_command)
    longest = 0.0
    for number in range(REPEATS):
        outcome, result = attempt(policy, None, check, seconds)
        longest = max(longest, result.seconds)
        if number == 0 and not check_command:
            if result.timed_out or result.exit_code:
                raise UsageError(
                    f"the program {'does not end' if result.timed_out else ended(result)} with everything there; give"
                    " the options it needs to run, or a --test that tells how it ends well."
                )
            check = Check("", result.exit_code, result.stdout or b"")
        elif outcome != WORKS:
            where = f"in run {number + 1} of {REPEATS} " if number else ""
            raise UsageError(
                f"the program does not pass its test {where}with everything there ({outcome}); give a --test that it"
                " passes."
            )
    return check, longest


def listed(census: Census) -> list[Need]:
    """Every call of a census, and every value of an argument that chooses, where there are several."""
    found: list[Need] = []
    for call, count in sorted(census.counts().items()):
        if by_name(call) is None or call in NEVER_REFUSED or (call, count) == ("execve", 1):
            continue  # the one execve is the start of the program itself
        found.append(Need(Target(call), count))
        found += _values(census, call)
    return found


def _values(census: Census, call: str) -> list[Need]:
    row = by_name(call)
    if row is None or row.family == IN_C:
        return []
    for place, name, kind in telling(call):
        flags = FLAGS[kind]
        if not flags.choices:
            continue
        counts: dict[str, int] = {}
        for asked in census.calls:
            if asked.call == call and place in asked.values:
                word = flags.choices.get(asked.values[place] & flags.mask)
                if word is not None:
                    counts[word] = counts.get(word, 0) + asked.count
        if 1 < len(counts) <= MOST_VALUES:
            return [Need(Target(call, name, word), count) for word, count in sorted(counts.items())]
        return []  # the first argument that chooses is the one that decides what the others mean
    return []


def take(target: Target, manner: str) -> Take:
    """What to take away for an attempt."""
    if not target.argument:
        return Take(target.call, (), ERRNOS[manner])
    for place, name, kind in telling(target.call):
        if name == target.argument:
            flags = FLAGS[kind]
            values = {word: value for value, word in flags.choices.items() if word == target.value}
            if values:
                return Take(target.call, (Arg(place, name, flags.mask).is_in(values),), ERRNOS[manner])
    raise UsageError(f"{target} is no value that husk knows; write the file anew with `husk need --out`.")


@dataclass(frozen=True)
class _Attempt:
    """`trial` names the whole series; it is empty where attempts run on the machine that saw the program work."""

    policy: Policy
    target: Target
    manner: str
    check: Check
    seconds: float
    trial: str = ""


def try_all(
    policy: Policy, needs: Needs, check: Check, seconds: float, workers: Workers, told: Told, *, elsewhere: bool = False
) -> None:
    """Make every attempt that `needs` lacks. `told` hears of each in this thread, as it ends. An attempt that husk
    itself could not make ends everything, with what is known so far told. `elsewhere`: the workers are other machines,
    and each has to show first that the program works there."""
    wanted = [(need, manner) for need in needs.needs for manner in MANNERS if manner not in need.outcomes]
    trial = os.urandom(8).hex() if elsewhere else ""
    attempts = [_Attempt(policy, need.target, manner, check, seconds, trial) for need, manner in wanted]
    with closing(workers.stream(_try, attempts)) as answers:
        for number, answer in answers:
            if isinstance(answer, HuskError) and not isinstance(answer, LostWork):
                raise answer
            need, manner = wanted[number]
            need.outcomes[manner] = answer.decode() if isinstance(answer, bytes) else "takes its worker along"
            told(need.target, manner, need.outcomes[manner])


def _try(order: _Attempt, stop: Stop) -> bytes:
    if stop.asked:
        raise Stopped("nobody waits for this attempt any more.")
    if order.trial and (outcome := _usual(order.trial, order.policy, order.check, order.seconds)) != WORKS:
        raise HuskError(
            f"the program does not pass its test there with everything there ({outcome}); give all workers the same"
            " programs and files."
        )
    without = taken_away([take(order.target, order.manner)])
    return attempt(order.policy, without, order.check, order.seconds)[0].encode()


_seen: dict[str, str] = {}  # trial -> how the program ended with everything there, in this process


def _usual(trial: str, policy: Policy, check: Check, seconds: float) -> str:
    if trial not in _seen:
        _seen.clear()
        _seen[trial] = attempt(policy, None, check, seconds)[0]
    return _seen[trial]


def try_together(policy: Policy, needs: Needs, check: Check, seconds: float) -> str:
    """Leave out at once everything that can be left out one by one. Where that fails, find out which of it must stay:
    calls can stand in for each other."""
    whole = {need.target.call for need in needs.needs if not need.target.argument and need.verdict in _DISPENSABLE}
    wanted = [
        (str(need.target), take(need.target, FAKE if need.verdict == FAKEABLE else STUB))
        for need in needs.needs
        if need.verdict in _DISPENSABLE and not (need.target.argument and need.target.call in whole)
    ]

    def works(left_out: list[tuple[str, Take]]) -> bool:
        return attempt(policy, taken_away([what for _, what in left_out]), check, seconds)[0] == WORKS

    left_out = _most(works, [], wanted)
    stay = [name for name, what in wanted if (name, what) not in left_out]
    return f"works, but for {', '.join(stay)}" if stay else WORKS


T = TypeVar("T")


def _most(works: Callable[[list[T]], bool], base: list[T], more: list[T]) -> list[T]:
    """`base` and as much of `more` as still works, by halves."""
    if not more or works([*base, *more]):
        return [*base, *more]
    if len(more) == 1:
        return base
    half = len(more) // 2
    return _most(works, _most(works, base, more[:half]), more[half:])


_DISPENSABLE = (STUBBABLE, FAKEABLE, EITHER)


def patience(longest: float) -> float:
    return max(SECONDS_AT_LEAST, TIMES_AS_LONG * longest)

"""compat/need: one attempt: a program in a box of its own where something is missing or faked, then the check of its
work in the same box, where nothing is missing any more.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from husk.compat.need.needs_file import WORKS
from husk.sandbox.box import Box
from husk.sandbox.errors import HuskError
from husk.sandbox.plan import behind_walls
from husk.sandbox.run import Standby, launch
from husk.sandbox.runner import Events
from husk.sandbox.stdio.capture import Kept
from husk.sandbox.stdio.given_input import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.emulation import Emulation
    from husk.sandbox.plan import Plan
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result
    from husk.sandbox.run import Run

    Start = Callable[[Policy, tuple[int, int, int], tuple[Kept, Kept]], Run | None]

MOST_OUTPUT = 4 << 20  # bytes of a program's output that are kept for its check
CHECK_SECONDS = 60.0


@dataclass(frozen=True)
class Check:
    """How to tell that a program did its work: a shell command that ends with 0, or else the same exit code and the
    same output as at first. The command gets the program's output as its input, and its exit code as $STATUS."""

    command: str = ""
    status: int = 0
    output: bytes = b""


def attempt(policy: Policy, without: Emulation | None, check: Check, seconds: float) -> tuple[str, Result]:
    """The outcome in words, and how the program ended. HuskError: the box could not be made."""
    wanted = policy.again()
    wanted.emulation, wanted.timeout = without, seconds
    return behind_walls(wanted, lambda plan: _attempt(plan, wanted, check))


def _attempt(plan: Plan, policy: Policy, check: Check) -> tuple[str, Result]:
    box = Box(plan, lasting=True)
    try:
        if box.source is not None:
            policy.adopt_program(box.source)
        # A guest that waits: a program that ends at once would take the namespaces along that its check has to join.
        standby = Standby(box, policy, Events(None, None))
        try:
            standby.keep_namespaces()
            first = _run(standby.start, policy, b"")
        finally:
            standby.finish()
        if first.timed_out:
            return "hangs", first
        if not check.command:
            return _compared(first, check), first
        second = policy.again()
        second.argv = ["sh", "-c", check.command]
        second.env = {**policy.env, "STATUS": str(first.exit_code)}
        second.emulation = None if policy.emulation is None else policy.emulation.lifted()
        second.timeout = CHECK_SECONDS
        events = Events(None, None)
        checked = _run(
            lambda policy, stdio, kept: launch(box, policy, events, stdio, kept=kept), second, first.stdout or b""
        )
        if checked.exit_code == 0:
            return WORKS, first
        return (ended(first) if first.exit_code else f"the check ends with {checked.exit_code}"), first
    finally:
        box.ends()
        box.close()


def _run(start: Start, policy: Policy, stdin: bytes) -> Result:
    kept = Kept(MOST_OUTPUT), Kept(MOST_OUTPUT)
    given = readable(stdin)
    try:
        run = start(policy, (given, 1, 2), kept)
        if run is None:
            raise HuskError("the box ended before the program began; try it again.")
        try:
            result = run.wait()
        finally:
            run.finish()
        run.collect(result)
    finally:
        os.close(given)
    result.stdout, result.stderr = kept[0].data, kept[1].data
    return result


def _compared(result: Result, check: Check) -> str:
    if result.exit_code != check.status:
        return ended(result)
    return WORKS if result.stdout == check.output else "another output"


def ended(result: Result) -> str:
    if result.signal:
        return f"dies of {signal.Signals(result.signal).name}"
    return f"ends with {result.exit_code}"

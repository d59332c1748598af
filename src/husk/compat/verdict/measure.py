"""compat: run a command plainly and with a runtime's surface, and compare how it ends.

The plain run is made twice: output that differs between the two is not compared. Not here: how a surface is given to a
box (emulate.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from husk.compat.emulate import emulation
from husk.compat.look.facts import call_text
from husk.compat.surface import Surface
from husk.compat.verdict.judge import BREAKS, FALLBACK, RUNS, TRACED, Divergence, Measured, Need, Verdict
from husk.compat.verdict.known_cases import known_cases
from husk.sandbox.policy import Policy
from husk.sandbox.result import Result
from husk.sandbox.runner import Events, Runner

MOST_OUTPUT = 4 << 20
SECONDS = 60.0


@dataclass
class Ended:
    """How a run ended, as far as it can be compared."""

    exit_code: int
    signal: int
    timed_out: bool
    stdout: bytes
    refused: dict[str, str]  # by the surface: call, errno

    @property
    def text(self) -> str:
        if self.timed_out:
            return "does not end"
        if self.signal:
            import signal

            names = {one.value: one.name for one in signal.Signals}
            return f"is ended by {names.get(self.signal, f'signal {self.signal}')}"
        return f"exits with {self.exit_code}"


class Baseline:
    """The plain runs of one command."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.timeout = policy.timeout or SECONDS
        self.first = run_once(policy)
        self.second = run_once(policy)

    @property
    def flaky(self) -> bool:
        return _ending(self.first) != _ending(self.second)

    def compare(self, surface: Surface) -> Measured:
        there = run_once(self.policy, surface)
        if self.flaky:
            return Measured(True, "two plain runs end differently; nothing can be compared", flaky=True)
        if _ending(there) != _ending(self.first):
            text = f"in {surface.name} it {there.text}; plainly it {self.first.text}"
            return Measured(False, text, there.text, there.refused)
        if self.first.stdout == self.second.stdout and there.stdout != self.first.stdout:
            text = f"in {surface.name} it prints something else than plainly, and {there.text}"
            return Measured(False, text, "prints something else", there.refused)
        return Measured(True, f"in {surface.name} it {there.text}, as plainly", "", there.refused)


def _ending(one: Ended) -> tuple[int, int, bool]:
    return one.exit_code, one.signal, one.timed_out


def run_once(policy: Policy, surface: Surface | None = None) -> Ended:
    wanted = policy.again()
    wanted.emulation = emulation(surface) if surface is not None else None
    if wanted.timeout is None:
        wanted.timeout = SECONDS
    result: Result = Runner(wanted, Events(None, None), stdin=b"", keep=MOST_OUTPUT).run()
    mine = f"{surface.name} has no " if surface is not None else "\0"  # how emulate.py begins its reasons
    refused = {str(one["call"]): str(one["errno"]) for one in result.refusals if str(one["reason"]).startswith(mine)}
    return Ended(result.exit_code, result.signal, result.timed_out, result.stdout or b"", refused)


def decided(verdict: Verdict, measured: Measured) -> Verdict:
    """What was measured outweighs what was foreseen: only calls that the surface refused in the run count."""
    verdict.measured = measured
    if measured.flaky:
        return verdict
    verdict.basis = "measured"
    verdict.unclear = []
    met = list(measured.refused)
    kept = [one for one in verdict.divergences if one.need.call in measured.refused]
    foreseen = {one.need.call for one in kept}
    for call, errno in measured.refused.items():
        if call not in foreseen:
            need = Need(call, {}, TRACED, call_text(call, {}), places=["refused in the run"])
            cases = known_cases()
            fallback = cases.fallback(call, {}, errno)
            kept.append(Divergence(need, errno, "", fallback, cases.remedy(call, {}, errno)))
    # A runtime that itself ends at a call cannot be emulated: here the call failed, there everything would end.
    ends = {one.need.call for one in kept if not one.errno} - {one.need.call for one in kept if one.errno}
    if measured.same and not ends:
        verdict.status = FALLBACK if measured.refused else RUNS
        kept.sort(key=lambda one: met.index(one.need.call))
    else:
        verdict.status = BREAKS
        kept.sort(key=lambda one: (not one.then, one.need.call not in ends, not one.fatal, met.index(one.need.call)))
    verdict.divergences = kept
    return verdict


def beyond(verdict: Verdict, foreseen: Verdict) -> list[str]:
    """Missing calls that the code could make and the run did not: a run shows one way through a program."""
    return sorted({one.need.call for one in foreseen.divergences} - {one.need.call for one in verdict.divergences})

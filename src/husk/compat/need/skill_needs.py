"""compat/need: the needs of skills, from their test cases: a case works without a call, or it does not.

Only the calls that a runtime lacks are tried: for a plan the others do not matter.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from husk.compat.census import Census
from husk.compat.emulate import taken_away
from husk.compat.need.needs import listed, patience, take
from husk.compat.need.needs_file import MANNERS, WORKS, Need, Needs, Target
from husk.compat.surface import MISSING, Surface
from husk.compat.trace import trace
from husk.sandbox.runner import Runner
from husk.skills.testing import compare_cases
from husk.skills.testing.compare_cases import compare, missing_need, prepared_case

if TYPE_CHECKING:
    from husk.skills.running import Request
    from husk.skills.testing.cases import Case

MOST_OUTPUT = 4 << 20


def needs_of_case(case: Case, request: Request, surface: Surface, told: Callable[[str], None]) -> Needs | None:
    """None: the case cannot be run here, or fails with everything there; `told` hears why."""
    name = f"{case.skill.name}/{case.name}"
    if lacking := missing_need(case, request):
        told(f"{name}: skipped, {lacking} is not on this machine")
        return None
    usual = compare(case, request, native=False)
    if usual.status != compare_cases.WORKS:
        told(f"{name}: left out, it fails with everything there: {usual.reason}")
        return None
    needs = Needs([name], "its test case", name, lacked(case_census(case, request), surface))
    limits = request.limits | {"time": f"{patience(usual.box_seconds):.0f}"}
    for need in needs.needs:
        for manner in MANNERS:
            held = replace(request, limits=limits, emulation=taken_away([take(need.target, manner)]))
            verdict = compare(case, held, native=False)
            need.outcomes[manner] = WORKS if verdict.status == compare_cases.WORKS else verdict.reason or verdict.status
    told(f"{name}: {len(needs.needs)} calls tried")
    return needs


def lacked(census: Census, surface: Surface) -> list[Need]:
    """What the program asks for and the runtime lacks."""
    return [need for need in listed(census) if _is_missing(census, need.target, surface)]


def _is_missing(census: Census, target: Target, surface: Surface) -> bool:
    for asked in census.calls:
        if asked.call != target.call or (target.argument and asked.arguments.get(target.argument) != target.value):
            continue
        if surface.answer(asked.call, [asked.values.get(place, 0) for place in range(6)])[0] == MISSING:
            return True
    return False


def case_census(case: Case, request: Request) -> Census:
    """What a case of a skill asks for."""
    with tempfile.TemporaryDirectory(prefix="husk-need-") as name:
        out = Path(name, "out")
        out.mkdir()
        Path(name).chmod(0o755)
        with prepared_case(case, request, out) as box:
            try:
                return trace(box.policy, Runner.run, stdin=case.stdin.encode(), keep=MOST_OUTPUT).census
            finally:
                box.close()

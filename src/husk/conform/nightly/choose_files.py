"""conform/nightly: which programs of the suites matter: those that exercise the calls which skills really make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from husk.conform.matrix.calls_file import Calls, TracedFile
from husk.conform.matrix.uses_file import INTERPRETER, SKILL, Uses
from husk.conform.suite_file import Suite, SuiteFile
from husk.sandbox.errors import UsageError

# Kinds whose tests are files of their own. Lists of commands and skills are small, and run as a whole.
BY_FILE = ("googletest", "transcripts", "tap", "ltp", "python")


@dataclass(frozen=True)
class Chosen:
    """The suites with the files that are left of them; `files` has both numbers for each suite that was cut."""

    suites: list[Suite]
    used: frozenset[str]  # the calls that matter
    files: dict[str, tuple[int, int]]


def used_calls(uses: Uses) -> frozenset[str]:
    """What the skills call; where none could be run, what the interpreters call."""
    measured = uses.measured(SKILL) or uses.measured(INTERPRETER)
    return frozenset(call for one in measured for call in one.calls)


def choose_files(suites: Sequence[Suite], calls: Calls, uses: Uses, per_call: int) -> Chosen:
    """For each call that is used, the `per_call` files that exercise it most. A file that could not be traced stays:
    nobody knows what it exercises."""
    used = used_calls(uses)
    exercising = calls.exercising()
    names = {suite.name for suite in suites}
    wanted = {
        pair
        for call in used
        for pair in [one for one in exercising.get(call, ()) if one[0] in names][:per_call]
    }  # fmt: skip
    found, counts = [], {}
    for suite in suites:
        traced = calls.suites.get(suite.name)
        if suite.kind not in BY_FILE or traced is None:
            found.append(suite)
            continue
        rows = suite.files or tuple(SuiteFile(file) for file in sorted(traced.files))
        left = tuple(row for row in rows if (suite.name, row.path) in wanted or _unknown(traced.files, row.path))
        counts[suite.name] = (len(left), len(rows))
        if left:
            found.append(replace(suite, files=left))
    if not found:
        raise UsageError('no program of the suites exercises what the skills call; write choose = "all".')
    return Chosen(found, used, counts)


def _unknown(traced: Mapping[str, TracedFile], file: str) -> bool:
    one = traced.get(file)
    return one is None or not one.calls

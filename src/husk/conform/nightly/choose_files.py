"""conform/nightly: which programs of the suites matter: those that exercise the calls which skills really make."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from husk.conform.matrix.calls_file import Calls, TracedFile
from husk.conform.matrix.uses_file import INTERPRETER, SKILL, Uses
from husk.conform.suite_file import Suite
from husk.sandbox.errors import UsageError

# Kinds whose tests are files of their own. Lists of commands and skills are small, and run as a whole.
BY_FILE = ("googletest", "transcripts", "tap", "ltp", "python")


@dataclass(frozen=True)
class Chosen:
    """The suites that are run; of those in `files` only these files, of so many in `counts`."""

    suites: list[Suite]
    used: frozenset[str] = frozenset()  # the calls that matter
    files: Mapping[str, frozenset[str]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


def used_calls(uses: Uses) -> frozenset[str]:
    """What the skills call; where none could be run, what the interpreters call."""
    measured = uses.measured(SKILL) or uses.measured(INTERPRETER)
    return frozenset(call for one in measured for call in one.calls)


def choose_again(suites: Sequence[Suite], calls: Calls, uses: Uses, per_call: int, path: Path) -> Chosen:
    """As choose_files, and the choice is kept in `path` as long as the skills make the same calls and the suites have
    the same programs. How often a program makes a call varies from trace to trace, and a choice that varied with it
    would make cases come and go every night."""
    chosen = choose_files(suites, calls, uses, per_call)
    every = {suite.name: sorted(_every(suite, calls)) for suite in suites}
    key = hashlib.sha256(json.dumps([per_call, sorted(chosen.used), every]).encode()).hexdigest()
    try:
        kept = json.loads(path.read_bytes())
        files = {str(name): frozenset(map(str, found)) for name, found in kept["files"].items()}
        same = kept["key"] == key
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        same = False
    if same:
        left = [suite for suite in suites if suite.name in files or suite.name not in chosen.counts]
        return Chosen(left, chosen.used, files, chosen.counts)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps({"key": key, "files": {name: sorted(one) for name, one in chosen.files.items()}}))
    beside.replace(path)
    return chosen


def _every(suite: Suite, calls: Calls) -> set[str]:
    traced = calls.suites.get(suite.name)
    return {row.path for row in suite.files} or set(traced.files if traced else ())


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
    whole: list[Suite] = []
    files: dict[str, frozenset[str]] = {}
    counts: dict[str, int] = {}
    for suite in suites:
        traced = calls.suites.get(suite.name)
        if suite.kind not in BY_FILE or traced is None:
            whole.append(suite)
            continue
        every = _every(suite, calls)
        files[suite.name] = frozenset(
            file for file in every if (suite.name, file) in wanted or _unknown(traced.files, file)
        )
        counts[suite.name] = len(every)
    left = [suite for suite in suites if suite in whole or files[suite.name]]
    if not left:
        raise UsageError('no program of the suites exercises what the skills call; write choose = "all".')
    return Chosen(left, used, {name: chosen for name, chosen in files.items() if chosen}, counts)


def _unknown(traced: Mapping[str, TracedFile], file: str) -> bool:
    one = traced.get(file)
    return one is None or not one.calls

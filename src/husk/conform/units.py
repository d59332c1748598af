"""conform: units, the smallest things that are run as one process, and what a kind of suite does with them.

A suite's *kind* is a module of suites/ with two functions (`Kind`). `units` says what there is to run: asked natively,
so a runtime that cannot even list its cases still fails them by name. `read` turns what a process left behind into
results of cases. A process that crashed or hung leaves cases that did not get their turn: `read` returns a unit for
them, and the runner runs it next.

Not here: starting processes (execute/), judging (judge/).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from husk.conform.outcomes import CaseResult
    from husk.conform.suite_file import Suite


@dataclass(frozen=True)
class Unit:
    """One process. It carries all that is needed to run it elsewhere, on a worker of a cluster for one: only plain
    values, so it can be pickled and written as JSON."""

    suite: str
    kind: str
    file: str
    argv: tuple[str, ...]
    cases: tuple[str, ...] = ()  # what it is going to run; empty where only a run can tell
    environment: tuple[tuple[str, str], ...] = ()
    directory: str = ""  # the working directory; empty: a new one of its own
    shown: tuple[str, ...] = ()  # host directories that the program needs, read-only
    timeout: float = 60.0  # seconds for the whole process
    settings: tuple[tuple[str, str], ...] = ()  # what `read` needs of the suite's file

    def setting(self, name: str, default: str = "") -> str:
        return dict(self.settings).get(name, default)


@dataclass(frozen=True)
class Ended:
    """What a process left behind. `code` is negative for a signal, as subprocess has it; output is cut at a bound."""

    code: int
    timed_out: bool
    seconds: float
    stdout: bytes
    stderr: bytes
    files: dict[str, bytes] = field(default_factory=dict)  # what it wrote below its result directory, bounded
    cut: bool = False  # some output was too much to keep


@dataclass(frozen=True)
class Reading:
    """Results, and what is still to be run because a case ended the process before its turn."""

    results: list[CaseResult]
    rest: Unit | None = None


# Run a unit natively and say what it left behind: how a kind asks a program for its cases.
Ask = Callable[[Unit], Ended]
# In `argv` and `environment` this stands for a writable directory that is empty at the start; files in it become
# `Ended.files`. A prefix whose sandbox does not show it leaves the file out, so a kind must manage without.
RESULTS = "{results}"
# And this for a writable directory for temporary files: /tmp of a box, natively a new one. TMPDIR is set to it anyway.
TEMPORARY = "{tmp}"
# A unit with this setting is not run: each of its cases is skipped for the reason that the setting gives.
SKIP_SETTING = "skip"


class Kind(Protocol):
    def units(self, suite: Suite, ask: Ask) -> list[Unit]:
        """UsageError: the suite has no tests, or a program of it is none."""

    def read(self, unit: Unit, ended: Ended) -> Reading: ...

    # A kind may have a third function, `only(unit, cases) -> Unit`: the unit with some of its cases. Then the runner
    # cuts large units into small ones, runs only the cases that --filter asks for, and after a stop only what is left.


def own_environment() -> tuple[tuple[str, str], ...]:
    """What every case sees, wherever it runs: little, and the same."""
    names = ("PATH", "LANG", "TMPDIR")
    return tuple((name, os.environ[name]) for name in names if name in os.environ)

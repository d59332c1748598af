"""conform/execute: run whole suites: the native baseline, the run itself, and the judgement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from husk.conform.execute.where import Where
    from husk.conform.execute.workers import Workers
    from husk.conform.outcomes import RunRecord
    from husk.conform.suite_file import Suite


@dataclass(frozen=True)
class Options:
    """How to run, as `husk conform run` has it."""

    filters: tuple[str, ...] = ()
    jobs: int = 0  # 0: the number of processors
    timeout: float = 0.0  # 0: the suite's
    repeat: int = 2  # runs of the native baseline
    baseline: Path | None = None  # a results.json to judge by
    fresh_baseline: bool = False
    expected: Path | None = None
    resume: bool = False


# A workers object for each place that units run at: natively for the baseline, then there.
MakeWorkers = Callable[["Where", int], "Workers"]


def run_suites(
    suites: list[Suite], where: Where, options: Options | None = None, *, workers: MakeWorkers | None = None
) -> RunRecord:
    """Run, judge, and write results.json into the run's directory. Interrupted, the record is not whole."""
    raise NotImplementedError

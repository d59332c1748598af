"""Miniature suites for the kinds: a suite written into a directory, run natively, and its outcomes by case."""

from __future__ import annotations

from pathlib import Path

from husk.conform.execute.one_unit import run_unit
from husk.conform.execute.where import Where, native
from husk.conform.outcomes import CaseResult
from husk.conform.suite_file import Suite, read_suite
from husk.conform.suites import kind
from husk.conform.units import Ended, Unit


def write_suite(place: Path, head: str, files: dict[str, str]) -> Suite:
    """`head` is the suite file without format and name; files that start with #! are executable."""
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    (place / "suite.toml").write_text(f"format = 1\nname = 'mini'\n{head}")
    return read_suite(place)


def run_natively(unit: Unit) -> Ended:
    return run_unit(unit, native())


def run_all(suite: Suite, where: Where | None = None) -> dict[str, CaseResult]:
    """Every case of the suite, with what is run again because a process ended early, by `file/case`; natively, or
    elsewhere."""
    module, found = kind(suite.kind), dict[str, CaseResult]()
    waiting = module.units(suite, run_natively)
    while waiting:
        unit = waiting.pop()
        reading = module.read(unit, run_unit(unit, where or native()))
        for one in reading.results:
            name = f"{one.name.file}/{one.name.case}"
            assert name not in found, "a case has two results"
            found[name] = one
        waiting += [reading.rest] if reading.rest else []
    return found


def outcomes(suite: Suite) -> dict[str, str]:
    return {name: one.outcome for name, one in sorted(run_all(suite).items())}

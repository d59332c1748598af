"""cli/conform: what several commands read: runs from files and from the history, what was measured, numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from husk.conform.history.database import open_history
from husk.conform.history.find_run import find_run
from husk.conform.matrix.calls_file import Calls, read_calls
from husk.conform.matrix.traces_file import Traces, read_traces
from husk.conform.matrix.uses_file import Uses, read_uses
from husk.conform.outcomes import RunRecord
from husk.conform.places import conform_directory
from husk.conform.results_file import read_results
from husk.sandbox.errors import UsageError

CALLS, USES, TRACES = "calls.json", "uses.json", "traces.json"


def kept_file(given: str, name: str) -> Path:
    """The file that was named, or the one of the data directory."""
    return Path(given) if given else conform_directory() / name


def known_calls(given: str) -> Calls | None:
    """None: none was named, and none is kept."""
    path = kept_file(given, CALLS)
    return read_calls(path) if given or path.exists() else None


def known_uses(given: str) -> Uses | None:
    path = kept_file(given, USES)
    return read_uses(path) if given or path.exists() else None


def known_traces(given: str) -> Traces:
    path = kept_file(given, TRACES)
    return read_traces(path) if given or path.exists() else {}


def named_records(files: Sequence[str], runs: Sequence[str]) -> list[RunRecord]:
    """Files first, then runs of the history, each in the order they were named."""
    records = [read_results(Path(name)) for name in files]
    if runs:
        with open_history() as history:
            records += [find_run(history, run, outputs=True) for run in runs]
    return records


def whole_number(option: str, text: str, default: int, most: int) -> int:
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= most:
        raise UsageError(f"{option} {text}: give a number from 1 to {most}.")
    return int(text)


def processors() -> int:
    return max(1, len(os.sched_getaffinity(0)))

"""conform/matrix: traces.json: what cases that were missed called, as excerpts. docs/formats/traces.md.

Here: the values, reading and writing. Not here: tracing (trace_misses.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from husk.conform.json_file import read_json, write_json
from husk.conform.outcomes import CaseName

FORMAT = 1
LARGEST_FILE = 256 << 20


@dataclass(frozen=True)
class CaseTrace:
    """An excerpt of one case's calls. `run` is the run that missed it."""

    run: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


Traces = dict[CaseName, CaseTrace]


def write_traces(traces: Traces, path: Path) -> None:
    rows = [
        {"suite": name.suite, "file": name.file, "case": name.case, "run": one.run, "lines": one.lines}
        for name, one in sorted(traces.items())
    ]
    write_json({"format": FORMAT, "cases": rows}, path)


def read_traces(path: Path) -> Traces:
    return read_json(path, "traces.json", FORMAT, LARGEST_FILE, "husk conform trace SUITE… --misses RUN", _traces)


def _traces(document: dict[str, Any]) -> Traces:
    return dict(_case(row) for row in document["cases"])


def _case(row: dict[str, Any]) -> tuple[CaseName, CaseTrace]:
    name = CaseName(str(row["suite"]), str(row["file"]), str(row["case"]))
    return name, CaseTrace(str(row["run"]), tuple(map(str, row["lines"])))

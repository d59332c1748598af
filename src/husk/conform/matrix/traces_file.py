"""conform/matrix: traces.json: what cases that were missed called, as excerpts. docs/formats/traces.md.

Here: the values, reading and writing. Not here: tracing (trace_misses.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from husk.compat.bounded_file import read_bounded
from husk.conform.outcomes import CaseName
from husk.sandbox.errors import UsageError

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
    """Whole or not at all."""
    rows = [
        {"suite": name.suite, "file": name.file, "case": name.case, "run": one.run, "lines": one.lines}
        for name, one in sorted(traces.items())
    ]
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps({"format": FORMAT, "cases": rows}, indent=1) + "\n")
    beside.replace(path)


def read_traces(path: Path) -> Traces:
    content = read_bounded(path, LARGEST_FILE, "`husk conform trace SUITE… --misses RUN` writes one.", ".")
    try:
        document = json.loads(content)
        if document["format"] != FORMAT:
            raise UsageError(f"{path}: a file of another husk (format {document['format']!r}).")
        return dict(_case(row) for row in document["cases"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: not a traces.json of husk ({type(error).__name__}: {error}).") from None


def _case(row: dict[str, Any]) -> tuple[CaseName, CaseTrace]:
    name = CaseName(str(row["suite"]), str(row["file"]), str(row["case"]))
    return name, CaseTrace(str(row["run"]), tuple(map(str, row["lines"])))

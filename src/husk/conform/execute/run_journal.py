"""conform/execute: the journal of a run: what is known so far, so that a run that was killed can go on.

HUSK_CONFORM/runs/NAME/journal.jsonl, as husk.cluster.work_journal writes it: after the header a line for each process
that ended, with the results of its cases.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.cluster import work_journal
from husk.cluster.work_journal import WorkJournal
from husk.conform.outcomes import RAW, CaseName, CaseResult

if TYPE_CHECKING:
    from husk.conform.units import Reading, Unit

NAME = "journal.jsonl"
FORMAT = 1


class Journal:
    def __init__(self, directory: Path, header: dict[str, Any] | None = None) -> None:
        """A new one with this header; without, an existing one is gone on with."""
        self.directory = directory
        self.results: dict[str, dict[CaseName, CaseResult]] = {}
        self._done: set[tuple[str, str]] = set()
        self._file = WorkJournal(directory / NAME, FORMAT, header)
        self.header = self._file.header
        for line in self._file.lines:
            self._take(line)

    def add(self, phase: str, unit: Unit, reading: Reading) -> None:
        results = [[one.name.case, one.outcome, one.seconds, one.why, one.output] for one in reading.results]
        line = {"phase": phase, "suite": unit.suite, "file": unit.file, "results": results}
        if reading.rest is None:
            line["done"] = unit_key(unit)
        self._file.append(line)
        self._take(line)

    def of_phase(self, phase: str) -> dict[CaseName, CaseResult]:
        return self.results.setdefault(phase, {})

    def is_done(self, phase: str, unit: Unit) -> bool:
        """For units whose cases only a run can tell."""
        return (phase, unit_key(unit)) in self._done

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def _take(self, line: dict[str, Any]) -> None:
        try:
            found = self.of_phase(str(line["phase"]))
            for case, outcome, seconds, why, output in line["results"]:
                if outcome in RAW:
                    name = CaseName(line["suite"], line["file"], case)
                    found[name] = CaseResult(name, outcome, float(seconds), why, output)
            if "done" in line:
                self._done.add((line["phase"], line["done"]))
        except (KeyError, TypeError, ValueError):
            return


def read_header(directory: Path) -> dict[str, Any] | None:
    """What a run directory's journal is about; None: there is none, or not one of ours."""
    return work_journal.read_header(directory / NAME, FORMAT)


def unit_key(unit: Unit) -> str:
    return json.dumps([unit.suite, unit.file, unit.argv, unit.cases])

"""conform/execute: the journal of a run: what is known so far, so that a run that was killed can go on.

HUSK_CONFORM/runs/NAME/journal.jsonl. The first line says what is run; then there is a line for each process that ended,
with the results of its cases. Lines are only ever added. A line that was cut, by a kill or a full disk, is dropped: its
cases are run again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.conform.outcomes import RAW, CaseName, CaseResult
from husk.sandbox.errors import HuskError

if TYPE_CHECKING:
    from husk.conform.units import Reading, Unit

NAME = "journal.jsonl"
FORMAT = 1
SYNC_EVERY = 1.0  # seconds of work that a power failure may cost
PATIENCE = 5  # seconds to wait for room: a unit that filled the disk gives it back when it ends


class Journal:
    """Open for adding, and locked: two runs never write one journal."""

    def __init__(self, directory: Path, header: dict[str, Any] | None = None) -> None:
        """A new one with this header; without, an existing one is gone on with."""
        self.directory, self._path = directory, directory / NAME
        self.results: dict[str, dict[CaseName, CaseResult]] = {}
        self._done: set[tuple[str, str]] = set()
        self._synced = time.monotonic()
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if header is not None else 0)
        self._fd = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise HuskError(f"{directory}: another husk is running it.") from None
        if header is not None:
            self.header = header
            self._size = 0
            self._append({"format": FORMAT, **header})
        else:
            self.header, self._size = self._load()
            os.ftruncate(self._fd, self._size)

    def add(self, phase: str, unit: Unit, reading: Reading) -> None:
        results = [[one.name.case, one.outcome, one.seconds, one.why, one.output] for one in reading.results]
        line = {"phase": phase, "suite": unit.suite, "file": unit.file, "results": results}
        if reading.rest is None:
            line["done"] = unit_key(unit)
        self._append(line)
        self._take(line)
        if time.monotonic() - self._synced > SYNC_EVERY:
            self.sync()

    def of_phase(self, phase: str) -> dict[CaseName, CaseResult]:
        return self.results.setdefault(phase, {})

    def is_done(self, phase: str, unit: Unit) -> bool:
        """For units whose cases only a run can tell."""
        return (phase, unit_key(unit)) in self._done

    def sync(self) -> None:
        os.fsync(self._fd)
        self._synced = time.monotonic()

    def close(self) -> None:
        try:
            self.sync()
        finally:
            os.close(self._fd)

    def _append(self, line: dict[str, Any]) -> None:
        content = json.dumps(line).encode() + b"\n"
        for attempt in range(PATIENCE + 1):
            try:
                written = 0
                while written < len(content):
                    written += os.write(self._fd, content[written:])
                self._size += len(content)
                return
            except OSError as error:
                os.ftruncate(self._fd, self._size)  # nothing but whole lines stays
                if attempt == PATIENCE:
                    raise HuskError(
                        f"{self._path}: {error.strerror}; what is recorded stays: make room, and run the same with"
                        " --resume."
                    ) from None
                time.sleep(1)

    def _load(self) -> tuple[dict[str, Any], int]:
        with open(self._fd, "rb", closefd=False) as file:
            lines = list(_whole_lines(file.read()))
        if not lines or lines[0][0].get("format") != FORMAT:
            raise HuskError(f"{self._path}: not the journal of a run; remove {self.directory}.")
        for line, _ in lines[1:]:
            self._take(line)
        return lines[0][0], lines[-1][1]

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
    try:
        with open(directory / NAME, "rb") as file:
            header = json.loads(file.readline(1 << 20))
    except (OSError, ValueError):
        return None
    return header if isinstance(header, dict) and header.get("format") == FORMAT else None


def unit_key(unit: Unit) -> str:
    return json.dumps([unit.suite, unit.file, unit.argv, unit.cases])


def _whole_lines(content: bytes) -> Iterator[tuple[dict[str, Any], int]]:
    """Each line with where it ends, up to the first that is damaged."""
    end = 0
    for line in content.splitlines(keepends=True):
        try:
            document = json.loads(line)
        except ValueError:
            return
        if not line.endswith(b"\n") or not isinstance(document, dict):
            return
        end += len(line)
        yield document, end

"""conform/matrix: calls.json: which calls each file of a suite makes, as a trace showed them. docs/formats/calls.md.

Here: the values, reading and writing, and which files exercise a call. Not here: tracing (trace_suites.py).
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from husk.conform.json_file import read_json, write_json

FORMAT = 1
LARGEST_FILE = 256 << 20
FEW_FILES = 3  # with fewer files of a suite nothing can be called common to them


@dataclass(frozen=True)
class TracedFile:
    """`ended` is how the traced program ended: "exit 0", "SIGSEGV", "after 20 s" where time ran out, or "not run: WHY"
    where it could not be traced at all. `digest` is that of what was run: the file and how it was called."""

    digest: str
    ended: str
    calls: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    runs: int = 1  # how often the program was started: once for each part of its cases


@dataclass(frozen=True)
class TracedSuite:
    title: str = ""
    source: str = ""
    files: dict[str, TracedFile] = field(default_factory=dict)

    def common(self) -> dict[str, float]:
        """How often every file of the suite makes a call at least, for each start: what starting a program of it costs,
        whatever it tests. Empty where too few files were traced to their end to tell."""
        traced = [one for one in self.files.values() if one.ended.startswith("exit ")]
        if len(traced) < FEW_FILES:
            return {}
        return {call: min(one.calls.get(call, 0) / one.runs for one in traced) for call in traced[0].calls}


@dataclass(frozen=True)
class Calls:
    """Suites by name. `husk` is the version that traced last."""

    husk: str = ""
    suites: dict[str, TracedSuite] = field(default_factory=dict)

    def exercising(self) -> dict[str, list[tuple[str, str]]]:
        """Call -> (suite, file) of the files that make it more often than every file of their suite does. First the
        files that are named after the call, then those of whose calls it has the largest share."""
        found: dict[str, list[tuple[bool, float, str, str]]] = {}
        for suite, traced in self.suites.items():
            common = traced.common()
            for file, one in traced.files.items():
                own = {call: count - common.get(call, 0) * one.runs for call, count in one.calls.items()}
                total = sum(own.values()) or 1
                for call, count in own.items():
                    if count > 0.99:  # once more, whatever division made of it
                        found.setdefault(call, []).append((call not in words_of(file), -count / total, suite, file))
        return {call: [(suite, file) for _, _, suite, file in sorted(rows)] for call, rows in found.items()}


def words_of(file: str) -> set[str]:
    """Names of calls that a file's name may hold: socket_inet_loopback_test -> socket, inet, …, socket_inet, …"""
    parts = re.split(r"[^a-z0-9]+", Path(file).name.lower())
    return {"_".join(parts[first:last]) for first in range(len(parts)) for last in range(first + 1, len(parts) + 1)}


def write_calls(calls: Calls, path: Path) -> None:
    """The same calls always give the same bytes."""
    write_json({"format": FORMAT, **asdict(calls)}, path, sort_keys=True)


def read_calls(path: Path) -> Calls:
    return read_json(path, "calls.json", FORMAT, LARGEST_FILE, "husk conform trace SUITE…", _calls)


def _calls(document: dict[str, Any]) -> Calls:
    return Calls(str(document["husk"]), {name: _suite(row) for name, row in document["suites"].items()})


def _suite(row: dict[str, Any]) -> TracedSuite:
    files = {
        name: TracedFile(
            str(one["digest"]), str(one["ended"]), counts(one["calls"]), float(one["seconds"]), int(one["runs"]) or 1
        )
        for name, one in row["files"].items()
    }
    return TracedSuite(str(row["title"]), str(row["source"]), files)


def counts(found: dict[str, Any]) -> dict[str, int]:
    """Calls with how often each was made, from a file."""
    for call, count in found.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ValueError(f"{call}: {count!r} is no count")
    return dict(found)

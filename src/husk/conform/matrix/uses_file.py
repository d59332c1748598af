"""conform/matrix: uses.json: which calls interpreters and skills make, and whether they work. docs/formats/uses.md.

Here: the values, reading and writing. Not here: measuring (measure_uses.py), and what follows for a call (priority.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from husk.conform.json_file import read_json, write_json
from husk.conform.matrix.calls_file import counts

FORMAT = 1
LARGEST_FILE = 64 << 20
INTERPRETER, SKILL = "interpreter", "skill"
WORKS, FAILS, ABSENT = "works", "fails", "absent"  # absent: it, or something it needs, is not on the machine


@dataclass(frozen=True)
class Use:
    """An interpreter or a skill. `ran` are the commands or cases that were run, in words; `why` says what went wrong,
    or what is absent. `digest` is that of what was run."""

    kind: str
    name: str
    outcome: str
    ran: tuple[str, ...] = ()
    version: str = ""
    why: str = ""
    calls: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    digest: str = ""


@dataclass(frozen=True)
class Uses:
    """Measured by `husk`, a version, on `kernel` with `setting` (walled or bare); `date` is that of the last run."""

    husk: str = ""
    kernel: str = ""
    setting: str = ""
    date: str = ""
    uses: tuple[Use, ...] = ()

    def of(self, kind: str) -> list[Use]:
        return [one for one in self.uses if one.kind == kind]

    def measured(self, kind: str) -> list[Use]:
        """Those that were run, whatever became of it."""
        return [one for one in self.of(kind) if one.calls]


def write_uses(uses: Uses, path: Path) -> None:
    write_json({"format": FORMAT, **asdict(uses)}, path, sort_keys=True)


def read_uses(path: Path) -> Uses:
    return read_json(path, "uses.json", FORMAT, LARGEST_FILE, "husk conform uses", _uses)


def _uses(document: dict[str, Any]) -> Uses:
    about = {key: str(document[key]) for key in ("husk", "kernel", "setting", "date")}
    return Uses(**about, uses=tuple(_use(row) for row in document["uses"]))


def _use(row: dict[str, Any]) -> Use:
    if row["kind"] not in (INTERPRETER, SKILL) or row["outcome"] not in (WORKS, FAILS, ABSENT):
        raise ValueError(f"no such use: {row['kind']!r}, {row['outcome']!r}")
    return Use(
        row["kind"], str(row["name"]), row["outcome"], tuple(map(str, row["ran"])), str(row["version"]),
        str(row["why"]), counts(row["calls"]), float(row["seconds"]), str(row["digest"]),
    )  # fmt: skip

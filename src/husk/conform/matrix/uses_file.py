"""conform/matrix: uses.json: which calls interpreters and skills make, and whether they work. docs/formats/uses.md.

Here: the values, reading and writing. Not here: measuring (measure_uses.py), and what follows for a call (priority.py).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from husk.compat.bounded_file import read_bounded
from husk.conform.matrix.calls_file import counts
from husk.sandbox.errors import UsageError

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
    """Whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    document = {"format": FORMAT, **asdict(uses)}
    text = json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    beside.write_bytes(text.encode("utf-8", "backslashreplace"))  # a lone surrogate becomes its JSON escape
    beside.replace(path)


def read_uses(path: Path) -> Uses:
    content = read_bounded(path, LARGEST_FILE, "`husk conform uses` writes one.", ".")
    try:
        document = json.loads(content)
        if document["format"] != FORMAT:
            raise UsageError(f"{path}: a file of another husk (format {document['format']!r}).")
        about = {key: str(document[key]) for key in ("husk", "kernel", "setting", "date")}
        return Uses(**about, uses=tuple(_use(row) for row in document["uses"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: not a uses.json of husk ({type(error).__name__}: {error}).") from None


def _use(row: dict[str, Any]) -> Use:
    if row["kind"] not in (INTERPRETER, SKILL) or row["outcome"] not in (WORKS, FAILS, ABSENT):
        raise ValueError(f"no such use: {row['kind']!r}, {row['outcome']!r}")
    return Use(
        row["kind"], str(row["name"]), row["outcome"], tuple(map(str, row["ran"])), str(row["version"]),
        str(row["why"]), counts(row["calls"]), float(row["seconds"]), str(row["digest"]),
    )  # fmt: skip

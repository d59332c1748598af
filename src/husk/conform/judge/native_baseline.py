"""conform/judge: the native baseline: what each case does without any sandbox, over several runs.

Kept in HUSK_CONFORM/baselines, a file for each suite: for this content of its programs, this kernel and this user. A
changed program has another file, so it is never judged by what an older one did.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.conform.outcomes import FAIL, FLAKY, PASS, RAW, CaseName, RunRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.conform.outcomes import CaseResult
    from husk.conform.suite_file import Suite

FORMAT = 1
MOST_RUNS = 20  # outcomes remembered of a case, the latest


@dataclass
class Baseline:
    """Native outcomes of cases, and how long each took at most."""

    outcomes: dict[CaseName, list[str]] = field(default_factory=dict)
    seconds: dict[CaseName, float] = field(default_factory=dict)
    files: dict[tuple[str, str], int] = field(default_factory=dict)  # runs of (suite, file), where cases are unknown

    def add(self, results: Iterable[CaseResult]) -> None:
        for result in results:
            runs = self.outcomes.setdefault(result.name, [])
            runs.append(result.outcome)
            del runs[:-MOST_RUNS]
            self.seconds[result.name] = max(result.seconds, self.seconds.get(result.name, 0.0))

    def runs(self, name: CaseName) -> int:
        return len(self.outcomes.get(name, ()))

    def passes(self, name: CaseName) -> bool:
        """Always, as far as one knows."""
        runs = self.outcomes.get(name, [])
        return bool(runs) and all(outcome == PASS for outcome in runs)


def from_record(record: RunRecord) -> Baseline:
    """From a results.json of a native run."""
    found = Baseline()
    for one in record.cases:
        found.outcomes[one.name] = [PASS, FAIL] if one.verdict == FLAKY else [one.outcome]
        found.seconds[one.name] = one.seconds
    return found


def suite_digest(suite: Suite) -> str:
    """Of everything that decides what its cases do: the programs' content, arguments, variables, settings."""
    digest = hashlib.blake2b(digest_size=16)
    about = [suite.name, suite.kind, suite.environment, suite.shown, repr(sorted(suite.settings.items()))]
    digest.update(json.dumps(about).encode())
    paths = [one.path for one in suite.files] or sorted(entry.name for entry in suite.place.iterdir())
    for one in suite.files:
        digest.update(json.dumps([one.path, one.args, one.environment, one.skip]).encode())
    for path in paths:
        _add_content(digest, suite.place / path)
    return digest.hexdigest()


def _add_content(digest: Any, path: Path) -> None:
    digest.update(os.fsencode(path.name) + b"\0")
    try:
        if path.is_dir():
            for below in sorted(path.rglob("*")):
                info = below.lstat()
                digest.update(f"{below.relative_to(path)}\0{info.st_size}\0{info.st_mtime_ns}\0".encode())
        elif path.is_file():
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "blake2b").digest())
    except OSError:
        return  # not a file: a name that the kind understands, or one that this user may not read


def baseline_path(directory: Path, suite: Suite, digest: str, uid: int) -> Path:
    key = hashlib.blake2b(json.dumps([digest, platform.release(), uid]).encode(), digest_size=12).hexdigest()
    return directory / "baselines" / f"{suite.name}-{key}.json"


def load_baseline(path: Path, suite: str) -> Baseline:
    """Empty where there is none yet, or where the file is damaged: it is only remembered work."""
    found = Baseline()
    try:
        document = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            return Baseline()
        for file, case, seconds, outcomes in document["cases"]:
            name = CaseName(suite, file, case)
            found.outcomes[name] = [outcome for outcome in outcomes if outcome in RAW]
            found.seconds[name] = float(seconds)
        found.files = {(suite, file): int(runs) for file, runs in document["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Baseline()
    return found


def save_baseline(path: Path, suite: str, baseline: Baseline) -> None:
    """Whole or not at all."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    document = {
        "format": FORMAT,
        "suite": suite,
        "kernel": platform.release(),
        "cases": [
            [name.file, name.case, baseline.seconds.get(name, 0.0), outcomes]
            for name, outcomes in baseline.outcomes.items()
            if name.suite == suite
        ],
        "files": {file: runs for (of, file), runs in baseline.files.items() if of == suite},
    }
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps(document))
    beside.replace(path)

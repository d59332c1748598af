"""conform/judge: the native baseline: what each case does without any sandbox, over several runs.

Kept in HUSK_CONFORM/baselines, a file for each suite, kernel and user. With each program a digest of its content is
kept, so a changed program is never judged by what an older one did.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.conform.outcomes import FAIL, FLAKY, HANG, PASS, RAW, CaseName, RunRecord
from husk.conform.suite_file import SuiteFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from husk.conform.outcomes import CaseResult
    from husk.conform.suite_file import Suite
    from husk.conform.units import Unit

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

    def hangs(self, name: CaseName) -> bool:
        """Always: then it costs its whole time wherever it runs, and counts nowhere."""
        runs = self.outcomes.get(name, [])
        return bool(runs) and all(outcome == HANG for outcome in runs)

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


def file_digests(suite: Suite, units: Iterable[Unit] = ()) -> dict[str, str]:
    """For each file of the suite a digest of everything that decides what its cases do: its content, its arguments,
    variables and settings. Where the suite file names none, the kind finds them: then its `units` tell what there is,
    and of their words those that are files of the suite are content."""
    about = json.dumps([suite.kind, suite.environment, suite.shown, repr(sorted(suite.settings.items()))])
    files = suite.files or tuple(SuiteFile(entry.name) for entry in sorted(suite.place.iterdir()))
    found = {}
    for one in files:
        digest = hashlib.blake2b(about.encode(), digest_size=16)
        digest.update(json.dumps([one.path, one.args, one.environment, one.skip]).encode())
        _add_content(digest, suite.place / one.path)
        found[one.path] = digest.hexdigest()
    others: dict[str, Any] = {}
    for unit in units:
        if unit.file not in found:
            digest = others.setdefault(unit.file, hashlib.blake2b(about.encode(), digest_size=16))
            digest.update(json.dumps([unit.file, unit.argv]).encode())
            for path in (Path(word) for word in unit.argv if word.startswith("/")):
                if path.is_relative_to(suite.place):
                    _add_content(digest, path)
    return found | {file: digest.hexdigest() for file, digest in others.items()}


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


def baseline_path(directory: Path, suite: Suite, uid: int) -> Path:
    key = hashlib.blake2b(json.dumps([suite.name, platform.release(), uid]).encode(), digest_size=8).hexdigest()
    return directory / "baselines" / f"{suite.name}-{key}.json"


def load_baseline(path: Path, suite: str, digests: Mapping[str, str]) -> Baseline:
    """Of the files that have not changed since. Empty where there is none yet, or where it is damaged: it is only
    remembered work."""
    found = Baseline()
    try:
        document = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            return Baseline()
        files = document["files"].items()
        for file, about in ((file, about) for file, about in files if about["digest"] == digests.get(file)):
            found.files[(suite, file)] = int(about["runs"])
            for case, seconds, outcomes in about["cases"]:
                name = CaseName(suite, file, case)
                found.outcomes[name] = [outcome for outcome in outcomes if outcome in RAW]
                found.seconds[name] = float(seconds)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Baseline()
    return found


def save_baseline(path: Path, suite: str, digests: Mapping[str, str], baseline: Baseline) -> None:
    """Whole or not at all. What is remembered of other files of the suite is kept: not every run has all of them."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    files: dict[str, Any] = {}
    try:
        before = json.loads(path.read_bytes())
        files = {str(file): about for file, about in before["files"].items()} if before["format"] == FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    now: dict[str, Any] = {}
    for name, outcomes in baseline.outcomes.items():
        if name.suite == suite:
            runs = baseline.files.get((suite, name.file), 0)
            about = now.setdefault(name.file, {"digest": digests.get(name.file, ""), "runs": runs, "cases": []})
            about["cases"].append([name.case, baseline.seconds.get(name, 0.0), outcomes])
    document = {"format": FORMAT, "suite": suite, "kernel": platform.release(), "files": files | now}
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps(document))
    beside.replace(path)

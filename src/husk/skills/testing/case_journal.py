"""skills/testing: what has been found out about the cases of a test, so that a test that was killed can go on.

A journal (husk.cluster.work_journal) in the user's cache, named after what was asked for. It goes when all cases have
their verdicts. A case that has changed since, or whose skill or input has, is run again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from husk.cluster.work_journal import WorkJournal
from husk.sandbox.errors import HuskError, UsageError
from husk.skills.cache_place import cache_place
from husk.skills.open_skill import tree_digest
from husk.skills.testing.cases import Case
from husk.skills.testing.compare_cases import Verdict

FORMAT = 1
_KEPT = ("setting", "status", "reason", "native_seconds", "box_seconds")


class CaseJournal:
    """`left_over` counts the cases that an earlier attempt ended, where they are not taken over."""

    def __init__(self, cases: Sequence[Case], asked: dict[str, Any], *, resume: bool) -> None:
        name = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]
        self._path = cache_place("skill-tests") / f"{name}.jsonl"
        self._digests: dict[Path, str] = {}
        self._keys = [self._key(case) for case in cases]
        self.left_over = 0
        known: dict[str, list[dict[str, Any]]] = {}
        file = self._earlier()
        if file is None:
            if resume:
                raise UsageError("there is no stopped test of this kind to go on with; run it without --resume.")
        elif resume:
            known = {line["case"]: line["verdicts"] for line in file.lines if {"case", "verdicts"} <= line.keys()}
        else:
            self.left_over = len(file.lines)
            self._path.unlink()
            file.close()
            file = None
        self._file = file or WorkJournal(self._path, FORMAT, {"asked": asked})
        self.known = {
            number: [Verdict(cases[number], **one) for one in known[key]]
            for number, key in enumerate(self._keys)
            if key in known
        }

    def add(self, number: int, verdicts: Sequence[Verdict]) -> None:
        rows = [{name: getattr(one, name) for name in _KEPT} for one in verdicts]
        self._file.append({"case": self._keys[number], "verdicts": rows})

    def close(self, *, whole: bool) -> None:
        """`whole`: every case has its verdicts, so nothing is left to go on with."""
        if whole:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def _earlier(self) -> WorkJournal | None:
        try:
            return WorkJournal(self._path, FORMAT)
        except FileNotFoundError:
            return None
        except HuskError:
            if self._path.stat().st_size:
                raise
            self._path.unlink()  # killed before its first line
            return None

    def _key(self, case: Case) -> str:
        said = asdict(case) | {name: str(getattr(case, name)) for name in ("skill", "input", "base")}
        content = [self._digest(path) for path in (case.skill, case.input) if path is not None]
        return hashlib.sha256(json.dumps([said, content], sort_keys=True, default=str).encode()).hexdigest()

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            try:
                content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else tree_digest(path)
            except OSError as error:
                content = str(error)
            self._digests[path] = content
        return self._digests[path]

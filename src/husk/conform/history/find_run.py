"""conform/history: the run that a person means: by its name, as `latest` or `latest~2`, or a results.json."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from husk.conform.results_file import read_results
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.conform.history.database import History
    from husk.conform.outcomes import RunRecord

_LATEST = re.compile(r"latest(?:~(\d{1,6}))?")


def find_run(history: History, word: str, runtime: str = "", *, outputs: bool = False) -> RunRecord:
    """Without the outputs of its cases, unless they are wanted. `latest` is the newest run, of `runtime` if one is
    given; `latest~1` the one before it of the same runtime and the same suites."""
    found = _LATEST.fullmatch(word)
    if found:
        return history.record(_back(history, word, int(found[1] or 0), runtime), outputs=outputs)
    if "/" in word or word.endswith(".json") or os.path.isfile(word):
        return read_results(Path(word))
    return history.record(word, outputs=outputs)


def _back(history: History, word: str, steps: int, runtime: str) -> str:
    runs = history.runs(runtime)
    if not runs:
        whose = f" of {runtime}" if runtime else ""
        raise UsageError(f"{word}: the history holds no run{whose} yet; `husk conform run` adds one.")
    newest = runs[-1].info
    line = history.line(newest.runtime, newest.suites)
    if steps >= len(line):
        raise UsageError(
            f"{word}: the history holds {len(line)} run{'s' * (len(line) > 1)} of {newest.runtime} with"
            f" {', '.join(newest.suites) or 'no suite'}; `husk conform history` lists them."
        )
    return line[-1 - steps].info.run

"""conform: run ninja on a build.ninja, and learn from what it prints what was done and what failed.

ninja keeps going after a failure and resumes what was interrupted; nothing of that is done here again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from husk.sandbox.errors import HuskError, UsageError

MOST_ERROR = 300  # characters of an error that are kept
COMPILERS = ("g++", "c++", "clang++")
NO_SPACE = "No space left on device"

_STATUS = re.compile(r"\[(\d+)/(\d+)\] ")
_FAILED = re.compile(r"FAILED: (?:\[code=\d+\] )?(.*)")
_TELLING = re.compile(r"error:|undefined reference|multiple definition|No space left on device|cannot find -l")

# Called with steps done, steps in all, and what was done last.
Progress = Callable[[int, int, str], None]


def find_compiler() -> str:
    """UsageError: there is none."""
    chosen = os.environ.get("CXX", "")
    for name in (chosen,) if chosen else COMPILERS:
        if found := shutil.which(name):
            return found
    what = f"CXX={chosen} is no program" if chosen else "there is no C++ compiler"
    raise UsageError(f"{what}; install g++, or set CXX to a compiler.")


def find_ninja() -> str:
    """UsageError: there is none."""
    # pip puts a ninja beside the Python that runs husk.
    found = shutil.which("ninja") or shutil.which("ninja", path=os.path.dirname(sys.executable))
    if found is None:
        raise UsageError("ninja is not installed; install ninja-build, or `pip install ninja`.")
    return found


def run_ninja(ninja: str, place: Path, outputs: list[str], jobs: int, progress: Progress) -> dict[str, str]:
    """What failed in `place`: each output with its first error. The rest is built."""
    words = [ninja, "-C", str(place), "-k", "0", *(["-j", str(jobs)] if jobs else []), *dict.fromkeys(outputs)]
    environment = os.environ | {"NINJA_STATUS": "[%f/%t] ", "LC_ALL": "C.UTF-8"}
    log = _NinjaLog(progress)
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                log.read(line.rstrip("\n"))
        except BaseException:
            process.terminate()  # it ends its compilers, and removes what they have half written
            raise
    if log.full:
        raise disk_full(place)
    if process.returncode and not log.errors:
        raise HuskError(f"ninja failed: {log.last or f'exit code {process.returncode}'}.")
    return log.errors


class _NinjaLog:
    """Reads what ninja prints: a status line for each step, and after FAILED the command and what it said."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._failing: list[str] = []  # outputs of the step whose messages are being read
        self.errors: dict[str, str] = {}
        self.full = False
        self.last = ""

    def read(self, line: str) -> None:
        self.last = line or self.last
        self.full = self.full or NO_SPACE in line
        if status := _STATUS.match(line):
            self._failing = []
            self._progress(int(status[1]), int(status[2]), line[status.end() :])
        elif failed := _FAILED.fullmatch(line):
            self._failing = failed[1].split()
            for output in self._failing:
                self.errors[output] = "the command failed without a message"
        elif self._failing and _TELLING.search(line) and not self._is_told():
            for output in self._failing:
                self.errors[output] = line.strip()[:MOST_ERROR]

    def _is_told(self) -> bool:
        return bool(_TELLING.search(self.errors[self._failing[0]]))


def disk_full(place: Path) -> HuskError:
    return HuskError(f"the disk of {place} is full; free space and run the same command again: what is built is kept.")

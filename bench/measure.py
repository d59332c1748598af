"""How the benchmark measures: build the C programs, run commands in turn, take medians.

Nothing here knows what is compared; that is in run.py. Two things compared are always measured in turn, round after
round, so that a machine that grows slower or faster while we measure does so for both.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "bench"
# The same small environment on every side: what a variable costs must not differ.
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
TIME_LIMIT = 120

Command = list[str]
# Gives samples, in nanoseconds; raises Failed.
Meter = Callable[[], list[float]]


class Failed(Exception):
    """A command that cannot be measured, and its last words."""


class Samples:
    """What one meter measured over all rounds, or why it could not."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.failure = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values and not self.failure else None


def build() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    for source in HERE.glob("*.c"):
        program = BUILD / source.stem
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            compiler = os.environ.get("CC", "cc")
            subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", program, source], check=True)


def printed(command: Command) -> Meter:
    """A meter for a program that measures itself and prints one figure per line."""

    def meter() -> list[float]:
        text = _run(command)
        try:
            return [float(line) for line in text.split()]
        except ValueError:
            raise Failed(f"no figures but {text[:40]!r}") from None

    return meter


def whole(command: Command, times: int) -> Meter:
    """A meter for the time a command takes from start to end, seen from here."""

    def meter() -> list[float]:
        costs = []
        for _ in range(times):
            start = time.perf_counter_ns()
            # posix_spawn, not subprocess: subprocess's own work takes about as long as what is measured.
            try:
                child = os.posix_spawn(command[0], command, ENVIRONMENT, file_actions=_QUIET)
            except OSError as error:
                raise Failed(str(error)) from None
            _, status = os.waitpid(child, 0)
            costs.append(float(time.perf_counter_ns() - start))
            if status:
                _run(command)  # to learn its last words
                raise Failed(f"status {status:#x}")
        return costs

    return meter


_QUIET = [
    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
    (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
    (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
]


def _run(command: Command) -> str:
    try:
        result = subprocess.run(
            command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME_LIMIT
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"not done after {TIME_LIMIT} s") from None
    except OSError as error:
        raise Failed(str(error)) from None
    if result.returncode:
        words = result.stderr.strip().splitlines()
        raise Failed(words[-1] if words else f"exit code {result.returncode}")
    return result.stdout


def in_turn(meters: dict[str, Meter], rounds: int) -> dict[str, Samples]:
    """All meters once, then all again, `rounds` times. One that fails is not asked again."""
    samples = {name: Samples() for name in meters}
    for _ in range(rounds):
        for name, meter in meters.items():
            mine = samples[name]
            if not mine.failure:
                try:
                    mine.values += meter()
                except Failed as failure:
                    mine.failure = str(failure)
    return samples

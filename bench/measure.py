"""How the benchmark measures: build the C programs, run commands in turn, take medians.

Nothing here knows what is compared; that is in run.py, peers.py and scale.py. Two things compared are always measured
in turn, round after round, so that a machine that grows slower or faster while we measure does so for both.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import tempfile
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


class Reading(list[float]):
    """Samples, and the processor time of the run in nanoseconds: of the program that was measured, and of all else."""

    def __init__(self, values: list[float], guest: float, own: float) -> None:
        super().__init__(values)
        self.guest, self.own = guest, own


class Samples:
    """What one meter measured over all rounds, or why it could not."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.processor: list[tuple[float, float]] = []  # guest and own, of each reading that knows
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
    """A meter for a program that measures itself and prints one figure per line, and last perhaps what it used up."""

    def meter() -> list[float]:
        text, used = _run(command)
        figures, _, guest = text.partition("cpu ")
        try:
            values = [float(line) for line in figures.split()]
            return Reading(values, float(guest), used - float(guest)) if guest else values
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


def _run(command: Command) -> tuple[str, float]:
    """What it printed, and the processor time that it and all it waited for took, in nanoseconds."""
    try:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            try:
                status = child.wait(TIME_LIMIT)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                raise Failed(f"not done after {TIME_LIMIT} s") from None
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            out.seek(0)
            err.seek(0)
            text, words = out.read().decode(errors="replace"), err.read().decode(errors="replace").strip().splitlines()
    except OSError as error:
        raise Failed(str(error)) from None
    if status:
        raise Failed(words[-1][:200] if words else f"exit code {status}")
    return text, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9


def run(command: Command) -> tuple[str, float]:
    """What a command printed, and the processor time of it and of all it waited for; raises Failed."""
    return _run(command)


def in_turn(
    meters: dict[str, Meter], rounds: int, patience: float = TIME_LIMIT, until: float = float("inf")
) -> dict[str, Samples]:
    """All meters once, then all again, `rounds` times. One that fails, or took longer than `patience`, rests. No
    further round begins after `until`, a time of the monotonic clock."""
    samples = {name: Samples() for name in meters}
    tired: set[str] = set()
    for turn in range(rounds):
        if turn and time.monotonic() > until:
            break
        for name, meter in meters.items():
            mine = samples[name]
            if mine.failure or name in tired:
                continue
            begin = time.monotonic()
            try:
                got = meter()
            except Failed as failure:
                mine.failure = str(failure)
                continue
            mine.values += got
            if isinstance(got, Reading):
                mine.processor.append((got.guest, got.own))
            if time.monotonic() - begin > patience:
                tired.add(name)
    return samples

"""Shared by the tests that kill husk at any moment: the library that does it, and how often.

The short version runs with every `make test`, the long one by `make soak-store ROUNDS=100`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from husk.store.store import Store

KILLER = Path(__file__).resolve().parent.parent / "store" / "kill_at.c"
ROUNDS = int(os.environ.get("HUSK_ROUNDS", "100"))
LONG = [pytest.mark.soak, pytest.mark.timeout(7200)]
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


def rounds(short: int) -> pytest.MarkDecorator:
    """Marks a test to run with so many kills, and in the long version with as many as were asked for."""
    values = [pytest.param(short, id="short"), pytest.param(ROUNDS, id="soak", marks=LONG)]
    return pytest.mark.parametrize("times", values)


@contextmanager
def in_memory() -> Iterator[Path]:
    """A directory in memory, if possible: every commit syncs its file system, and other processes may be writing to a
    disk. What a SIGKILL leaves is the same on both."""
    with tempfile.TemporaryDirectory(
        dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None, prefix="husk-test-"
    ) as place:
        yield Path(place)


def build_killer(folder: Path) -> Path:
    library = folder / "kill_at.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, KILLER, "-ldl"], check=True)
    return library


def environment(killer: Path, kill_at: int, count: Path) -> dict[str, str]:
    """For a husk that ends just before its `kill_at`-th change, or with 0 writes how many there were to `count`."""
    return {
        "LD_PRELOAD": str(killer),
        "KILL_AT": str(kill_at),
        "KILL_COUNT": str(count),
        "PYTHONDONTWRITEBYTECODE": "1",  # or the first run would make other changes than the next
    }


def points(total: int, times: int, *, seed: int = 1, last: int = 0) -> list[int]:
    """`times` of the changes 1 to `total`, drawn with a fixed seed; among them `last` of the last ones, every second,
    which are few and matter most. Where there are fewer changes than times, some are taken again."""
    chance = random.Random(seed)
    chosen = list(range(total - 1, max(total - 2 * last, 0), -2))[:times]
    others = [point for point in range(1, total + 1) if point not in chosen] or chosen
    while len(chosen) < times:
        chosen += chance.sample(others, min(len(others), times - len(chosen)))
    return sorted(chosen)


def leftovers(store: Store) -> list[str]:
    """What should not be in a store once a collection has gone through."""
    hidden = [str(path) for path in Path(store.place).rglob(".*")]
    return hidden + os.listdir(os.path.join(store.place, "tmp")) + os.listdir(os.path.join(store.place, "leases"))


class Tally:
    """How the kills of one test ended, told at its end (`make soak-store` shows it)."""

    def __init__(self, what: str, changes: int) -> None:
        self.what, self.changes = what, changes
        self.before = self.after = 0

    @property
    def kills(self) -> int:
        return self.before + self.after

    def add(self, *, done: bool) -> None:
        """`done`: the killed command had taken effect all the same."""
        self.after += done
        self.before += not done

    def tell(self) -> None:
        print(
            f"{self.what}: {self.kills} kills among {self.changes} changes; "
            f"{self.before} before it took effect, {self.after} after; nothing lost or left over"
        )

"""Killed at any moment: what was committed is whole, what was not is collected.

A preloaded library ends `husk store` by SIGKILL just before its n-th change to the file system. The numbers are drawn
with a fixed seed from all there are.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from husk.store.collect import collect
from husk.store.store import Store
from husk.store.verify import verify
from tests.guest.running import husk_command

HERE = Path(__file__).parent
SOAK = [pytest.mark.soak, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("killer") / "kill_at.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / "kill_at.c", "-ldl"], check=True)
    return library


class Case:
    """A store with one committed image, a tree to ingest as another, and a way to kill what works on it."""

    def __init__(self, place: Path, killer: Path) -> None:
        self.place, self.killer = place, killer
        self.tree = place / "tree"
        chance = random.Random(7)
        for number in range(24):
            path = self.tree / f"d{number % 5}" / f"f{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(chance.randbytes(chance.randrange(4000)))
        (self.tree / "large").write_bytes(chance.randbytes(1 << 21))
        shutil.copytree(self.tree / "d1", place / "old")
        self.origin = place / "origin"
        assert self.run("ingest", str(place / "old"), "--name", "old", store=self.origin) == 0

    def run(self, *words: str, store: Path, kill_at: int = 0) -> int:
        env = {
            **os.environ,
            "LD_PRELOAD": str(self.killer),
            "KILL_AT": str(kill_at),
            "KILL_COUNT": str(self.place / "count"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HUSK_STORE": str(store),
        }
        done = subprocess.run([*husk_command(), "store", *words], env=env, capture_output=True, timeout=60)
        assert done.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), done.stderr
        return done.returncode

    def copy(self) -> Store:
        shutil.rmtree(self.place / "store", ignore_errors=True)
        shutil.copytree(self.origin, self.place / "store")
        return Store.open(str(self.place / "store"))

    def changes(self, *words: str) -> int:
        """How many changes the whole command makes."""
        assert self.run(*words, store=Path(self.copy().place)) == 0
        return int((self.place / "count").read_text())


@pytest.fixture
def case(tmp_path: Path, killer: Path) -> Case:
    return Case(tmp_path, killer)


def is_whole(store: Store) -> None:
    outcome = verify(store, jobs=1)
    assert [finding.as_json() for finding in outcome.findings] == []


def leftovers(store: Store) -> list[str]:
    """What should not be there once a collection has gone through."""
    hidden = [str(path) for path in Path(store.place).rglob(".*")]
    return hidden + os.listdir(os.path.join(store.place, "tmp")) + os.listdir(os.path.join(store.place, "leases"))


@pytest.mark.parametrize("times", [pytest.param(9), pytest.param(100, marks=SOAK)])
def test_ingest(case: Case, times: int) -> None:
    words = ["ingest", str(case.tree), "--name", "new", "--jobs", "1"]
    total = case.changes(*words)
    complete = collect(Store.open(str(case.place / "store"))).kept_blobs
    assert total > 100
    # The last changes, where the image appears, are few and matter most.
    points = [*random.Random(1).sample(range(1, total - 10), times - 6), *range(total - 11, total, 2)]
    for point in sorted(points):
        store = case.copy()
        assert case.run(*words, store=Path(store.place), kill_at=point) != 0
        is_whole(store)
        assert "old" in store.images.list()
        # Whoever comes next finishes the work, and nothing of the dead one is left.
        assert case.run(*words, store=Path(store.place)) == 0
        is_whole(store)
        assert store.images.list() == ["new", "old"]
        collect(store, delete=True)
        assert leftovers(store) == []
        assert collect(store).kept_blobs == complete
        is_whole(store)


@pytest.mark.parametrize("times", [pytest.param(9), pytest.param(100, marks=SOAK)])
def test_gc(case: Case, times: int) -> None:
    """In the store: an image, one that was removed, and a writer's leftovers."""
    store = Store.open(str(case.origin))
    assert case.run("ingest", str(case.tree), "--name", "new", store=case.origin) == 0
    store.images.rm("new")
    Path(store.place, "tmp", "1-dead").mkdir()
    Path(store.place, "tmp", "1-dead", "half").write_text("x")
    total = case.changes("gc", "--delete")
    assert total >= 20
    for point in sorted(random.Random(2).choices(range(1, total), k=times)):
        store = case.copy()
        assert case.run("gc", "--delete", store=Path(store.place), kill_at=point) != 0
        is_whole(store)
        assert store.images.list() == ["old"]
        # An ingest that finds half of what it needs brings the other half.
        if point % 2:
            assert case.run("ingest", str(case.tree), "--name", "new", store=Path(store.place)) == 0
            is_whole(store)
            store.images.rm("new")
        assert case.run("gc", "--delete", store=Path(store.place)) == 0
        assert leftovers(store) == []
        is_whole(store)
        assert collect(store).blobs == 0


def test_the_killer_itself(case: Case) -> None:
    store = case.copy()
    assert case.run("ingest", str(case.tree), "--name", "new", store=Path(store.place), kill_at=20) != 0
    assert store.images.list() == ["old"]
    assert leftovers(store) != []

"""Killed at any moment: what was committed is whole, what was not is collected.

A preloaded library ends husk by SIGKILL just before its n-th change to the file system. The numbers are drawn with a
fixed seed from all there are. For apply, commit and kept boxes see tests/snapshots/test_killed.py.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.store.collect import collect
from husk.store.store import Store
from husk.store.verify import verify
from tests.images.archives import Layout, hard, member, tar
from tests.lib.killing import KILLED, Tally, build_killer, environment, in_memory, leftovers, points, rounds
from tests.lib.running import husk_command


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_killer(tmp_path_factory.mktemp("killer"))


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
        assert self.run("store", "ingest", str(place / "old"), "--name", "old", store=self.origin) == 0

    def run(self, *words: str, store: Path, kill_at: int = 0) -> int:
        env = {**os.environ, **environment(self.killer, kill_at, self.place / "count"), "HUSK_STORE": str(store)}
        done = subprocess.run([*husk_command(), *words], env=env, capture_output=True, timeout=120)
        assert done.returncode in (0, *KILLED), done.stderr
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
def case(killer: Path) -> Iterator[Case]:
    with in_memory() as place:
        yield Case(place, killer)


def is_whole(store: Store) -> None:
    outcome = verify(store, jobs=1)
    assert [finding.as_json() for finding in outcome.findings] == []


def brings(case: Case, words: list[str], times: int, last: int) -> None:
    """A command that makes the image `new`: killed, then run again by the next process."""
    total = case.changes(*words)
    complete = collect(Store.open(str(case.place / "store"))).kept_blobs
    tally = Tally(" ".join(words[:2]), total)
    for point in points(total, times, last=last):
        store = case.copy()
        assert case.run(*words, store=Path(store.place), kill_at=point) != 0
        is_whole(store)
        assert store.images.list() in (["old"], ["new", "old"])
        tally.add(done="new" in store.images.list())
        assert case.run(*words, store=Path(store.place)) == 0
        is_whole(store)
        assert store.images.list() == ["new", "old"]
        collect(store, delete=True)
        assert leftovers(store) == []
        assert collect(store).kept_blobs == complete
        is_whole(store)
    tally.tell()


@rounds(8)
def test_ingest(case: Case, times: int) -> None:
    brings(case, ["store", "ingest", str(case.tree), "--name", "new", "--jobs", "1"], times, last=5)


@rounds(8)
def test_import(case: Case, times: int) -> None:
    """An archive of two layers, packed as a whole: the kind of import that has the most steps."""
    chance = random.Random(8)
    files = [member(f"d{n % 4}/f{n}", content=chance.randbytes(chance.randrange(4000))) for n in range(24)]
    first = tar(*files, member("large", content=chance.randbytes(1 << 21)), hard("twin", "large"))
    second = tar(member("d0/.wh.f0"), member("d1/.wh..wh..opq"), member("d1/new", content=b"new"))
    layout = Layout(case.place / "oci")
    layout.index(layout.image((gzip.compress(first, 1), first), (second, second)))
    packed = case.place / "new.tar.gz"
    subprocess.run(["tar", "-czf", packed, "-C", layout.place, "oci-layout", "index.json", "blobs"], check=True)
    brings(case, ["image", "import", str(packed), "--name", "new"], times, last=5)


@rounds(6)
def test_import_of_a_directory(case: Case, times: int) -> None:
    os.link(case.tree / "large", case.tree / "twin")
    os.mkfifo(case.tree / "fifo")
    brings(case, ["image", "import", "--data", str(case.tree), "--name", "new"], times, last=5)


@rounds(6)
def test_gc(case: Case, times: int) -> None:
    """In the store: an image, one that was removed, and a writer's leftovers."""
    store = Store.open(str(case.origin))
    assert case.run("store", "ingest", str(case.tree), "--name", "new", store=case.origin) == 0
    store.images.rm("new")
    Path(store.place, "tmp", "1-dead").mkdir()
    Path(store.place, "tmp", "1-dead", "half").write_text("x")
    total = case.changes("store", "gc", "--delete")
    assert total >= 20
    tally = Tally("store gc", total)
    for point in points(total, times, seed=2):
        store = case.copy()
        assert case.run("store", "gc", "--delete", store=Path(store.place), kill_at=point) != 0
        is_whole(store)
        assert store.images.list() == ["old"]
        tally.add(done=not collect(store).blobs)
        # An ingest that finds half of what it needs adds the other half.
        if point % 2:
            assert case.run("store", "ingest", str(case.tree), "--name", "new", store=Path(store.place)) == 0
            is_whole(store)
            store.images.rm("new")
        assert case.run("store", "gc", "--delete", store=Path(store.place)) == 0
        assert leftovers(store) == []
        is_whole(store)
        assert collect(store).blobs == 0
    tally.tell()


def test_the_killer_itself(case: Case) -> None:
    store = case.copy()
    words = ("store", "ingest", str(case.tree), "--name", "new")
    assert case.run(*words, store=Path(store.place), kill_at=20) != 0
    assert store.images.list() == ["old"]
    assert leftovers(store) != []

"""Killed at any moment: a box is as before or as after, a host directory too, and what is left over is collected.

A preloaded library ends husk by SIGKILL just before its n-th change to the file system (tests/store/kill_at.c).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.store.store import Store
from husk.store.verify import verify
from tests.lib.killing import KILLED, Tally, build_killer, environment, leftovers, points, rounds
from tests.lib.running import scratch
from tests.snapshots.place import Place, picture

PREPARE = "cd /p; echo two > a; rm b; mv d e; echo n > e/n; ln a a2; mkfifo ff; chmod 711 .; echo w > /workspace/w"
FILES = ("a", "b", "c", "d/x", "d/y")


class Case:
    """A place with one kept box, put back to its beginning for every try."""

    def __init__(self, top: Path, killer: Path) -> None:
        self.place, self._killer = Place(top), killer
        self.count = top / "count"
        project = self.place.project
        (project / "d").mkdir()
        for name in FILES:
            (project / name).write_text(f"{name}\n")
        self.place.sh("box", PREPARE, *self.place.cow)
        self._original = top / "original"
        shutil.copytree(self.place.state, self._original, symlinks=True)

    def reset(self) -> None:
        shutil.rmtree(self.place.state)
        shutil.copytree(self._original, self.place.state, symlinks=True)

    def run(self, *words: str, kill_at: int = 0) -> int:
        self.count.unlink(missing_ok=True)
        code, out, err = self.place.call(*words, **environment(self._killer, kill_at, self.count))
        assert code in (0, *KILLED), (code, out, err)
        return code

    def changes(self, *words: str) -> int:
        """How many the whole command makes."""
        self.reset()
        assert self.run(*words) == 0
        total = int(self.count.read_text())
        assert total >= 3
        return total


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_killer(tmp_path_factory.mktemp("killer"))


@pytest.fixture
def case(killer: Path) -> Iterator[Case]:
    with scratch() as top:
        killed = Path(shutil.copy(killer, top / "kill_at.so"))
        yield Case(top, killed)


@rounds(3)
def test_run(case: Case, times: int) -> None:
    words = ("run", "--keep", "box", "--", "sh", "-c", "echo second >> /workspace/w; rm /p/c")
    tally = Tally("run --keep", case.changes(*words))
    for point in points(tally.changes, times):
        case.reset()
        assert case.run(*words, kill_at=point) != 0
        shown = case.place.sh("box", "cat /workspace/w; cd /p; echo *")
        assert shown in ("w\na a2 c e ff\n", "w\nsecond\na a2 e ff\n"), point
        tally.add(done="second" in shown)
        assert case.place.leftovers() == []
    tally.tell()


@rounds(3)
def test_fork(case: Case, times: int) -> None:
    tally = Tally("fork", case.changes("fork", "box", "new"))
    for point in points(tally.changes, times):
        case.reset()
        assert case.run("fork", "box", "new", kill_at=point) != 0
        there = case.place.boxes()
        assert there in (["box"], ["box", "new"])
        tally.add(done="new" in there)
        if "new" not in there:
            case.place.husk("fork", "box", "new")
        assert case.place.changes("new") == case.place.changes("box")
        case.place.husk("drop", "box", "new")
        assert case.place.leftovers() == []
    tally.tell()


@rounds(3)
def test_drop(case: Case, times: int) -> None:
    tally = Tally("drop", case.changes("drop", "box"))
    for point in points(tally.changes, times):
        case.reset()
        case.place.husk("fork", "box", "other")
        assert case.run("drop", "box", kill_at=point) != 0 or point > int(case.count.read_text())
        assert len(case.place.changes("other")) > 5
        there = "box" in case.place.boxes()
        tally.add(done=not there)
        if there:
            case.place.husk("drop", "box")
        case.place.husk("drop", "other")
        assert case.place.leftovers() == []
        assert list((case.place.state / "layers").iterdir()) == []
    tally.tell()


@rounds(3)
def test_commit(case: Case, times: int) -> None:
    place = case.place
    place.husk("commit", "box", "first")
    kept = place.top / "store-then"
    shutil.copytree(place.store, kept)
    place.sh("box", "echo more > /workspace/more")
    shutil.rmtree(case._original)
    shutil.copytree(place.state, case._original, symlinks=True)
    tally = Tally("commit", case.changes("commit", "box", "second"))
    for point in points(tally.changes, times, last=2):
        case.reset()
        shutil.rmtree(place.store)
        shutil.copytree(kept, place.store)
        assert case.run("commit", "box", "second", kill_at=point) != 0
        store = Store.open(str(place.store))
        assert [finding.as_json() for finding in verify(store, jobs=1).findings] == []
        assert store.images.list() in (["first"], ["first", "second"])
        tally.add(done="second" in store.images.list())
        place.husk("commit", "box", "second")
        place.husk("store", "gc", "--delete")
        assert [finding.as_json() for finding in verify(store, jobs=1).findings] == []
        assert place.leftovers() == [] == leftovers(store)
    assert place.husk("run", "--image", "second", "--", "sh", "-c", "cat /workspace/*") == "more\nw\n"
    tally.tell()


@rounds(6)
def test_apply(case: Case, times: int) -> None:
    """The host's files must be the very same ones for every try, so each is undone or made anew by a run."""
    place = case.place
    after: dict[str, tuple[object, object]] = {}
    tally = Tally("apply", 0)
    chance = random.Random(4)
    while tally.kills < times:
        shutil.rmtree(place.project)
        (place.project / "d").mkdir(parents=True)
        for name in FILES:
            (place.project / name).write_text(f"{name}\n")
        shutil.rmtree(place.state)
        place.state.mkdir()
        place.sh("box", PREPARE, *place.cow)
        before = picture(place.project)
        if not tally.changes:
            assert case.run("apply", "box", "--yes") == 0
            tally.changes, after = int(case.count.read_text()), names_and_contents(place.project)
            continue
        # Several kills before the host is different: what is undone can be applied again.
        while names_and_contents(place.project) != after and tally.kills < times:
            code = case.run("apply", "box", "--yes", kill_at=chance.randrange(1, tally.changes + 1))
            if code == 0:
                break
            # The next command, here the run, completes or undoes it.
            place.sh("box", "true") if tally.kills % 2 else place.call("apply", "box")
            now = picture(place.project)
            assert now == before or names_and_contents(place.project) == after
            tally.add(done=now != before)
            assert place.leftovers() == []
        place.husk("apply", "box", "--yes")
        assert names_and_contents(place.project) == after
        assert place.changes("box", "/p") == []
    tally.tell()


@rounds(3)
def test_apply_some(case: Case, times: int) -> None:
    """Whether it was applied or not, the box shows the same: what the host does not have is still in the box."""
    place = case.place
    look = "cd /p; find . -type f | sort | xargs cat; find . | sort | xargs stat -c '%A %n'"
    words = ("apply", "box", "/p/a", "/p/a2", "/p/d", "/p/e", "--yes")
    tally = Tally("apply of some", 0)
    wanted, after = "", set[str]()
    for point in [0, *points(1000, times, last=1)]:
        shutil.rmtree(place.project)
        (place.project / "d").mkdir(parents=True)
        for name in FILES:
            (place.project / name).write_text(f"{name}\n")
        shutil.rmtree(place.state)
        place.state.mkdir()
        place.sh("box", PREPARE, *place.cow)
        before = set(picture(place.project))
        if not point:
            wanted = place.sh("box", look)
            assert case.run(*words) == 0
            tally.changes, after = int(case.count.read_text()), set(picture(place.project))
            assert place.sh("box", look) == wanted
            continue
        case.run(*words, kill_at=1 + point * (tally.changes - 8) // 1000)
        assert place.sh("box", look) == wanted
        now = set(picture(place.project))
        assert now in (before, after) and before != after
        tally.add(done=now == after)
        place.husk("apply", "box", "--yes")
        assert place.husk("run", *place.cow, "--", "sh", "-c", look) == wanted
        assert place.leftovers() == []
    tally.tell()


def names_and_contents(top: Path) -> dict[str, tuple[object, object]]:
    return {name: (what[0], what[4]) for name, what in picture(top).items()}

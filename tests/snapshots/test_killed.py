"""Killed at any moment: a box is as before or as after, a host directory too, and what is left over is collected.

A preloaded library ends husk by SIGKILL just before its n-th change to the file system (tests/store/kill_at.c).
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.store.store import Store
from husk.store.verify import verify
from tests.guest.running import scratch
from tests.snapshots.place import Place, picture

KILLER = Path(__file__).resolve().parent.parent / "store" / "kill_at.c"
SOAK = [pytest.mark.soak, pytest.mark.timeout(3600)]
TIMES = [pytest.param(3), pytest.param(100, marks=SOAK)]
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
        preload = {"LD_PRELOAD": str(self._killer), "KILL_AT": str(kill_at), "KILL_COUNT": str(self.count)}
        code, out, err = self.place.call(*words, PYTHONDONTWRITEBYTECODE="1", **preload)
        assert code in (0, -signal.SIGKILL, 128 + signal.SIGKILL), (code, out, err)
        return code

    def points(self, times: int, *words: str) -> list[int]:
        """Where to kill `words`, drawn with a fixed seed; the command is run once to its end."""
        self.reset()
        assert self.run(*words) == 0
        total = int(self.count.read_text())
        assert total >= 3
        chance = random.Random(total)
        return sorted(chance.sample(range(1, total + 1), times) if times <= total else range(1, total + 1))


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("killer") / "kill_at.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, KILLER, "-ldl"], check=True)
    return library


@pytest.fixture
def case(killer: Path) -> Iterator[Case]:
    with scratch() as top:
        killed = Path(shutil.copy(killer, top / "kill_at.so"))
        yield Case(top, killed)


@pytest.mark.parametrize("times", TIMES)
def test_run(case: Case, times: int) -> None:
    words = ("run", "--keep", "box", "--", "sh", "-c", "echo second >> /workspace/w; rm /p/c")
    for point in case.points(times, *words):
        case.reset()
        assert case.run(*words, kill_at=point) != 0
        shown = case.place.sh("box", "cat /workspace/w; cd /p; echo *")
        assert shown in ("w\na a2 c e ff\n", "w\nsecond\na a2 e ff\n"), point
        assert case.place.leftovers() == []


@pytest.mark.parametrize("times", TIMES)
def test_fork(case: Case, times: int) -> None:
    for point in case.points(times, "fork", "box", "new"):
        case.reset()
        assert case.run("fork", "box", "new", kill_at=point) != 0
        assert [box["name"] for box in case.place.json("ps", "-a")] in (["box"], ["box", "new"])
        if "new" not in (box["name"] for box in case.place.json("ps", "-a")):
            case.place.husk("fork", "box", "new")
        assert case.place.changes("new") == case.place.changes("box")
        case.place.husk("drop", "box", "new")
        assert case.place.leftovers() == []


@pytest.mark.parametrize("times", TIMES)
def test_drop(case: Case, times: int) -> None:
    for point in case.points(times, "drop", "box"):
        case.reset()
        case.place.husk("fork", "box", "other")
        assert case.run("drop", "box", kill_at=point) != 0 or point > int(case.count.read_text())
        assert len(case.place.changes("other")) > 5
        if "box" in (box["name"] for box in case.place.json("ps", "-a")):
            case.place.husk("drop", "box")
        case.place.husk("drop", "other")
        assert case.place.leftovers() == []
        assert list((case.place.state / "layers").iterdir()) == []


@pytest.mark.parametrize("times", TIMES)
def test_commit(case: Case, times: int) -> None:
    place = case.place
    place.husk("commit", "box", "first")
    kept = place.top / "store-then"
    shutil.copytree(place.store, kept)
    place.sh("box", "echo more > /workspace/more")
    shutil.rmtree(case._original)
    shutil.copytree(place.state, case._original, symlinks=True)
    for point in case.points(times, "commit", "box", "second"):
        case.reset()
        shutil.rmtree(place.store)
        shutil.copytree(kept, place.store)
        assert case.run("commit", "box", "second", kill_at=point) != 0
        store = Store.open(str(place.store))
        assert [finding.as_json() for finding in verify(store, jobs=1).findings] == []
        assert store.images.list() in (["first"], ["first", "second"])
        place.husk("commit", "box", "second")
        place.husk("store", "gc", "--delete")
        assert [finding.as_json() for finding in verify(store, jobs=1).findings] == []
        assert place.leftovers() == []
    assert place.husk("run", "--image", "second", "--", "sh", "-c", "cat /workspace/*") == "more\nw\n"


@pytest.mark.parametrize("times", [pytest.param(6), pytest.param(100, marks=SOAK)])
def test_apply(case: Case, times: int) -> None:
    """The host's files must be the very same ones for every try, so each is undone or made anew by a run."""
    place = case.place
    total, after = 0, {}
    tries = 0
    chance = random.Random(4)
    while tries < times:
        shutil.rmtree(place.project)
        (place.project / "d").mkdir(parents=True)
        for name in FILES:
            (place.project / name).write_text(f"{name}\n")
        shutil.rmtree(place.state)
        place.state.mkdir()
        place.sh("box", PREPARE, *place.cow)
        before = picture(place.project)
        if not total:
            assert case.run("apply", "box", "--yes") == 0
            total, after = int(case.count.read_text()), names_and_contents(place.project)
            continue
        # Several kills before the host is different: what is undone can be applied again.
        while names_and_contents(place.project) != after and tries < times:
            tries += 1
            code = case.run("apply", "box", "--yes", kill_at=chance.randrange(1, total + 1))
            if code == 0:
                break
            # Whoever comes next, here the run, brings it to before or after.
            place.sh("box", "true") if tries % 2 else place.call("apply", "box")
            now = picture(place.project)
            assert now == before or names_and_contents(place.project) == after
            assert place.leftovers() == []
        place.husk("apply", "box", "--yes")
        assert names_and_contents(place.project) == after
        assert place.changes("box", "/p") == []


def names_and_contents(top: Path) -> dict[str, tuple[object, object]]:
    return {name: (what[0], what[4]) for name, what in picture(top).items()}

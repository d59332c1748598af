"""A project developer: a script of a project is run, first without and then with a profile, and its work is kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk_command, scratch

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


class Person:
    """Types commands in a project's directory."""

    def __init__(self, place: Path) -> None:
        self.project = place / "counting"
        self.project.mkdir()
        self._env = {"PATH": os.environ["PATH"], "HOME": str(place), "HUSK_STATE": str(place / "state")}
        (place / "state").mkdir(mode=0o700)

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*husk_command(), *words], cwd=self.project, env=self._env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip


@pytest.fixture
def person() -> Iterator[Person]:
    with scratch() as place:
        yield Person(place)


def test_from_the_first_try_to_apply(person: Person) -> None:
    (person.project / "count.py").write_text("open('total', 'w').write(str(6 * 7)); print('counted')\n")
    (person.project / "pyproject.toml").write_text("")
    first = person.types("run", "python3", "count.py")
    assert first.returncode == 2 and "--mount .:/workspace:cow" in first.stderr

    assert "is trusted" in person.types("init").stdout
    run = person.types("run", "python3", "count.py")
    assert (run.returncode, run.stdout) == (0, "counted\n")
    assert run.stderr == "husk: 1 change in the copy: husk diff counting, or husk apply counting to write back.\n"
    assert not (person.project / "total").exists()
    assert person.types("diff", "counting").stdout == "added    /workspace/total\n"
    # The next run goes on in the copy.
    assert person.types("run", "cat", "total").stdout == "42"
    assert person.types("apply", "counting", "--yes").returncode == 0
    assert (person.project / "total").read_text() == "42"


def test_a_project_of_a_stranger(person: Person) -> None:
    (person.project / "husk.toml").write_text('format = 1\n[profile.default]\nmount = ["~/other:/workspace:rw"]\n')
    (person.project.parent / "other").mkdir()
    (person.project.parent / "other" / "mine").write_text("")
    run = person.types("run", "--", "ls", "/workspace")
    assert (run.returncode, run.stdout) == (0, "")
    assert "is not trusted; read it, then `husk trust`" in run.stderr
    assert person.types("run", "--profile", "default", "--", "true").returncode == 2
    shown = person.types("trust", "--yes")
    assert f"mount = {person.project.parent}/other:/workspace:rw" in shown.stdout
    assert person.types("run", "--", "ls", "/workspace").stdout == "mine\n"


def test_two_projects_of_one_name(person: Person) -> None:
    assert person.types("init").returncode == 0
    assert person.types("run", "touch", "made").returncode == 0
    other = person.project.parent / "elsewhere" / "counting"
    other.mkdir(parents=True)
    person.project = other
    assert person.types("init").returncode == 0
    run = person.types("run", "touch", "other")
    assert run.returncode == 0 and "1 change in the copy: husk diff counting-" in run.stderr

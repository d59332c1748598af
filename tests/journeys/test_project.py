"""A project developer: a script of a project is run, first without and then with a profile, and its work is kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk_command, scratch
from tests.loads import packages

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


    def git(self, *words: str) -> str:
        """On the host."""
        own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "Me", "GIT_COMMITTER_NAME": "Me"}
        own |= {"GIT_AUTHOR_EMAIL": "me@example.org", "GIT_COMMITTER_EMAIL": "me@example.org"}
        done = subprocess.run(
            ["git", *words], cwd=self.project, env=self._env | own, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


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


def test_a_refusal_names_the_key_of_the_profile(person: Person) -> None:
    assert person.types("init").returncode == 0
    run = person.types("run", "cat", "/etc/shadow")
    assert run.returncode == 1
    wish = "/etc/shadow:/etc/shadow:ro"
    assert f'nothing is mounted there; to allow it, --mount {wish}, or mount = ["{wish}"] in husk.toml' in run.stderr


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


@pytest.mark.needs("git", "npm", "node", "python3", "python3-pip")
def test_a_day_with_git_pip_and_npm(person: Person) -> None:
    """A branch, two installations and a commit in the copy. The host has them after `husk apply`, and only then."""
    files = {
        "one-1.0-py3-none-any.whl": packages.wheel("one", 3),
        **packages.npm_project(3),
        "use.py": "import one.module2\nprint('from pip:', one.module2.VALUE)\n",
        ".gitignore": "/node_modules/\n/lib/\n__pycache__/\n",
    }
    for name, content in files.items():
        path = person.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    person.git("init", "--quiet", "--initial-branch=main")
    person.git("add", ".")
    person.git("commit", "--quiet", "--message=begin")
    assert person.types("init").returncode == 0

    def runs(command: str) -> str:
        done = person.types("run", "--", "sh", "-ec", command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip = "python3 -m pip install --quiet --no-index --disable-pip-version-check --root-user-action=ignore"
    runs(f"git switch --quiet -c fix\n{pip} --target=lib ./one-1.0-py3-none-any.whl")
    assert runs("PYTHONPATH=lib python3 use.py") == "from pip: 2\n"
    npm = "npm install --offline --no-audit --no-fund --install-links --cache /tmp/npm --no-update-notifier"
    assert runs(f"{npm} >/dev/null\nnode sum.js") == "3 3\n"
    commit = "git -c user.name=Box -c user.email=box@example.org commit --quiet --all -m 'fix it'"
    runs(f"echo '# fixed' >> use.py\n{commit}")

    assert person.git("log", "--format=%s", "--all") == "begin\n"
    assert not (person.project / "lib").exists() and not (person.project / "node_modules").exists()
    changed = person.types("diff", "counting").stdout
    assert "changed  /workspace/use.py\n" in changed and "added    /workspace/node_modules/pack0/main.js\n" in changed
    applied = person.types("apply", "counting", "--yes")
    assert applied.returncode == 0, applied.stderr
    assert person.git("log", "--format=%an: %s", "fix") == "Box: fix it\nMe: begin\n"
    assert person.git("status", "--porcelain", "--branch") == "## fix\n?? husk.toml\n?? package-lock.json\n"
    assert person.git("fsck", "--strict") == ""
    assert (person.project / "lib" / "one" / "module2.py").exists()

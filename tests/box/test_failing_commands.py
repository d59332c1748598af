"""The host fails husk once, in a command that keeps something: a full disk, a quota, an I/O error at any call.

What was recorded stays, what was asked for is done wholly or not at all, husk says so in a sentence, and the next
commands work and leave nothing behind. Here at a few places; `make faults` takes every single one.
(`husk run` itself: test_failing_host.py. A disk that is really full: test_full_disk.py, tests/store, tests/snapshots.)
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.test_faults import ALL
from tests.lib import failing_host
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk_command, scratch
from tests.snapshots.place import Place

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
CHANGE = "echo new >/p/a; rm /p/b; mv /p/d /p/e; mkdir /p/n; echo 1 >/p/n/1; echo w >/workspace/w"
COMMANDS = {
    "keep": ["run", "--keep", "box", "--", "sh", "-ec", "echo z >/p/z; rm /p/c; echo k >/workspace/k"],
    "apply": ["apply", "box", "--yes"],
    "commit": ["commit", "box", "made"],
    "fork": ["fork", "box", "second"],
    "drop": ["drop", "box"],
    "import": ["image", "import", "tree", "--name", "again"],
}
Seen = dict[str, object]


@pytest.fixture
def place() -> Iterator[Place]:
    with scratch() as top:
        made = Place(top)
        for name in "abc":
            (made.project / name).write_text(name * 10)
        (made.project / "d").mkdir()
        (made.project / "d" / "x").write_text("x")
        (top / "tree").mkdir()
        (top / "tree" / "file").write_text("content" * 100)
        (top / "tree" / "file").chmod(0o755)
        made.husk("image", "import", str(top / "tree"), "--name", "base")
        made.sh("box", CHANGE, *made.cow)
        yield made


def recorded(place: Place) -> Seen:
    """What a person would see: boxes and what they changed, images, the project. What the host kept husk from finishing
    is finished or undone first, by the next run of the box."""
    names = sorted(place.boxes())
    for name in names:
        if (place.state / "kept" / name / "apply").exists():
            place.sh(name, "true")
    changed = {name: place.changes(name) for name in names}
    seen: Seen = {str(path): path.read_bytes() for path in place.project.rglob("*") if path.is_file()}
    seen["boxes"] = names
    seen |= changed
    seen["images"] = sorted(image["name"] for image in place.json("image", "ls"))
    return seen


def run(place: Place, words: list[str], at: int, number: int) -> tuple[int, str, list[str]]:
    failing = {"HUSK_FAIL_AT": str(at), "HUSK_FAIL_WITH": str(number), "HUSK_FAIL_LOG": str(place.top / "log")}
    command = [sys.executable, str(failing_host.__file__), *words]
    done = subprocess.run(
        command, env=place.environment() | failing, cwd=place.top, capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr, (place.top / "log").read_text().splitlines()


def again(place: Place) -> None:
    """Everything as the fixture made it: boxes hold the identity of their mounts, so the project stays in place."""
    for box in place.boxes():
        place.husk("drop", box)
    subprocess.run(["rm", "-rf", *map(str, place.project.iterdir())], check=True)
    for name in "abc":
        (place.project / name).write_text(name * 10)
    (place.project / "d").mkdir()
    (place.project / "d" / "x").write_text("x")
    for image in place.json("image", "ls"):
        if image["name"] != "base":
            place.husk("image", "rm", image["name"])
    place.sh("box", CHANGE, *place.cow)


@pytest.mark.parametrize("name", COMMANDS)
def test_done_or_not_done(place: Place, name: str) -> None:
    before = recorded(place)
    code, err, lines = run(place, COMMANDS[name], 0, errno.EIO)
    assert code == 0, err
    after, calls = recorded(place), len(lines) - 1
    first = {line: number for number, line in reversed(list(enumerate(lines[1:], 1)))}
    every = sorted(first.values())
    places = every if ALL else [calls // 3, 4 * calls // 5]
    for turn, at in enumerate(places):
        again(place)
        failure = ERRNOS[turn % len(ERRNOS)]
        code, err, lines = run(place, COMMANDS[name], at, failure)
        where = f"call {lines[0]} of {calls} fails: {code} {err}"
        # 126: the program itself cannot be read, and the reason is the host's.
        unreadable = code == 126 and os.strerror(failure) in err
        assert code in (0, 1, 125) or (name == "keep" and (code < 125 or unreadable)), where
        assert code == 0 or err.startswith("husk") or name == "keep", where
        now = recorded(place)
        if name != "keep" or not code or err.startswith("husk"):  # else the guest itself was refused something
            assert now in (before, after), where
        assert code or now == after, where
        assert place.json("store", "verify") is not None
        place.sh("other", "true")
        place.husk("drop", "other")
        place.husk("store", "gc", "--delete")
        assert place.leftovers() == [], where
        assert os.listdir(place.store / "tmp") == [], where


def test_a_log_of_events_on_a_full_disk() -> None:
    """It ends with a whole line, husk says that it is not complete and ends with 125, and the guest goes on."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    with scratch() as top:
        (top / "small").mkdir()
        script = 'mount -t tmpfs -o size=16k none small && "$@" 2>err; echo "exit $?"; cat err; cat small/log >&2'
        guest = "n=0; while [ $n -lt 60 ]; do n=$((n + 1)); cat /usr/bin/no$n 2>/dev/null; done; echo end"
        words = [*husk_command(), "run", "--events", "small/log", "--", "sh", "-c", guest]
        env = {"PATH": os.environ["PATH"], "HUSK_STATE": str(top / "state")}
        (top / "state").mkdir()
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *words],
            cwd=top, env=env, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    said = "husk: --events small/log is not complete: No space left on device."
    assert done.stdout.splitlines() == ["end", "exit 125", said], done
    assert done.stderr.endswith("\n") and len([json.loads(line) for line in done.stderr.splitlines()]) > 50


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--json", "--", "true"],
        ["run", "--help"],
        ["ps", "--json"],
        ["syscalls"],
        ["--version"],
        ["--help"],
        ["nonsense", "--json"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("both", [False, True])
def test_nowhere_to_print(words: list[str], both: bool) -> None:
    """A full disk behind standard output, or behind the error output too."""
    with scratch() as top, Path("/dev/full").open("w") as full:
        env = {"PATH": os.environ["PATH"], "HUSK_STATE": str(top), "HUSK_STORE": str(top / "store")}
        stderr = full if both else subprocess.PIPE
        done = subprocess.run([*husk_command(), *words], stdout=full, stderr=stderr, env=env, text=True, timeout=120)
        assert done.returncode == 125, done
        assert both or done.stderr.splitlines()[-1].endswith("the host fails husk: No space left on device."), done
        assert both or "Traceback" not in done.stderr

"""A later run and `husk apply` trust the records of a kept box. Meanwhile another box has the same host directory, or
the one above it, as an `rw` mount, and changes what it may there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.lib import running
from tests.lib.running import husk_command, scratch
from tests.snapshots.place import Place

# `husk apply`, interrupted at a chosen moment by the other box.
APPLY = """
import os, signal, subprocess, sys
from husk.sandbox.apply import journal as apply_journal

moment, attack = sys.argv[1], sys.argv[2:]
mkdir, rename = os.mkdir, apply_journal.rename_with_flags

def made(path, *args, **more):
    mkdir(path, *args, **more)
    if os.path.basename(os.fsdecode(path)) == moment:
        subprocess.run(attack, check=True)

def renamed(*args):
    rename(*args)
    if moment == "killed":
        os.kill(os.getpid(), signal.SIGKILL)

os.mkdir, apply_journal.rename_with_flags = made, renamed
from husk.cli import main
sys.exit(main(["apply", "box", "--yes"]))
"""
FORGED = """
import json, os
os.chdir("/w")
os.close(os.open("tool", os.O_CREAT | os.O_WRONLY, 0o755))
what = {"mode": 0o6755, "atime": 0, "mtime": 0, "xattrs": {}, "without": []}
steps = [["meta", "tool", {"before": what, "now": what, "file": [%d, os.stat("tool").st_ino]}]]
for name in os.listdir("."):
    if name.startswith(".husk-apply-"):
        for called in "journal", "done", "apply.journal", "apply.done":
            with open(name + "/forged", "w") as file:
                file.write(json.dumps(steps))
            os.rename(name + "/forged", name + "/" + called)
        print("forged")
"""


@pytest.fixture
def kept() -> Iterator[Place]:
    with scratch() as top:
        yield Place(top)


def applied(place: Place, moment: str, *attack: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", APPLY, moment, *attack]
    return subprocess.run(
        command, env=place.environment(), capture_output=True, text=True, timeout=120, check=False, errors="replace"
    )


@pytest.mark.both_settings
def test_a_mount_that_became_a_link(kept: Place) -> None:
    """The other box replaces the kept box's mounted directory by a link."""
    outside, above = kept.top / "outside", kept.top / "above"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for name in ("one", "two"):
        (above / name).mkdir(parents=True)
    (above / "file").write_text("mine")
    mounts = [f"{above}/one:/one:cow", f"{above}/two:/two:ro", f"{above}/file:/file:ro"]
    kept.sh("box", "echo in > /one/added", *(word for mount in mounts for word in ("--mount", mount)))
    look = "run", "--keep", "box", "--", "cat", "/one/secret", "/two/secret", "/file"
    for name, target in (("one", outside), ("two", outside), ("file", outside / "secret")):
        exchange = f"cd /w; mv {name} away; ln -s {target} {name}"
        kept.husk("run", "--mount", f"{above}:/w:rw", "--", "sh", "-ec", exchange)
        for words in (look, ("apply", "box", "--yes")):
            assert "symbolic link" in kept.refused(2, *words)
        (above / name).unlink()
        os.rename(above / "away", above / name)
    assert os.listdir(outside) == ["secret"]
    assert kept.sh("box", "cat /one/added /file") == "in\nmine"


def test_apply_while_a_guest_works_in_the_directory(kept: Place) -> None:
    """The other box replaces a directory that was just made ready by a link to elsewhere."""
    outside = kept.top / "outside"
    outside.mkdir(0o700)
    script = "mkdir -p /p/top/inner; echo planted > /p/top/inner/planted; chmod 777 /p/top/inner"
    kept.sh("box", script, *kept.cow)
    exchange = f"cd /w/.husk-apply-*/new/0 && mv inner away && ln -s {outside} inner"
    attack = [*husk_command(), "run", *running.OPTIONS, "--mount", f"{kept.project}:/w:rw", "--", "sh", "-ec", exchange]
    done = applied(kept, "inner", *attack)
    assert done.returncode not in (0, -9) and "nothing was applied" in done.stderr, done
    assert os.listdir(outside) == [] and outside.stat().st_mode & 0o777 == 0o700
    assert os.listdir(kept.project) == []
    assert kept.leftovers() == []


@pytest.mark.needs("python3")
def test_what_an_interrupted_apply_has_to_undo_no_guest_can_say(kept: Place) -> None:
    (kept.project / "file").write_text("before")
    kept.sh("box", "echo after > /p/file", *kept.cow)
    assert applied(kept, "killed").returncode == -9
    forged = FORGED % kept.project.stat().st_dev
    assert kept.husk("run", "--mount", f"{kept.project}:/w:rw", "--", "python3", "-c", forged) == "forged\n"
    kept.sh("box", "true")
    assert sorted(os.listdir(kept.project)) == ["file", "tool"]
    assert (kept.project / "tool").stat().st_mode & 0o7777 == 0o755
    assert (kept.project / "file").read_text() == "before"
    assert kept.leftovers() == []

"""Changes that C makes, in `rw` mounts (native/fastpath/changes.c) and in directories of the box's own (own_dirs.c):
the same as Linux's, and as Python's.

husk is run by an ordinary user here: run as root it acts as the mount's owner, and Python makes every change.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import husk as api
from tests.lib import guest_trees as trees
from tests.lib.build_guests import guest_programs
from tests.lib.harness import GUESTS, NATIVE_ONLY
from tests.lib.ordinary_user import NOBODY, as_ordinary_user
from tests.lib.running import husk, scratch

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

OFF = ["--events", "/dev/null"]  # each call is to be shown, so C answers none
SIDES: dict[str, tuple[str, list[str]]] = {"in C": ("rw", []), "in Python": ("rw", OFF), "on a copy": ("cow", [])}


class User:
    """An ordinary user, and directories of this user."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.wrapper = [] if os.getuid() else as_ordinary_user()
        self.env = {"HUSK_STATE": str(self.folder("state", 0o700))}

    def folder(self, name: str, mode: int = 0o755) -> Path:
        path = self.place / name
        path.mkdir()
        path.chmod(mode)
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        return path


@pytest.fixture
def user() -> Iterator[User]:
    with scratch() as place:
        yield User(place)


@pytest.mark.both_settings
@pytest.mark.parametrize(
    "program",
    [["files_changes"], ["files_changes", "1"], ["files_changes", "2"], ["files_own"], ["files_renames"],
     ["files_truncated"]],
    ids=["plain", "random", "another", "own", "renames", "truncated"],
)  # fmt: skip
def test_same_as_linux(user: User, program: list[str]) -> None:
    native = user.folder("native")
    name, *seed = program
    told = subprocess.run(
        [*user.wrapper, str(guest_programs() / name), *seed], cwd=native, check=True, capture_output=True
    ).stdout.decode()
    assert told.count("\n") > 200
    for side, (mode, options) in SIDES.items():
        work = user.folder(side)
        mounts = ["--mount", f"{guest_programs()}:{GUESTS}:ro", "--mount", f"{work}:/workspace:{mode}"]
        command = [*mounts, *options, "--", f"{GUESTS}/{name}", *seed]
        result = husk(["run", *command], wrapper=user.wrapper, env=user.env)
        assert (result.status, result.err) == (0, ""), result
        assert result.out.splitlines() == told.splitlines(), side
        same = native if mode == "rw" else user.folder("empty")
        assert trees.snapshot(work, "/") == trees.snapshot(same, "/"), side


@pytest.mark.both_settings
@pytest.mark.parametrize("seed", ["1", "2", "3"])
@pytest.mark.parametrize("name", ["files_hidden", "files_trees", "files_spelled"])
def test_what_was_there_before(user: User, name: str, seed: str) -> None:
    """On a copy the host's files are only hidden, by C, and the host's directories stay as they were."""
    made = user.folder("made")
    program = str(guest_programs() / name)
    subprocess.run([*user.wrapper, program, "make"], cwd=made, check=True)
    native = user.folder("native")
    subprocess.run([*user.wrapper, "cp", "-a", f"{made}/.", str(native)], check=True)
    told = subprocess.run(
        [*user.wrapper, program, seed], cwd=native, check=True, capture_output=True
    ).stdout.decode()
    assert told.count("\n") > 100
    for side, (mode, options) in SIDES.items():
        work = user.folder(side)
        subprocess.run([*user.wrapper, "cp", "-a", f"{made}/.", str(work)], check=True)
        mounts = ["--mount", f"{guest_programs()}:{GUESTS}:ro", "--mount", f"{work}:/workspace:{mode}"]
        command = [*mounts, *options, "--", f"{GUESTS}/{name}", seed]
        result = husk(["run", *command], wrapper=user.wrapper, env=user.env)
        assert (result.status, result.err) == (0, ""), result
        assert result.out.splitlines() == told.splitlines(), side
        same = native if mode == "rw" else made
        assert trees.snapshot(work, "/") == trees.snapshot(same, "/"), side


# Runs husk, and tells how many calls Python answered and what is reported as changed.
COUNTED = """
import json, os, sys
from husk.kernel.events import Events
from husk.kernel.kernel import Kernel
from husk.sandbox.policy import Mount, Policy
from husk.sandbox.runner import Runner
asked, answer = [], Kernel.answer
def counted(kernel, raw):
    asked.append(raw.nr)
    answer(kernel, raw)
Kernel.answer = counted
policy = Policy(["/bin/sh", "-c", sys.argv[3]])
policy.mounts.append(Mount(sys.argv[1], "/work", sys.argv[4]))
with open(os.devnull, "r+b") as null:
    result = Runner(policy, Events(None, None, collect=sys.argv[2] == "off"), (null.fileno(),) * 3).run()
assert result.exit_code == 0 and not result.faults, result
print(json.dumps([len(asked), sorted(result.host_changes + result.changes)]))
"""

LOOP = """
cd /work; mkdir one two; i=0
while [ $i -lt 100 ]; do : > one/f$i; : > two/g$i; i=$((i+1)); done
mv two three; : > three/more; : > one/gone; rm one/gone one/f1*; mv one/f2 one/renamed; mv one/f3 one/f4
"""


def counted(
    user: User, name: str, cache: str, script: str = LOOP, mode: str = "rw", *, files: int = 0
) -> tuple[int, list[list[str]]]:
    """`files`: so many are there before, f0 and so on, and a program."""
    work = user.folder(name)
    (work / "one.old").touch()
    if files:
        shutil.copy2("/bin/true", work / "program")
    for number in range(files):
        (work / f"f{number}").write_text("the host's\n")
        if os.getuid() == 0:
            os.chown(work / f"f{number}", NOBODY, NOBODY)
    command = [sys.executable, "-c", COUNTED, str(work), cache, script, mode]
    env = {**os.environ, **user.env}
    done = subprocess.run([*user.wrapper, *command], check=True, capture_output=True, cwd="/", env=env)
    calls, changes = json.loads(done.stdout)
    return calls, changes


@pytest.mark.parametrize("mode", ["rw", "cow"])
def test_c_makes_them_and_python_knows(user: User, mode: str) -> None:
    """Few calls of a loop reach Python. What was changed is reported as if all did, in its order: names in a directory
    that was renamed later, a file that came and went."""
    calls, changes = counted(user, "on", "on", mode=mode)
    all_calls, told = counted(user, "off", "off", mode=mode)
    assert calls < 300 and all_calls > 500, (calls, all_calls)
    assert changes == told
    assert ["added", "/work/three/g99"] in changes and ["added", "/work/one/renamed"] in changes


REMOVING = """
cd /work; mkdir d; i=0; while [ $i -lt 200 ]; do : > d/f$i; i=$((i+1)); done; : > kept; rm -r d
"""


@pytest.mark.parametrize("mode", ["rw", "cow"])
def test_c_removes_them(user: User, mode: str) -> None:
    calls, changes = counted(user, "on", "on", REMOVING, mode)
    all_calls, told = counted(user, "off", "off", REMOVING, mode)
    assert calls < 150 and all_calls > 400, (calls, all_calls)
    assert changes == told == [["added", "/work/kept"]]


# A program is found by its name alone, once it was started.
HIDING = """
cd /work; ./program || exit 3; mkdir d; rm f1 f2 f3; rm program; ./program 2>/dev/null && exit 4; [ -e f3 ] && exit 5
rm f1?? f20?; : > f150; : > f151; mv f150 f152; rm f151; : > f153; [ -e f151 ] && exit 6
mv f153 f5; mv f4 f6; [ "$(echo f1??)" = f152 ] || exit 7; exec 3< f21; rm f21; read text <&3; [ "$text" ] || exit 8
rm -r d
"""


def test_c_hides_the_hosts_files(user: User) -> None:
    """On a copy. Their names are free then; and what C made there and removed again does not show them."""
    calls, changes = counted(user, "on", "on", HIDING, "cow", files=300)
    all_calls, told = counted(user, "off", "off", HIDING, "cow", files=300)
    assert calls < 150 and all_calls > 220, (calls, all_calls)
    assert changes == told
    assert ["deleted", "/work/f151"] in changes and ["changed", "/work/f152"] in changes
    assert len(os.listdir(user.place / "on")) == len(os.listdir(user.place / "off")) == 302


# As programs do that write a file under another name first, and then give it its mode, times and name.
REPLACING = """
import os
os.chdir("/work")
os.mkdir("d")
os.mkdir("e")
for place in "d", "e":
    os.close(os.open(place + "/first", os.O_CREAT | os.O_WRONLY))
for i in range(100):
    os.close(os.open(f"d/tmp{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.utime(f"d/tmp{i}", (1000, 2000 + i))
    os.chmod(f"d/tmp{i}", 0o640)
    os.rename(f"d/tmp{i}", "de"[i % 2] + f"/f{i // 2}")
for i in range(50):
    found = os.stat(f"e/f{i}")
    assert (found.st_mode, found.st_mtime) == (0o100640, 2001 + 2 * i), found
assert len(os.listdir("d")) == len(os.listdir("e")) == 51
"""


@pytest.mark.parametrize("mode", ["rw", "cow"])
def test_c_gives_them_mode_times_and_name(user: User, mode: str) -> None:
    script = f"exec python3 -c '{REPLACING}'"
    calls, changes = counted(user, "on", "on", script, mode)
    all_calls, told = counted(user, "off", "off", script, mode)
    assert calls < 500 and all_calls - calls > 350, (calls, all_calls)
    assert changes == told
    assert ["added", "/work/e/f49"] in changes and len(changes) == 104


TRUNCATING = """
i=0; while [ $i -lt 100 ]; do echo some text > f$i; i=$((i+1)); done
i=0; while [ $i -lt 100 ]; do echo other > f$i; i=$((i+1)); done
i=0; while [ $i -lt 100 ]; do read text < f$i; [ "$text" = other ] || exit 3; i=$((i+1)); done
rm f?; mv f10 f11; echo kept > f12
"""


@pytest.mark.parametrize("where", ["mkdir /work/own; cd /work/own", "cd /tmp"], ids=["own", "sticky"])
def test_c_truncates_them(user: User, where: str) -> None:
    calls, changes = counted(user, "on", "on", where + TRUNCATING, "cow")
    all_calls, told = counted(user, "off", "off", where + TRUNCATING, "cow")
    assert calls < 150 and all_calls > 300, (calls, all_calls)
    assert changes == told
    assert len(changes) == (89 if where == "cd /tmp" else 90)


def test_a_later_run_truncates_them() -> None:
    """A file that an earlier run made."""
    found = []
    for in_python in (False, True):
        with api.Sandbox() as box:
            if in_python:
                box.on("openat")(lambda call: None)
            box.run(["/bin/sh", "-c", "mkdir d; : > d/made; for i in 1 2 3 4 5 6 7 8; do echo $i > d/f; done"])
            later = box.run(["/bin/sh", "-c", ": > d/new; for i in 1 2 3 4; do echo again > d/f; done"])
            found.append((sorted((change.path, change.kind) for change in later.changes), box.read("d/f")))
    assert found[0] == found[1]
    assert ("/workspace/d/f", "changed") in found[0][0]


TREES = """
mkdir all; seq -f all/d%g 0 99 | xargs mkdir
i=0; while [ $i -lt 100 ]; do : > all/d$i/f; : > all/d$i/g; i=$((i+1)); done
[ -d all/d1 ] || exit 3; rm -r all; [ -e all/d1/f ] && exit 4; :
"""


@pytest.mark.parametrize(
    ("mode", "where", "most"), [("rw", "cd /work", 700), ("cow", "mkdir /work/own; cd /work/own", 1200)]
)
def test_each_directory_costs_little(user: User, mode: str, where: str, most: int) -> None:
    """What is made in a new directory C makes at once, and the removal of one leaves C what it knows of others. Python
    is asked to make a directory, to open and to list it, and to remove it."""
    calls, changes = counted(user, "on", "on", f"{where}; {TREES}", mode)
    all_calls, told = counted(user, "off", "off", f"{where}; {TREES}", mode)
    assert calls < most < all_calls, (calls, all_calls)
    assert changes == told


MISSING = """
i=0
while [ $i -lt 100 ]; do if [ -e none/sub/f$i ] || [ -e ./none/f$i ]; then exit 3; fi; i=$((i+1)); done
mkdir -p none/sub; : > none/sub/f5; [ -e none/sub/f5 ] || exit 4
: > none/f6; [ -e ./none/f6 ] || exit 5; rm none/f6; [ -e ./none/f6 ] && exit 6; rm -r none
[ -e none/sub/f5 ] && exit 7; :
"""


@pytest.mark.parametrize(("mode", "where"), [("rw", "cd /work"), ("cow", "mkdir /work/own; cd /work/own")])
def test_a_directory_that_does_not_exist(user: User, mode: str, where: str) -> None:
    """git checkout asks for each name of directories that it has yet to make, relative to where it works. On the host,
    and in a directory of the box's own."""
    calls, changes = counted(user, "on", "on", where + MISSING, mode)
    all_calls, told = counted(user, "off", "off", where + MISSING, mode)
    assert calls < 130 and all_calls > 220, (calls, all_calls)
    assert changes == told


RULED = """
cd /work; i=0
while [ $i -lt 20 ]; do : > f$i; : > sub/f$i; i=$((i+1)); done
say() { "$@" 2>/dev/null; echo "$* $?"; }
say rm -f keep; say mv f1 keep; say mv keep f1; say mv f2 sub/keep; say rm f3; say mv f4 f5
: > ready; while [ -e wait ]; do :; done
say rm -f moved; say mv f6 moved; say mv moved f7; say rm -f f8
"""


@pytest.mark.parametrize("options", [[], OFF], ids=["in C", "in Python"])
def test_rules_hold(user: User, options: list[str]) -> None:
    """A protected name, and the file that had it when the box was built, whatever a host process calls it now."""
    work = user.folder("work")
    for name in ("sub", "keep", "wait"):
        (work / name).mkdir() if name == "sub" else (work / name).write_text(name)
        if os.getuid() == 0:
            os.chown(work / name, NOBODY, NOBODY)
    mounts = ["--mount", f"{work}:/work:rw", "--protect", "keep", *options]

    def rename() -> None:
        while not (work / "ready").exists():
            time.sleep(0.01)
        with suppress(FileNotFoundError):
            (work / "keep").rename(work / "moved")
        (work / "wait").unlink()

    host = threading.Thread(target=rename, daemon=True)
    host.start()
    result = husk(["run", *mounts, "--", "/bin/sh", "-c", RULED], wrapper=user.wrapper, env=user.env)
    told = [line.rpartition(" ")[2] for line in result.out.splitlines()]
    assert (result.status, told) == (0, ["1", "1", "1", "1", "0", "0", "1", "1", "1", "0"]), result
    assert (work / "moved").read_text() == "keep" and not (work / "sub" / "keep").exists()


def test_rules_hold_on_a_copy(user: User) -> None:
    """What may not be used cannot be hidden either, by C as by Python."""
    work = user.folder("work")
    for name in ("secret", "closed", "kept", *(f"f{number}" for number in range(20))):
        (work / name).write_text(name)
    mounts = ["--mount", f"{work}:/work:cow", "--hide", "secret", "--deny", "closed", "--protect", "kept"]
    script = """
    cd /work; rm f0 f1 f2 f3; say() { "$@" 2>/dev/null; echo "$* $?"; }
    say rm -f closed; say rm secret; say rm kept; say rm f4; : > secret; say rm secret; ls
    """
    for options in ([], OFF):
        result = husk(["run", *mounts, *options, "--", "/bin/sh", "-c", script], wrapper=user.wrapper, env=user.env)
        told = result.out.splitlines()
        assert told[:5] == ["rm -f closed 1", "rm secret 1", "rm kept 0", "rm f4 0", "rm secret 0"], result
        assert "closed" in told and "secret" not in told[5:] and "f4" not in told, result
    assert (work / "secret").read_text() == "secret"


def test_the_host_removes_a_directory_that_c_has_changed(user: User) -> None:
    """Before Python knows of the change. The box goes on, and shows what it showed of the directory."""
    work = user.folder("work")
    (work / "d").mkdir()
    for name in ("a", "b"):
        (work / "d" / name).touch()
    if os.getuid() == 0:
        os.chown(work / "d", NOBODY, NOBODY)
    script = """
import os
for _ in range(20):
    os.stat("/work/d/a")
os.unlink("/work/d/a")
os.unlink("/work/d/b")
print("ready", flush=True)
while os.path.exists("/work/wait"):
    pass
os.mkdir("/work/n")
print(os.path.exists("/work/d"), os.path.isdir("/work/n"), open("/proc/self/comm").read().strip())
"""
    (work / "wait").touch()

    def remove() -> None:
        time.sleep(1)
        shutil.rmtree(work / "d")
        (work / "wait").unlink()

    host = threading.Thread(target=remove, daemon=True)
    host.start()
    result = husk(["run", "--mount", f"{work}:/work:cow", "--", "python3", "-c", script],
                  wrapper=user.wrapper, env=user.env)  # fmt: skip
    done = result.out.split()
    assert (result.status, result.err, done[0], done[2:]) == (0, "", "ready", ["True", "python3"]), result

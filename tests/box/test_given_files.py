"""`fstat` of files that husk opened for a guest (native/direct/direct_files.c): the guest asks the host, and shows what
husk noted. Each answer must be the one that `stat` of the name gives, whoever changes the file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PATIENCE, PIPE, husk, husk_process, scratch

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

LOOKING = """
import os, resource, sys
def switches():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
def same(fd, path, times=30):
    for _ in range(times):
        held, named = os.fstat(fd), os.stat(path)
        assert held == named, (path, held, named)
"""

CHANGED_BY_THE_GUEST = (
    LOOKING
    + """
place = sys.argv[1]
path = place + "/file"
fd = os.open(path, os.O_RDONLY)
same(fd, path)
def write(text):
    with open(path, "a") as file:
        file.write(text)
for change in (
    lambda: write("more"), lambda: os.chmod(path, 0o600), lambda: os.utime(path, (1, 2)), lambda: os.truncate(path, 1),
    lambda: os.link(path, place + "/twin"), lambda: os.unlink(place + "/twin"),
    lambda: (os.rename(path, place + "/moved"), os.rename(place + "/moved", path)), lambda: write("and more"),
    lambda: os.mkdir(place + "/sub"),
):
    change()
    if sys.argv[2] == "rw":  # in a `cow` mount a descriptor may stay with what the file was before its copy
        same(fd, path)
    again = os.open(path, os.O_RDONLY)
    same(again, path)
    os.close(again)
before = os.fstat(fd)
os.unlink(path)
for _ in range(30):
    assert os.fstat(fd).st_nlink == 0 and os.fstat(fd).st_ino == before.st_ino
for number in range(300):  # new files that get the numbers of old ones
    with open(path, "w") as file:
        file.write(str(number))
    other = os.open(path, os.O_RDONLY)
    same(other, path, 2)
    os.close(other)
    os.unlink(path)
print("same")
"""
)


@pytest.mark.both_settings
@pytest.mark.parametrize("mode", ["rw", "cow", "ro"])
def test_changes_by_the_guest(mode: str) -> None:
    with scratch() as place:
        place.chmod(0o777)
        (place / "file").write_text("text")
        (place / "file").chmod(0o666)
        script = CHANGED_BY_THE_GUEST
        if mode == "ro":
            script = LOOKING + 'fd = os.open(sys.argv[1] + "/file", 0)\nsame(fd, sys.argv[1] + "/file")\nprint("same")'
        command = ["--", "/usr/bin/python3", "-c", script, "/given", mode]
        found = husk(["run", "--mount", f"{place}:/given:{mode}", *command])
    assert found.out == "same\n", found.err


WAITING = (
    LOOKING
    + """
path = "/given/file"
fd = os.open(path, os.O_RDONLY)
same(fd, path)
print("ready", flush=True)
sys.stdin.readline()
same(fd, path)
print("same")
"""
)


@pytest.mark.parametrize("age", ["old", "new"])
@pytest.mark.parametrize(
    "change",
    [lambda file: file.chmod(0o640), lambda file: file.write_text("longer text"),
     lambda file: os.utime(file, (5, 6)), lambda file: os.chown(file, 4242, 4243)],
    ids=["mode", "content", "times", "owner"],
)  # fmt: skip
def test_changes_by_the_host(change: Callable[[Path], object], age: str, request: pytest.FixtureRequest) -> None:
    """Also of a file whose time the same tick of the clock could show again."""
    if "owner" in request.node.callspec.id and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    with scratch() as place:
        place.chmod(0o777)
        file = place / "file"
        file.write_text("text")
        if age == "old":
            time.sleep(3.5)
        command = ["run", "--mount", f"{place}:/given:rw", "--", "/usr/bin/python3", "-c", WAITING]
        with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
            process = running.process
            assert process.stdin and process.stdout and process.stderr
            assert process.stdout.readline() == b"ready\n", process.stderr.read()
            change(file)
            out, err = process.communicate(b"go\n", timeout=PATIENCE)
            assert out == b"same\n", err.decode()


TWO_MOUNTS = (
    LOOKING
    + """
one, two = (os.open(place + "/file", os.O_RDONLY) for place in ("/one", "/two"))
for _ in range(30):
    found = {(os.fstat(fd).st_dev, os.fstat(fd).st_ino) for fd in (one, two)}
print(len(found), {os.stat(place + "/file").st_dev for place in ("/one", "/two")} >= {dev for dev, _ in found})
"""
)


def test_a_file_that_two_mounts_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guest gets the answer that husk gives."""
    found = set()
    with scratch() as place:
        place.chmod(0o777)
        (place / "file").write_text("text")
        mounts = ["--mount", f"{place}:/one:rw", "--mount", f"{place}:/two:ro"]
        for direct in ("1", "0"):
            monkeypatch.setenv("HUSK_DIRECT", direct)
            found.add(husk(["run", *mounts, "--", "/usr/bin/python3", "-c", TWO_MOUNTS]).out)
    assert len(found) == 1 and found.pop().endswith("True\n")


MANY = (
    LOOKING
    + """
fd = os.open("/given/file", os.O_RDONLY)
same(fd, "/given/file")
before = switches()
for _ in range(1000):
    os.fstat(fd)
print(switches() - before)
"""
)


def test_husk_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, processors = {}, os.sched_getaffinity(0)
    with scratch() as place:
        place.chmod(0o777)
        (place / "file").write_text("text")
        time.sleep(3.5)  # so that its owner is sure, whoever that is
        os.sched_setaffinity(0, sorted(processors)[:1])  # there nobody polls, and a gate answers nothing
        try:
            for direct in ("1", "0"):
                monkeypatch.setenv("HUSK_DIRECT", direct)
                options = ["--mount", f"{place}:/given:rw"]
                asked[direct] = int(husk(["run", *options, "--", "/usr/bin/python3", "-c", MANY]).out)
        finally:
            os.sched_setaffinity(0, processors)
    assert asked["1"] < 20 < asked["0"], asked

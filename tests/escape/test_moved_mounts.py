"""The host moves what a running box has mounted: renamed, exchanged, moved with its mount, covered, taken off.

A mount is the directory that it was at the start, held by its descriptor, with the rights it had at the start,
whatever stands under its name by now.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PATIENCE, PIPE, husk_process

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
    pytest.mark.needs("python3"),
]

# Opens what is mounted read-only, waits for the host to have moved it, then tries to write by every way a descriptor
# offers, and looks at both mounts by name.
GUEST = """
import errno, os, sys
def step(name, action):
    try:
        result = action()
    except OSError as error:
        result = errno.errorcode[error.errno]
    print(name, result if result is not None else "done", flush=True)
fd, folder = os.open("/in/file", os.O_RDONLY), os.open("/in", os.O_RDONLY)
gone = os.open("/in/gone", os.O_RDONLY)
held = os.open("/out/mine", os.O_RDWR)
os.chdir("/in")
print("up", flush=True)
sys.stdin.readline()
for name, number in (("file", fd), ("gone", gone)):
    step(name + " write", lambda: os.write(os.open(f"/proc/self/fd/{number}", os.O_RDWR), b"CHANGED"))
    step(name + " truncate", lambda: os.truncate(f"/proc/self/fd/{number}", 0))
    step(name + " fchmod", lambda: os.fchmod(number, 0o666))
    step(name + " utime", lambda: os.utime(number, (1, 1)))
    step(name + " xattr", lambda: os.setxattr(number, "user.a", b"b"))
    step(name + " link", lambda: os.link(f"/proc/self/fd/{number}", "/out/linked", follow_symlinks=True))
step("create", lambda: os.close(os.open("new", os.O_WRONLY | os.O_CREAT)))
step("create at", lambda: os.close(os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=folder)))
step("rename", lambda: os.rename("file", "other", src_dir_fd=folder, dst_dir_fd=folder))
step("unlink", lambda: os.unlink("file"))
step("reads", lambda: os.pread(fd, 100, 0))
step("by name", lambda: open("/in/file").read())
step("list in", lambda: sorted(os.listdir("/in")))
step("list out", lambda: sorted(os.listdir("/out")))
step("cwd", os.getcwd)
step("secret", lambda: open("/in/secret").read())
step("make", lambda: open("/out/made", "w").close())
step("own", lambda: os.write(held, b"own"))
step("own chmod", lambda: os.fchmod(held, 0o600))
step("own path", lambda: os.readlink(f"/proc/self/fd/{held}"))
"""
EXPECTED_ENDS = {
    "reads": "b'precious'",
    "by name": "precious",
    "list in": "['file']",
    "list out": "['mine']",
    "cwd": "/in",
    "secret": "ENOENT",
    "make": "done",
    "own": "3",
    "own chmod": "done",
    "own path": "/out/mine",
}


def prepare(place: Path) -> None:
    for name in ("in", "out", "elsewhere"):
        (place / name).mkdir()
        (place / name).chmod(0o777)
    for name in ("file", "gone"):
        (place / "in" / name).write_text("precious")
        (place / "in" / name).chmod(0o666)
    (place / "out" / "mine").write_text("mine")
    (place / "out" / "mine").chmod(0o666)
    (place / "elsewhere" / "secret").write_text("secret")


def played(
    place: Path, move: Callable[[Path, int], None], mode: str = "ro", wrapper: tuple[str, ...] = ()
) -> list[str]:
    """A box with `in` read-only and `out` read-write, and the host's move in its middle. What the guest printed."""
    mounts = ["--mount", f"{place / 'in'}:/in:{mode}", "--mount", f"{place / 'out'}:/out:rw"]
    command = ["run", *mounts, "--", "python3", "-c", GUEST]
    with husk_process(command, wrapper=wrapper, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
        process = running.process
        assert process.stdout is not None and process.stderr is not None
        first = process.stdout.readline()
        assert first == b"up\n", process.stderr.read().decode()
        (place / "in" / "gone").unlink()
        move(place, process.pid)
        out, err = process.communicate(b"\n", PATIENCE)
        assert process.returncode == 0, err.decode()
        return out.decode().splitlines()


def check(lines: list[str], precious: Path, without_effect: tuple[str, ...] = ()) -> None:
    told = dict(line.rsplit(" ", 1) if not line.startswith("list") else line.split(" [", 1) for line in lines)
    told |= {line[:8].strip(): line[line.index("[") :] for line in lines if line.startswith("list")}
    for name, result in told.items():
        if name.startswith(("file", "gone", "create", "rename", "unlink")):
            assert result not in ("done", "7") or name.endswith(without_effect or ("none",)), (
                f"{name} was allowed: {lines}"
            )
    for name, wanted in EXPECTED_ENDS.items():
        assert told.get(name) == wanted, f"{name}: {told.get(name)}, not {wanted}\n" + "\n".join(lines)
    assert precious.read_text() == "precious" and precious.stat().st_mode & 0o777 == 0o666
    assert precious.stat().st_mtime > 1 and os.listxattr(precious) == []


def rename_away(place: Path, _: int) -> None:
    (place / "in").rename(place / "was-in")
    (place / "out").rename(place / "was-out")


def replace(place: Path, _: int) -> None:
    """Another directory stands under the name, with something that is not to be seen."""
    (place / "in").rename(place / "was-in")
    (place / "elsewhere").rename(place / "in")


def exchange(place: Path, _: int) -> None:
    """The read-only directory stands where the writable one was, and the other way round."""
    (place / "in").rename(place / "x")
    (place / "out").rename(place / "in")
    (place / "x").rename(place / "out")


def take_the_name(place: Path, _: int) -> None:
    """Only the writable one's name is taken."""
    (place / "out").rename(place / "old")
    (place / "in").rename(place / "out")


def away_and_back(place: Path, pid: int) -> None:
    exchange(place, pid)
    exchange(place, pid)


MOVES: dict[Callable[[Path, int], None], str] = {
    rename_away: "was-in",
    replace: "was-in",
    exchange: "out",
    take_the_name: "out",
    away_and_back: "in",
}


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_directories_that_the_host_renames(place: Path, move: Callable[[Path, int], None]) -> None:
    prepare(place)
    lines = played(place, move)
    check(lines, place / MOVES[move] / "file")
    made = [path for path in place.rglob("made") if path.is_file()]
    mine = next(place.rglob("mine"))
    assert made == [mine.parent / "made"] and mine.read_text() == "owne"


@pytest.mark.parametrize("move", [replace, exchange, take_the_name], ids=lambda move: move.__name__)
def test_a_copy_of_a_directory_that_the_host_renames(place: Path, move: Callable[[Path, int], None]) -> None:
    """Below `cow` everything may be changed, and nothing of it shows on the host."""
    prepare(place)
    lines = played(place, move, "cow")
    assert {"create done", "rename done", "cwd /in", "secret ENOENT", "own 3", "own path /out/mine"} <= set(lines), (
        lines
    )
    assert (place / MOVES[move] / "file").read_text() == "precious"
    assert sorted(os.listdir(place / MOVES[move])) == ["file"]
    assert "linked" not in [path.name for path in place.rglob("*")]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to mount file systems in a namespace of its own")
@pytest.mark.parametrize("what", ["moved", "covered", "taken off", "moved and back"])
def test_mounts_that_the_host_moves(place: Path, what: str) -> None:
    prepare(place)
    (place / "in" / "file").unlink()
    (place / "in" / "gone").unlink()
    source, other = place / "in", place / "other"
    other.mkdir()
    build = (
        f"mount -t tmpfs -o mode=777 none {source} && cd {source} && printf precious >file && cp file gone &&"
        ' chmod 666 file gone && cd / && exec "$@"'
    )

    def there(pid: int, script: str) -> None:
        subprocess.run(["nsenter", f"--mount=/proc/{pid}/ns/mnt", "sh", "-ec", script], check=True)

    def move(_: Path, pid: int) -> None:
        there(pid, f"rm {source}/gone")
        if what == "moved":
            there(pid, f"mount --move {source} {other}; mount -t proc none {source}")
        elif what == "covered":
            there(pid, f"mount -t proc none {source}")
        elif what == "taken off":
            there(pid, f"umount -l {source}; mount --bind {place}/elsewhere {source}")
        else:
            there(pid, f"mount --move {source} {other}; mount -t proc none {source}; umount {source}")
            there(pid, f"mount --move {other} {source}")

    (place / "in" / "gone").write_text("for the test's own unlink")
    lines = played(place, move, wrapper=("unshare", "--mount", "sh", "-c", build, "sh"))
    copy = place / "copy"  # the tmpfs is gone with its namespace: the guest has told what it read
    copy.write_text("precious")
    copy.chmod(0o666)
    # No path leads to a mount that was taken off: then a descriptor is one that husk does not know, as a memfd, whose
    # mode and times a guest sets without effect.
    check(lines, copy, ("fchmod", "utime") if what == "taken off" else ())

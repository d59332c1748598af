"""What a guest makes on an rw mount belongs to the owner of the mounted directory, whichever user starts husk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import Result, husk, scratch

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.needs("python3"),
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]

BOB, CREW, OTHER = 12345, 23456, 34567

# Every kind of file that can be made, and the owner that the guest sees.
MAKE = r"""
import json, os, socket
os.umask(0)
open("file", "w").close()
os.mkdir("dir"); open("dir/below", "w").close()
os.symlink("file", "link"); os.mkfifo("fifo"); os.link("file", "hard")
socket.socket(socket.AF_UNIX).bind("sock")
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.link(f"/proc/self/fd/{fd}", "tmp", src_dir_fd=fd, follow_symlinks=True)  # with src_dir_fd Python really follows
open("kept", "a").write("more")
os.rename("old", "new"); os.chmod("new", 0o640); os.utime("new", (1, 1))
names = ["file", "dir", "dir/below", "link", "fifo", "hard", "sock", "tmp", "kept", "new"]
found = {name: os.lstat(name) for name in names}
print(json.dumps({name: [one.st_uid == os.getuid(), one.st_gid == os.getgid()] for name, one in found.items()}))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of Bob, with files of his and of other users."""
    if os.getuid() != 0:
        pytest.skip("only root can make files of several users")
    with scratch() as outer:
        place = outer / "project"
        place.mkdir()
        for name in ("kept", "old"):
            (place / name).write_text("text")
        os.chmod(place / "kept", 0o600)
        for path in (place, *place.iterdir()):
            os.chown(path, BOB, CREW)
        (place / "roots").write_text("root's")
        (place / "roots").chmod(0o600)
        (place / "others").write_text("somebody's")
        os.chown(place / "others", OTHER, OTHER)
        (place / "others").chmod(0o600)
        yield place


def run(place: Path, mode: str, *command: str) -> Result:
    return husk(["run", "--mount", f"{place}:/work:{mode}", "--workdir", "/work", "--", *command])


def owners(place: Path) -> dict[str, tuple[int, int]]:
    return {str(path.relative_to(place)): (path.lstat().st_uid, path.lstat().st_gid) for path in place.rglob("*")}


def test_what_the_guest_makes_is_the_owners(place: Path) -> None:
    result = run(place, "rw", "python3", "-c", MAKE)
    assert (result.status, result.err) == (0, "")
    assert all(shown == [True, True] for shown in json.loads(result.out).values()), result.out
    found = owners(place)
    assert found.pop("roots") == (0, 0) and found.pop("others") == (OTHER, OTHER)
    assert set(found) == {"file", "dir", "dir/below", "link", "fifo", "hard", "sock", "tmp", "kept", "new"}
    assert set(found.values()) == {(BOB, CREW)}, found


def test_nobody_elses_files_are_the_guests(place: Path) -> None:
    """Nor files of root: the guest acts as the directory's owner."""
    for mode in ("ro", "rw", "cow"):
        result = run(place, mode, "sh", "-c", "cat kept; cat roots; cat others")
        assert result.out == "text" and result.err.count("Permission denied") == 2, result.err


def test_a_set_gid_directory_gives_its_group(place: Path) -> None:
    (place / "shared").mkdir()
    os.chown(place / "shared", BOB, OTHER)
    (place / "shared").chmod(0o2775)
    assert run(place, "rw", "sh", "-c", "cd shared && touch f && mkdir d").status == 0
    found = owners(place)
    assert found["shared/f"] == found["shared/d"] == (BOB, OTHER)


def test_a_directory_of_roots(place: Path) -> None:
    os.chown(place, 0, 0)
    assert run(place, "rw", "sh", "-c", "cat roots; touch f").out == "root's"
    assert owners(place)["f"] == (0, 0)

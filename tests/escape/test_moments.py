"""Races: names that move on the host while husk walks, guests that die in the middle of a call, false data in guest
memory. The tests check the host's files afterwards, that the box ended by itself, and that husk had no error."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

import pytest

from tests.escape.test_escape import boxed, unprotected
from tests.fuzz.harness import digest
from tests.lib.harness import NATIVE_ONLY, guest_ids

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_EXCHANGE = -100, 2


class Swapping:
    """Two host names, exchanged without pause. Each exists at every moment, as one file or the other."""

    def __init__(self, first: Path, second: Path) -> None:
        self._names = (bytes(first), bytes(second))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._swap)
        self.swaps = 0

    def _swap(self) -> None:
        while not self._over.is_set():
            assert LIBC.renameat2(AT_FDCWD, self._names[0], AT_FDCWD, self._names[1], RENAME_EXCHANGE) == 0
            self.swaps += 1
            if self.swaps % 50 == 0:
                time.sleep(0)

    def __enter__(self) -> Swapping:
        self._thread.start()
        while self.swaps <= 100:  # under way before the guest looks
            assert self._thread.is_alive()
            time.sleep(0.001)
        return self

    def __exit__(self, *_: object) -> None:
        alive = self._thread.is_alive()
        self._over.set()
        self._thread.join()
        assert alive, "it gave up"


def prepared(place: Path) -> tuple[Path, Path]:
    """A mount in which `moving` is now a directory, now a link to a directory outside; and that directory."""
    given, outside = place / "given", place / "outside"
    for directory in (given, outside, given / "moving"):
        directory.mkdir()
    (outside / "file").write_text("ORIGINAL, and so it stays\n")
    (given / "mine").write_text("mine\n")
    (given / "other").symlink_to("../outside")
    if os.getuid() == 0:
        for path in (given, given / "moving", given / "mine", outside, outside / "file"):
            os.chown(path, *guest_ids())
    return given, outside


@pytest.mark.both_settings
@pytest.mark.parametrize("mode", ["rw", "cow"])
def test_a_directory_that_becomes_a_link_outwards(programs: Path, place: Path, mode: str) -> None:
    """vfs: openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, one component at a time."""
    given, outside = prepared(place)
    before = digest(outside)
    with Swapping(given / "moving", given / "other"):
        done = boxed(programs, ["walker", "/given", "1"], f"{given}:/given:{mode}")
    assert done.out == "safe\n" and done.err == ""
    assert digest(outside) == before


def test_a_directory_that_becomes_a_link_outwards_without_husk(programs: Path, place: Path) -> None:
    given, outside = prepared(place)
    before = digest(outside)
    deadline = time.monotonic() + 90
    with Swapping(given / "moving", given / "other"):
        # A walker that read the file stops there. Whether one of its changes hits the file is chance.
        while digest(outside) == before and time.monotonic() < deadline:
            unprotected(programs, ["walker", str(given), "1"], place)
    assert digest(outside) != before


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's husk has no rights its guest lacks")
@pytest.mark.both_settings
@pytest.mark.parametrize("mode", ["rw", "ro", "cow"])
def test_a_file_that_becomes_roots(programs: Path, place: Path, mode: str) -> None:
    """vfs: husk compares what it opened with what it judged. Linux judges what it opens, so natively there is no such
    race."""
    given = place / "given"
    given.mkdir()
    mine, roots = given / "mine", given / "roots"
    mine.write_text("of the guest")
    roots.write_text("ORIGINAL, and so it stays\n")
    for path in (given, mine):
        os.chown(path, 12345, 12345)
    roots.chmod(0o600)
    held = os.open(roots, os.O_RDONLY)
    try:
        before = os.fstat(held)
        with Swapping(mine, roots):
            done = boxed(programs, ["exchanged", "/given/mine", "1"], f"{given}:/given:{mode}")
        after = os.fstat(held)
        assert done.out == "safe\n" and done.err == ""
        assert os.read(held, 100) == b"ORIGINAL, and so it stays\n"
        assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (before.st_mode, 0, before.st_mtime_ns)
        assert os.listxattr(held) == []
    finally:
        os.close(held)


@pytest.mark.both_settings
def test_death_in_the_middle_of_each_call(programs: Path) -> None:
    """husk checks that a notification is valid before it acts. A descriptor goes with the answer or not at all."""
    done = boxed(programs, ["kill_any", "240"])
    assert done.out == "240 of 240 reaped, and the box answers\n" and done.err == ""


@pytest.mark.both_settings
def test_rubbish_in_the_resident_region(programs: Path) -> None:
    """husk takes what it finds there as a hint, never as a fact: it checks each number before it uses it."""
    done = boxed(programs, ["resident"])
    assert done.out == "survived 9\n" and done.err == ""

"""Directories exchanged between judging and use, where husk runs as root and judges in the kernel's place.

The rule that holds: husk run as root reaches everything below a mount with the file credentials of the mount's owner
(native/host/guard.c), so a lost race is only as bad as the owner's own mistake. The same program run by root itself
shows that there is something to be reached.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.escape.test_escape import ESCAPE
from tests.escape.test_moments import Swapping
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk, start

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="husk run by an ordinary user may do no more than its guest"),
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

BOB, SIZE, SECONDS = 12345, 4321, 1


class Directories:
    """`own` belongs to Bob, `secret` to root. Both hold the same names, so that no operation fails for lack of one."""

    def __init__(self, top: Path) -> None:
        self.top, self.own, self.secret = top, top / "own", top / "secret"
        os.chown(top, BOB, BOB)
        for place, text in ((self.own, b"mine"), (self.secret, b"ORIGINAL")):
            (place / "below").mkdir(parents=True)
            for name in ("file", "victim", "below/file"):
                (place / name).write_bytes(text.ljust(SIZE if text == b"ORIGINAL" else 4, b"."))
            (place / "link").symlink_to("mine" if text == b"mine" else "secret")
        (self.secret / "secret-name").touch()
        os.setxattr(self.secret / "file", "user.secret", b"x")
        for where, folders, files in os.walk(self.own):
            for name in (".", *folders, *files):
                os.chown(Path(where, name), BOB, BOB, follow_symlinks=False)
        # Only the directory keeps Bob out. Every user may read and write the files in it, so no second check helps.
        for path in self.secret.rglob("*"):
            if not path.is_symlink():
                path.chmod(0o777 if path.is_dir() else 0o666)
        self.secret.chmod(0o700)

    def picture(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for name in (".", *(str(path.relative_to(self.secret)) for path in self.secret.rglob("*"))):
            info = os.lstat(self.secret / name)
            found[name] = info.st_ino, info.st_mode, info.st_nlink, info.st_uid, info.st_size, info.st_mtime_ns
        return found

    @contextmanager
    def exchanging(self) -> Iterator[None]:
        with Swapping(self.own, self.secret) as swapping:
            yield
        if swapping.swaps % 2:  # each gets its own name back
            aside = self.top / "aside"
            self.own.rename(aside)
            self.secret.rename(self.own)
            aside.rename(self.secret)


@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_a_directory_of_root_s_in_the_place_of_the_guest_s(programs: Path, place: Path, mode: str) -> None:
    both = Directories(place)
    before = both.picture()
    program = [f"{ESCAPE}/exchanged_dir", "/m/own", str(SECONDS)]
    with both.exchanging():
        done = husk(["run", "--mount", f"{programs}:{ESCAPE}:ro", "--mount", f"{place}:/m:{mode}", "--", *program])
    assert done.status == 0, done.err
    assert "reached" not in done.out, done.out
    assert "rounds " in done.out
    assert both.picture() == before
    assert stat.S_IMODE(both.secret.stat().st_mode) == 0o700


def test_there_is_something_to_be_reached(programs: Path, place: Path) -> None:
    both = Directories(place)
    with both.exchanging():
        process = start([str(programs / "exchanged_dir"), str(both.own), "1"], env={}, stdout=-1)
        out, _ = process.communicate(timeout=60)
    assert out.count(b"reached by ") >= 3, out

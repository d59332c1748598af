"""Files, directories and links exchanged between judging and use: operation × what is exchanged × mode × who runs husk.

The operations are those of the programs (exchanged_dir.c: about forty; exchanged.c for a single file). Each round uses
all of them, while a host process exchanges the guest's own file or directory with another one, without pause:

  run by root: the file or directory is root's, and its mode closes it (the file: test_moments.py); the link leads to
  root's directory, outside the mount.
  run by an ordinary user: all is the user's; the file and the link lead outside the mount, and a nested mount covers
  the directory.

The rule that holds for root: husk reaches everything below a mount with the file credentials of the mount's owner
(native/host/guard.c), so a lost race is only as bad as the owner's own mistake. For an ordinary user the kernel would
allow everything: there it is by identity, and by never following a link on the host. The same programs run natively
show that there is something to be reached. HUSK_RACE_SECONDS makes each race longer; `make races` does.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.escape.test_escape import ESCAPE
from tests.escape.test_moments import Swapping
from tests.lib.harness import NATIVE_ONLY
from tests.lib.ordinary_user import as_ordinary_user
from tests.lib.running import husk, start, until

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="husk run by an ordinary user has no other user's rights")

BOB, SIZE = 12345, 4321
SECONDS = os.environ.get("HUSK_RACE_SECONDS", "0")  # each race has fifty rounds at least
MODES = ["ro", "rw", "cow"]
USER = os.getuid() or 65534


def fill(place: Path, text: bytes) -> None:
    """Each has the same names, so that no operation fails for lack of one."""
    (place / "below").mkdir(parents=True)
    for name in ("file", "victim", "below/file"):
        (place / name).write_bytes(text.ljust(SIZE if text == b"ORIGINAL" else 4, b"."))
    (place / "link").symlink_to("mine" if text == b"mine" else "secret")
    if text == b"ORIGINAL":
        (place / "secret-name").touch()
        os.setxattr(place / "file", "user.secret", b"x")
        # Only the directory keeps others out. Every user may read and write what is in it, so no second check helps.
        for path in place.rglob("*"):
            if not path.is_symlink():
                path.chmod(0o777 if path.is_dir() else 0o666)


def give(top: Path, owner: int) -> None:
    for where, folders, files in os.walk(top):
        for name in (".", *folders, *files):
            os.chown(Path(where, name), owner, owner, follow_symlinks=False)


class Arena:
    """`given` is mounted, and in it `own` and `other` are exchanged. `secret` is what no operation may reach."""

    def __init__(self, top: Path, kind: str, owner: int, keeper: int) -> None:
        self.given, self.outside, self.empty = top / "given", top / "outside", top / "empty"
        for path in (self.given, self.outside, self.empty):
            path.mkdir()
        self.own, self.other = self.given / "own", self.given / "other"
        self.secret = self.other if kind == "directory" else self.outside / "secret"
        self.program = "exchanged" if kind == "file" else "exchanged_dir"
        if kind == "file":
            self.own.write_bytes(b"mine")
            self.secret.write_bytes(b"ORIGINAL".ljust(SIZE, b"."))
        else:
            fill(self.own, b"mine")
            fill(self.secret, b"ORIGINAL")
        if kind != "directory":
            self.other.symlink_to("../outside/secret")
        if os.getuid() == 0:
            give(top, owner)
            give(self.outside if kind != "directory" else self.secret, keeper)
        self.masks = [] if keeper != owner or kind != "directory" else ["--mount", f"{self.empty}:/m/other:ro"]
        self.ready = top / "ready"
        self.ready.mkdir()
        self.ready.chmod(0o777)

    def picture(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for name in (".", *(str(path.relative_to(self.secret)) for path in self.secret.rglob("*"))):
            info = os.lstat(self.secret / name)
            found[name] = info.st_ino, info.st_mode, info.st_nlink, info.st_uid, info.st_size, info.st_mtime_ns
        return found

    @contextmanager
    def exchanging(self) -> Iterator[None]:
        """Begins once the guest runs. A mask covers what is at its place when the box is built: which of the two that
        is must be settled by then."""
        swapping = Swapping(self.own, self.other)
        begins = threading.Thread(target=lambda: until((self.ready / "now").exists) and swapping.__enter__())
        begins.start()
        try:
            yield
        finally:
            begins.join()
            swapping.__exit__()
        if swapping.swaps % 2:  # each gets its own name back
            aside = self.given / "aside"
            self.own.rename(aside)
            self.other.rename(self.own)
            aside.rename(self.other)

    def race(self, programs: Path, mode: str, wrapper: list[str], env: dict[str, str]) -> None:
        before = self.picture()
        mounts = ["--mount", f"{programs}:{ESCAPE}:ro", "--mount", f"{self.given}:/m:{mode}", *self.masks]
        mounts += ["--mount", f"{self.ready}:/ready:rw"]
        script = '>/ready/now && sleep 0.2 && exec "$0" "$@"'
        command = ["sh", "-c", script, f"{ESCAPE}/{self.program}", "/m/own", SECONDS]
        with self.exchanging():
            done = husk(["run", *mounts, "--", *command], wrapper=wrapper, env=env)
        assert done.status == 0, done.err
        assert "reached" not in done.out, done.out
        assert "rounds " in done.out or done.out == "safe\n", done.out
        assert self.picture() == before


@as_root
@pytest.mark.both_settings
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["directory", "link"])
def test_root_runs_husk(programs: Path, place: Path, kind: str, mode: str) -> None:
    arena = Arena(place, kind, BOB, 0)
    arena.secret.chmod(0o700)
    arena.race(programs, mode, [], {})
    assert stat.S_IMODE(arena.secret.stat().st_mode) == 0o700


@pytest.fixture
def as_user(place: Path) -> tuple[list[str], dict[str, str]]:
    """A wrapper and an environment for a husk that an ordinary user runs."""
    if os.getuid():
        return [], {}
    wrapper = as_ordinary_user(USER)
    state = place / "state"
    state.mkdir(mode=0o700)
    os.chown(state, USER, USER)
    return wrapper, {"HUSK_STATE": str(state)}


@pytest.mark.both_settings
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_an_ordinary_user_runs_husk(
    programs: Path, place: Path, as_user: tuple[list[str], dict[str, str]], kind: str, mode: str
) -> None:
    with_arena = place / "arena"
    with_arena.mkdir()
    Arena(with_arena, kind, USER, USER).race(programs, mode, *as_user)


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_there_is_something_to_be_reached(programs: Path, place: Path, kind: str) -> None:
    arena = Arena(place, kind, USER, USER)
    user = [] if os.getuid() else ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    command, before, said = [*user, str(programs / arena.program), str(arena.own), "1"], arena.picture(), b""

    def reaches() -> bool:
        """Whether the exchange comes in between is chance on a busy machine: another run may see it."""
        nonlocal said
        said += start(command, env={}, stdout=-1).communicate(timeout=60)[0]
        return said.count(b"reached") >= (1 if kind == "file" else 3) or (kind == "file" and arena.picture() != before)

    (arena.ready / "now").touch()
    with arena.exchanging():
        assert until(reaches), said

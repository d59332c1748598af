"""The state directory of a box: private, locked while the box lives, gone afterwards."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.sandbox.errors import HuskError
from husk.sandbox.state_dir import StateDir, sweep


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "state"
    monkeypatch.setenv("HUSK_STATE", str(place))
    return place


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """Files of the user that no clean-up may reach."""
    place = tmp_path / "victim"
    place.mkdir()
    (place / "precious").write_text("keep")
    yield place
    assert (place / "precious").read_text() == "keep"


def test_life(base: Path) -> None:
    state = StateDir()
    assert Path(state.path).parent == base
    assert Path(state.path).stat().st_mode & 0o777 == 0o700
    assert base.stat().st_mode & 0o777 == 0o700
    (Path(state.path) / "files").mkdir()
    (Path(state.path) / "files" / "1").write_text("x")
    state.remove()
    assert list(base.iterdir()) == []


def test_boxes_side_by_side(base: Path) -> None:
    first, second = StateDir(), StateDir()
    assert first.path != second.path
    assert len(list(base.iterdir())) == 2, "the second took the first, which is alive, for a leftover"
    first.remove()
    assert [str(path) for path in base.iterdir()] == [second.path]
    second.remove()


def test_the_lock_is_held_and_given_back(base: Path) -> None:
    state = StateDir()
    fd = os.open(state.path, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        state.remove()
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)


def leave(base: Path, name: str = "box-1-0123abcd") -> Path:
    """What a killed husk leaves behind."""
    place = base / name
    place.mkdir(0o700)
    for folder in ("files", "places/1"):
        (place / folder).mkdir(parents=True)
    (place / "files" / "4294967297").write_text("x")
    return place


def test_leftovers_are_swept(base: Path) -> None:
    base.mkdir(mode=0o700)
    gone = leave(base)
    StateDir().remove()
    assert not gone.exists()


def test_what_is_not_a_box_is_left_alone(base: Path, victim: Path) -> None:
    base.mkdir(mode=0o700)
    other = base / "notes"
    other.mkdir()
    (base / "box-file").write_text("not a directory")
    (base / "box-1-01234567").symlink_to(victim)
    names = ("box-of-mine", "box-1-mine0123", "box-x-01234567", "box-1-0123456", "box-1-012345678")
    mine = [leave(base, name) for name in names]
    readable = leave(base, "box-2-01234567")
    readable.chmod(0o755)
    sweep(str(base))
    assert other.exists()
    assert (base / "box-file").exists()
    assert all(place.exists() for place in (*mine, readable))


def test_links_in_a_leftover_are_not_followed(base: Path, victim: Path) -> None:
    base.mkdir(mode=0o700)
    place = leave(base)
    (place / "files" / "link").symlink_to(victim)
    (place / "files" / "dangling").symlink_to("nowhere")
    os.mkfifo(place / "files" / "fifo")
    sweep(str(base))
    assert not place.exists()


def test_closed_directories_in_a_leftover(base: Path) -> None:
    """A placeholder may be 0444 or 0555; husk can remove it, since it made it."""
    base.mkdir(mode=0o700)
    place = leave(base)
    (place / "places" / "1").chmod(0o444)
    (place / "places").chmod(0o700)
    sweep(str(base))
    assert not place.exists()


# -- several at once: every pause between two steps of one husk is long enough for all steps of another ----------------

def test_a_leftover_that_another_husk_swept(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found, opened, and removed before it is locked: a removed directory can be locked, which means nothing."""
    base.mkdir(mode=0o700)
    place = leave(base)
    real = fcntl.flock

    def slow(fd: int, how: int) -> None:
        shutil.rmtree(place)
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    sweep(str(base))


def test_a_new_directory_is_not_taken_for_a_leftover(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another husk sweeps when it is made but not locked yet: starting must not fail."""
    real = os.mkdir

    def slow(path: str, mode: int = 0o777) -> None:
        real(path, mode)
        if os.path.basename(path).startswith("box-"):
            monkeypatch.setattr(os, "mkdir", real)
            sweep(str(base))

    base.mkdir(mode=0o700)
    monkeypatch.setattr(os, "mkdir", slow)
    state = StateDir()
    assert Path(state.path).is_dir()
    state.remove()


def test_a_new_directory_that_another_husk_locks(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another husk holds the lock for a moment to see whether the directory is a leftover: this must not fail."""
    base.mkdir(mode=0o700)
    real = os.mkdir
    theirs: list[int] = []

    def slow(path: str, mode: int = 0o777) -> None:
        real(path, mode)
        if os.path.basename(path).startswith("box-") and not theirs:
            theirs.append(os.open(path, os.O_RDONLY))
            fcntl.flock(theirs[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            threading.Timer(0.05, os.close, theirs).start()

    monkeypatch.setattr(os, "mkdir", slow)
    StateDir().remove()


def test_a_killed_husk_is_swept(base: Path) -> None:
    """The lock ends with the process, however it dies."""
    script = "from husk.sandbox.state_dir import StateDir; print(StateDir().path, flush=True); input()"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        state = StateDir()
        state.remove()
        assert path.exists(), "swept although its husk lives"
        process.send_signal(signal.SIGKILL)
        process.wait()
    StateDir().remove()
    assert not path.exists()


# -- places husk refuses -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702, 0o777, 0o1777])
def test_a_directory_others_can_write_to(base: Path, mode: int) -> None:
    base.mkdir()
    base.chmod(mode)
    with pytest.raises(HuskError, match="written by others") as refused:
        StateDir()
    assert "HUSK_STATE" in str(refused.value) and refused.value.exit_code == 125
    assert list(base.iterdir()) == []


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o750])
def test_a_directory_others_can_only_read(base: Path, mode: int) -> None:
    base.mkdir()
    base.chmod(mode)
    StateDir().remove()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user(base: Path) -> None:
    base.mkdir(mode=0o700)
    os.chown(base, 65534, 65534)
    with pytest.raises(HuskError):
        StateDir()


def test_a_file_in_the_way(base: Path) -> None:
    base.write_text("")
    with pytest.raises(HuskError) as refused:
        StateDir()
    assert str(base) in str(refused.value) and "Errno" not in str(refused.value)


def test_a_link_to_a_directory_others_can_write_to(base: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    base.symlink_to(tmp_path / "open")
    with pytest.raises(HuskError):
        StateDir()


def test_without_a_home_the_temporary_directory_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUSK_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    state = StateDir()
    assert Path(state.path).parent == tmp_path / f"husk-{os.geteuid()}"
    state.remove()


def test_a_temporary_directory_that_another_user_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /tmp every user can make husk-0 first."""
    monkeypatch.delenv("HUSK_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / f"husk-{os.geteuid()}").mkdir()
    (tmp_path / f"husk-{os.geteuid()}").chmod(0o777)
    with pytest.raises(HuskError, match="written by others"):
        StateDir()


def test_a_link_in_the_temporary_directory_is_not_followed(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leads to a directory of the user's own, in which husk would sweep."""
    monkeypatch.delenv("HUSK_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    victim.chmod(0o700)
    left = leave(victim)
    (tmp_path / f"husk-{os.geteuid()}").symlink_to(victim)
    with pytest.raises(HuskError, match="is a link"):
        StateDir()
    assert left.exists()


def test_state_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUSK_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    state = StateDir()
    assert Path(state.path).parent == tmp_path / "xdg" / "husk"
    state.remove()

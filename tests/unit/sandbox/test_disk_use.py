"""How much disk the files of a box take, in all places where husk keeps them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.sandbox.limits.disk_use import largest, used_bytes

MIB = 1 << 20
NOBODY = 65534


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    for name in ("files", "mirror", "mirror/1", "mirror/1/below"):
        (tmp_path / name).mkdir()
    yield tmp_path


def test_files_count_wherever_they_are(state: Path) -> None:
    (state / "files" / "1").write_bytes(bytes(MIB))
    (state / "mirror" / "1" / "a").write_bytes(bytes(MIB))
    (state / "mirror" / "1" / "below" / "b").write_bytes(bytes(2 * MIB))
    (state / "mirror" / "1" / "link").symlink_to("/")
    os.link(state / "mirror" / "1" / "a", state / "files" / "2")
    assert used_bytes(os.fsencode(state)) == 4 * MIB, "a file with two names counts once"
    assert largest(os.fsencode(state)) == 2 * MIB
    assert used_bytes(os.fsencode(state / "files")) == 0, "no such directories: nothing is kept"


def test_however_deep(state: Path) -> None:
    """Deeper than a path, a recursion or a descriptor table allows."""
    here = os.open(state / "mirror", os.O_RDONLY)
    top = os.dup(here)
    for _ in range(3000):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    fd = os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(fd, bytes(MIB))
    os.close(fd)
    os.close(here)
    assert used_bytes(os.fsencode(state)) == MIB
    subprocess.run(["rm", "-rf", f"/proc/self/fd/{top}/{'d' * 200}"], check=True, pass_fds=[top])
    os.close(top)


def test_a_directory_closed_to_its_owner(state: Path) -> None:
    """husk run by an ordinary user may not search the directory either, and must still count it."""
    closed = state / "mirror" / "1"
    (closed / "a").write_bytes(bytes(MIB))
    closed.chmod(0o644)
    if os.getuid() == 0:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(state)], check=True)
    at = os.open(state, os.O_PATH)  # only root may be able to enter the directories above
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            os.fchdir(at)
            os._exit(0 if used_bytes(b".") == MIB else 1)
        finally:
            os._exit(2)
    os.close(at)
    assert os.waitpid(child, 0)[1] == 0
    assert closed.stat().st_mode & 0o777 == 0o644

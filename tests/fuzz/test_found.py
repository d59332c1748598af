"""What the fuzzers found, one test each, named by what went wrong. They stay for ever."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from husk.native import _core
from tests.unit.kernel.conftest import prepare
from tests.unit.kernel.fakes import Guest


@pytest.mark.parametrize("seconds", [9_223_372_037, 13_569_465_600, -9_223_372_037])
def test_a_time_beyond_64_bits_of_nanoseconds(tmp_path: Path, seconds: int) -> None:
    """Signed overflow in C: a file dated after 2262 showed a time before 1970."""
    path = tmp_path / "far"
    path.touch()
    os.utime(path, (seconds, seconds))
    expected = os.stat(path)  # a file system may hold less; then it says the same to both
    with path.open("rb") as file:
        shown = _core.stat_fd(file.fileno())
    assert shown[10:12] == (expected.st_atime_ns, expected.st_mtime_ns)


def test_a_host_that_fails_while_a_name_is_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guest has its answer by then. husk reported an error of its own, and a call that failed."""
    for name in ("lower", "state"):
        (tmp_path / name).mkdir()
    prepare(tmp_path / "lower")
    guest = Guest(os.fsencode(tmp_path / "state"), os.fsencode(tmp_path / "lower"))
    asked = []

    def fails(*what: object) -> NoReturn:
        asked.append(what)
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(guest.kernel.names, "_learn", fails)
    for path, kind in ((b"/file", "value"), (b"/missing", "error")):
        found, value = guest.answer(guest.make("stat", guest.text(path), guest.memory.put(bytes(144))))
        assert (found, value) == (kind, 0 if kind == "value" else errno.ENOENT)
    assert len(asked) == 2 and not guest.events.faults
    guest.close()

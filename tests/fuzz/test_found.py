"""What the fuzzers found, one test each, named by what went wrong. They stay for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.native import _core


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

"""The output of a box in the background, in files of bounded size."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from husk.sandbox.kept import output_log
from husk.sandbox.kept.output_log import NAME, OLDER, OutputLog


def test_a_file_that_cannot_be_made_costs_no_other_its_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest can fill the disk. The full file was closed by then, and what came was written to its number."""
    monkeypatch.setattr(output_log, "MOST", 10)
    monkeypatch.setattr(output_log, "CHUNK", 8)
    log = OutputLog()
    os.write(log.guest, b"".join(b"%d" % number * 8 for number in range(8)))
    os.close(log.guest)
    log.guest, log._path = -1, str(tmp_path / NAME)
    victims: list[int] = []
    plain = os.open

    def full_once(path: str, flags: int, mode: int = 0o777) -> int:
        if not victims:  # another thread gets the lowest number that is free
            victims.append(plain(tmp_path / "victim", os.O_RDWR | os.O_CREAT))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return plain(path, flags, mode)

    first = os.open(log._path, os.O_WRONLY | os.O_CREAT)
    monkeypatch.setattr(os, "open", full_once)
    log._done.acquire()
    log._copy(first)
    log.finish()
    assert log.failure == os.strerror(errno.ENOSPC)
    assert os.fstat(victims[0]).st_size == 0  # it is open, and nothing was written to it
    os.close(victims[0])
    kept = [(tmp_path / name).read_bytes() for name in (OLDER, NAME)]
    assert b"".join(kept).endswith(b"6" * 8 + b"7" * 8)

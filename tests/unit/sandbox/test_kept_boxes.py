"""Kept boxes on a host that fails: a file that cannot be seen is not missing, and nothing of the box is removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.record import Record
from husk.sandbox.state_dir import sweep

NUMBERS = [errno.EIO, errno.ENOMEM, errno.EACCES]


@pytest.fixture
def kept(tmp_path: Path) -> KeptBoxes:
    kept = KeptBoxes(str(tmp_path))
    fd = kept.claim("box")
    kept.write(Record("box"), durable=False)
    os.close(fd)
    return kept


def failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Every stat of a file with this name fails."""
    for function in ("stat", "lstat"):

        def look(path: object, *words: object, real: object = getattr(os, function), **named: object) -> object:
            if isinstance(path, str) and os.path.basename(path) == name:
                raise OSError(number, os.strerror(number), path)
            return real(path, *words, **named)  # type: ignore[operator]

        monkeypatch.setattr(os, function, look)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_record_that_cannot_be_seen(kept: KeptBoxes, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    with monkeypatch.context() as patch:
        failing(patch, "record", number)
        assert kept.collect() == 0
        kept.give_up("box")
    assert kept.get("box").name == "box"


@pytest.mark.parametrize("number", NUMBERS)
def test_an_apply_that_cannot_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """It says how to recover a host directory."""
    left = tmp_path / "box-1-00000000"
    left.mkdir()
    (left / "apply").write_text("{}")
    with monkeypatch.context() as patch:
        failing(patch, "apply", number)
        sweep(str(tmp_path))
    assert (left / "apply").exists()


def test_a_box_without_a_record_goes(kept: KeptBoxes) -> None:
    os.close(kept.claim("half"))
    assert kept.collect() == 1
    assert kept.names() == ["box"]


def test_a_record_is_written_whole(kept: KeptBoxes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nearly full disk takes only a part of a write."""
    record = Record("box")
    record.argv = ["x" * 100] * 100
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:1000]))
    kept.write(record, durable=True)
    assert kept.get("box").argv == record.argv

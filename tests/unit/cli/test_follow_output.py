"""`husk attach` and `husk logs --follow` read a file that grows, is set aside, and goes with its box."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from husk.cli.background import cmd_background
from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.output_log import NAME, OLDER


class Box:
    """Something happens to it each time one asks whether it runs; then it has ended."""

    def __init__(self, place: Path, *happens: Callable[[], object]) -> None:
        self._place, self._happens = place, list(happens)

    def path(self, _: str) -> str:
        return str(self._place)

    def is_running(self, _: str) -> bool:
        if self._happens:
            self._happens.pop(0)()
        return bool(self._happens)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cmd_background, "PAUSE", 0)
    folder = tmp_path / "box"
    folder.mkdir()
    (folder / NAME).write_text("before\n")
    return folder


def follow(box: Box, position: int | None = None) -> None:
    cmd_background._follow(cast(KeptBoxes, box), "box", position)


def test_a_file_that_is_set_aside(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def aside() -> None:
        with open(place / NAME, "a") as file:
            file.write("last\n")
        (place / NAME).rename(place / OLDER)
        (place / NAME).write_text("first\n")

    follow(Box(place, aside, lambda: None))
    assert capfd.readouterr().out == "last\nfirst\n"


def test_from_where_the_output_was_read_to(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    follow(Box(place), len("bef"))
    assert capfd.readouterr().out == "ore\n"


def test_a_box_that_goes_with_its_files(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    follow(Box(place, lambda: shutil.rmtree(place)))
    follow(Box(place))  # it went before one could look
    assert capfd.readouterr() == ("", "")

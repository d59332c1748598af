"""Which names of programs are given to the loader in a box's root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.kernel.exec.program_names import ProgramNames


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "husk-loader").write_text("the loader")
    return tmp_path


@pytest.fixture
def names(root: Path) -> Iterator[ProgramNames]:
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        yield ProgramNames(fd, os.geteuid(), os.getegid(), b"/var/state/box")
    finally:
        os.close(fd)


def test_each_name_is_the_loader(root: Path, names: ProgramNames) -> None:
    for name in (b"/usr/bin/env", b"/usr/bin/python3.11", b"/program", b"/usr/bin/env", b"/var/state/boxes"):
        assert names.give(name)
        assert os.path.samefile(os.fsencode(root) + name, root / "husk-loader")


@pytest.mark.parametrize(
    "name",
    [
        b"usr/bin/env",
        b"/usr//bin/env",
        b"/usr/./env",
        b"/usr/../env",
        b"/usr/bin/",
        b"/",
        b"",
        b"/dev/fd/3",
        b"/var/state/box/places/1",
        b"/var/state/box",
        b"/" + b"x" * 255,
    ],
)
def test_names_that_the_host_might_read_otherwise(root: Path, names: ProgramNames, name: bytes) -> None:
    assert not names.give(name)
    assert sorted(os.listdir(root)) == ["husk-loader"]


def test_a_program_where_another_has_a_directory(names: ProgramNames) -> None:
    assert names.give(b"/opt/tool")
    assert not names.give(b"/opt/tool/bin")
    assert not names.give(b"/opt")


def test_links_are_not_followed(root: Path, names: ProgramNames) -> None:
    (root / "away").symlink_to("/tmp")
    assert not names.give(b"/away/program")
    assert not names.give(b"/away")


def test_no_room(root: Path, names: ProgramNames) -> None:
    (root / "husk-loader").unlink()
    assert not names.give(b"/usr/bin/env")

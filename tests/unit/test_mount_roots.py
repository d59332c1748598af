"""What is asked about the roots of mounts in one go is what single questions would say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.native._core import mount_id, names_present, upward
from husk.native.real_paths import real_path

ONLY_NAMED = os.O_PATH | os.O_DIRECTORY


def test_upward(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path in (tmp_path / "a" / "b", Path("/proc/self"), Path("/")):
        real = path.resolve()
        fd = os.open(real, ONLY_NAMED)
        assert upward(fd) == [(found.st_dev, found.st_ino) for found in map(os.stat, (real, *real.parents))]
        os.close(fd)


def test_upward_says_when_it_cannot() -> None:
    with pytest.raises(OSError):
        upward(-1)


def test_the_mount_is_the_one_in_fdinfo() -> None:
    for path in ("/", "/proc", "/dev"):
        fd = os.open(path, ONLY_NAMED)
        (line,) = [line for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines() if "mnt_id" in line]
        assert mount_id(fd) == int(line.split()[1])
        os.close(fd)
    assert mount_id(-1) == -1


def test_names_present(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "out").symlink_to("dir")
    root = os.open(tmp_path, ONLY_NAMED)
    try:
        asked = [b"none", b"dir", b"dir/file", b"dir/none", b"dir/file/below", b"link", b"x" * 300, b"out/file"]
        # What is too long, or leads through a link, cannot be asked for: the caller finds out.
        assert names_present(root, asked) == [b"dir", b"dir/file", b"link", b"x" * 300, b"out/file"]
        assert names_present(root, []) == []
        with pytest.raises(TypeError):
            names_present(root, ["text"])  # type: ignore[list-item]
    finally:
        os.close(root)


def test_real_paths_are_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("dir/in")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "broken").symlink_to("dir/none/deeper")
    (tmp_path / "dir" / "\udcff").touch()
    for name in ("", ".", "..", "dir", "link", "link/..", "dir/../link/", "loop", "loop/x", "broken", "none/../dir",
                 "dir/\udcff", "x" * 300, "dir/" * 1500, "/", "//", "///", "//tmp", "/usr/../bin", "~"):  # fmt: skip
        for path in (name, f"{tmp_path}/{name}"):
            assert real_path(path) == os.path.realpath(path), path
            assert real_path(os.fsencode(path)) == os.fsencode(os.path.realpath(path)), path
    with pytest.raises(ValueError):
        real_path("a\0b")

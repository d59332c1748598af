"""Which boxes may show the host's /usr to their guests, who then look names up there themselves."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from husk.walls.gates import PLACES, may_show_usr


@pytest.fixture(autouse=True)
def ordinary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*PLACES, "HUSK_GATE", "HUSK_DIRECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_without_mounts_and_with_one_elsewhere(tmp_path: Path) -> None:
    assert may_show_usr([], "")
    assert may_show_usr([(str(tmp_path), "/workspace"), ("", "/data")], str(tmp_path / "store"))


@pytest.mark.parametrize(
    ("source", "target"),
    [("/tmp", "/usr/local/share"), ("/tmp", "/usr"), ("/usr/share", "/data"), ("/usr", "/data"), ("/", "/host"),
     ("", "/usr/share/image"), ("/tmp", "/etc"), ("/tmp", "/etc/ld.so.cache"), ("/etc", "/data"),
     ("/etc/ld.so.cache", "/data")],
)  # fmt: skip
def test_a_mount_that_covers_or_shows_a_part_of_it(source: str, target: str) -> None:
    """What a mount of /usr/share shows, another one may cover: /usr would show it all the same. The cache of the
    dynamic loader is shown, too."""
    assert not may_show_usr([(source, target)], "")


def test_a_mount_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr/share")
    assert not may_show_usr([(str(tmp_path / "link"), "/data")], "")


@pytest.mark.parametrize("name", [*PLACES, "HOME"])
def test_husk_keeps_something_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/usr/share/husk")
    assert not may_show_usr([], "")


def test_a_store_there() -> None:
    assert not may_show_usr([], "/usr/share/store")


@pytest.mark.parametrize("name", ["HUSK_GATE", "HUSK_DIRECT"])
def test_switched_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "0")
    assert not may_show_usr([], "")


def test_a_mount_of_what_the_host_shows_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is a part of /usr by another name, and one whose name has a space."""
    lines = ["8:1 / /", "8:1 /usr/share/doc /srv/a\\040b", "8:2 /usr /mnt"]
    table = "".join(f"2 1 {line} rw - ext4 device rw\n" for line in lines).encode()
    monkeypatch.setattr("builtins.open", lambda *_: io.BytesIO(table))
    assert not may_show_usr([("/srv/a b/c", "/data")], "")
    assert may_show_usr([("/mnt/share", "/data")], "")
    assert may_show_usr([("/srv/other", "/data")], "")

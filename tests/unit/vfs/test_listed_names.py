"""What C does for a listing: the names of a host directory, and the records of getdents64."""

from __future__ import annotations

import os
import socket
import stat as st
from pathlib import Path

import pytest

from husk.abi.structs import pack_dirent64
from husk.native._core import list_names, pack_entries
from husk.vfs.node import Entry


def test_names_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
    for name in (b"\xff\x01", b"...", b".hidden", b"n" * 255, *(b"%d" % number for number in range(3000))):
        os.close(os.open(os.fsencode(tmp_path) + b"/" + name, os.O_CREAT))
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        found = list_names(fd)
        assert list_names(fd) == [], "it was read to its end"
    finally:
        os.close(fd)
    want = {}
    for name in os.listdir(os.fsencode(tmp_path)):
        info = os.lstat(os.fsencode(tmp_path) + b"/" + name)
        want[name] = info.st_ino, st.S_IFMT(info.st_mode)
    assert {name: (ino, kind) for name, ino, kind in found} == want and len(found) == len(want)


def test_what_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        with pytest.raises(NotADirectoryError):
            list_names(fd)
    finally:
        os.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        list_names(fd)


def test_records() -> None:
    entries = [
        Entry(b"x" * size, ino, kind, cookie)
        for size, ino, kind, cookie in (
            (1, 1, st.S_IFREG, 3), (2, 2**64 - 1, st.S_IFDIR, 4), (4, 7, st.S_IFLNK, 2**40), (5, 8, st.S_IFIFO, 6),
            (12, 9, st.S_IFSOCK, 7), (13, 9, 0, 8), (255, 10, st.S_IFCHR, 2**63 - 1),
        )
    ]  # fmt: skip
    assert pack_entries(entries) == [pack_dirent64(each.ino, each.cookie, each.kind, each.name) for each in entries]
    assert pack_entries([]) == []
    with pytest.raises(ValueError, match="too long"):
        pack_entries([Entry(b"x" * 65536, 1, st.S_IFREG, 3)])
    with pytest.raises(AttributeError):
        pack_entries([b"no entry"])

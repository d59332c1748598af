"""Nothing a guest does changes a blob of the store: bytes, mode, owner, times, flags, attributes.

And a guest sees the attributes of the file, not those of the blob, which other files of equal content share.
"""

from __future__ import annotations

import array
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import husk as husk_api
from husk.store.ingest import ingest
from husk.store.store import Store
from husk.store.verify import verify
from tests.escape.build import compile_program
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import Result, husk, scratch, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

GETFLAGS = 0x80086601  # FS_IOC_GETFLAGS
CONTENT = b"a blob, and so it stays\n" * 1000
OLD = 1_234_567_890


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with scratch() as place:
        root = place / "root"
        root.mkdir()
        compile_program(Path(__file__).with_name("blob_attack.c"), root)
        for number, name in enumerate(("first", "second", "third", "other")):
            (root / name).write_bytes(CONTENT + b"%d" % number)
            (root / name).chmod(0o666)
        for name in ("same1", "same2"):
            (root / name).write_bytes(CONTENT)
        os.link(root / "same2", root / "same3")
        os.chmod(root / "same1", 0o640)
        for name in os.listdir(root):
            os.utime(root / name, (OLD, OLD))
        made = Store.create(str(place / "store"))
        ingest(made, str(root), "attacked")
        yield made


def condition(store: Store) -> dict[str, tuple[object, ...]]:
    """All a guest could have changed, except the change time: the links a box makes and removes change it."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(Path(store.place, "blake3").rglob("*")):
        if path.is_file():
            now = path.stat()
            found[path.name] = (path.read_bytes(), now.st_mode, now.st_uid, now.st_gid, now.st_mtime_ns, now.st_nlink,
                                now.st_ino, os.listxattr(path), _flags(path))  # fmt: skip
    return found


def _flags(path: Path) -> int:
    with path.open("rb") as file:
        flags = array.array("l", [0])
        try:
            fcntl.ioctl(file, GETFLAGS, flags)
        except OSError:
            return -1  # a file system without any
        return flags[0] & ~0x80000  # EXTENTS: set by the file system, not by a guest


def attacked(store: Store, *words: str) -> Result:
    result = husk(["run", "--image", "attacked", "--store", store.place, "--", "/blob_attack", *words])
    assert result.status == 0 and result.err == "", result
    return result


# Linux refuses these too: the descriptor is for reading.
NEVER = {
    "write": "EBADF", "pwrite": "EBADF", "ftruncate": "EINVAL", "fallocate": "EBADF", "punch": "EBADF",
    "copy_file_range": "EBADF", "sendfile": "EBADF", "splice": "EBADF", "splice at": "EBADF", "shared map": "EACCES",
    "made writable": "EACCES", "write after it": "EBADF", "written by process_vm_writev": "EFAULT",
    "read from a pipe into it": "EFAULT",
}  # fmt: skip
NEVER_DONE = ("clone range", "set flags", "set immutable", "set extended flags", "enable verity",
              "written by /proc/self/mem", "removed", "seals")  # fmt: skip


def test_no_blob_changes(store: Store) -> None:
    before = condition(store)
    result = attacked(store)
    assert condition(store) == before
    assert verify(store, 1).clean
    said = re.findall(r"^(.+) = (\w+)$", result.out, re.MULTILINE)
    for what, came in said:
        assert came == NEVER.get(what, came), what
        assert what not in NEVER_DONE or came != "done", what
    assert {*NEVER, *NEVER_DONE} <= {what for what, _ in said}
    # The program did try: by name, the image's owner may change everything, on a copy.
    assert {"opened again to write", "and written", "opened to write", "truncate", "link", "written by the link"} <= {
        what for what, came in said if came == "done"
    }


def test_a_second_box_sees_the_image_as_it_was(store: Store) -> None:
    attacked(store)
    lines = attacked(store, "show", "/first", "/second", "/third").out.splitlines()
    for number, name in enumerate(("first", "second", "third")):
        size = len(CONTENT) + 1
        pattern = rf"/{name} ino=(\d+)/\1 dev=1 nlink=1/1 mode=100666/100666 uid=(\d+)/\2 "
        assert re.fullmatch(pattern + rf"mtime={OLD}/{OLD} size={size}/{size}", lines[number]), lines[number]


def test_what_equal_files_share(store: Store) -> None:
    out = attacked(store, "show", "/same1", "/same2", "/same3").out
    numbers = re.findall(r"ino=(\d+)/(\d+) dev=1 nlink=(\d)/(\d) mode=(\d+)/(\d+)", out)
    first, second, third = numbers
    assert first[0] == first[1] != second[0] == second[1] == third[0] == third[1]
    assert first[2:] == ("1", "1", "100640", "100640")
    assert second[2:] == third[2:] == ("2", "2", "100644", "100644")
    # docs/images.md: the blob they share is not what is locked.
    assert "lock of one = done\nlock of another = done\nlock of one with equal content = done\n" in out
    assert "lock of one again = EAGAIN\nlock by its other name = EAGAIN\n" in out


def test_root_inside_has_no_capability(store: Store) -> None:
    """It is told those that husk honours for the box's own files (docs/images.md); the host gives it none."""
    out = attacked(store, "show").out
    shown = r"uid=\d+ caps=0000" if setting() == "bare" or os.geteuid() else "uid=0 caps=400ff0400ff0"
    assert re.search(rf"^{shown}$", out, re.MULTILINE), out
    with husk_api.Sandbox("attacked", store=store.place, namespaces=setting() == "walled") as box:
        process = box.popen(["/blob_attack", "wait"], stdin=husk_api.PIPE, stdout=husk_api.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        held = re.findall(r"^Cap\w+:\t(\w+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
        process.communicate()
    assert len(held) == 5 and {int(one, 16) for one in held[:3] + held[4:]} == {0}, "all but the bounding set"

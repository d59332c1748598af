"""What programs rely on without thinking: identity, mappings, holes, open files without names. As natively, everywhere.

Where a copy-on-write mount differs (as overlayfs does), the test says what it shows instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.model.sides import Sides
from tests.unit.vfs.worlds import Step

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.needs("python3"),
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]
RW, MAKE = os.O_RDWR, os.O_RDWR | os.O_CREAT

SCRIPTS: dict[str, list[Step]] = {
    "a number is a file's for life": [
        ("note", 1, b"file"), ("note", 2, b"deep"), ("note", 3, b"to_file"), ("note", 4, b"twin1"),
        ("note", 5, b"fifo"),
        ("open", 0, b"file", 0), ("chmod", b"file", 0o600), ("noted", 1, b"file"), ("open", 1, b"file", RW),
        ("noted", 1, b"file"), ("fnoted", 1, 0), ("fnoted", 1, 1), ("rename", b"file", b"deep/moved", 0),
        ("noted", 1, b"deep/moved"), ("fnoted", 1, 0), ("link", b"deep/moved", b"again"), ("noted", 1, b"again"),
        ("unlink", b"deep/moved"), ("fnoted", 1, 1), ("rename", b"deep", b"shallow", 0), ("noted", 2, b"shallow"),
        ("rename", b"shallow", b"empty", 0), ("noted", 2, b"empty"), ("rename", b"to_file", b"l", 0),
        ("noted", 3, b"l"),
        ("open", 2, b"twin1", RW), ("noted", 4, b"empty/twin2"), ("noted", 4, b"twin1"), ("unlink", b"again"),
        ("fnoted", 1, 1), ("rename", b"fifo", b"pipe", 0), ("noted", 5, b"pipe"), ("rename", b"pipe", b"l", 2),
        ("noted", 5, b"l"), ("noted", 3, b"pipe"), ("truncate", b"long", 5), ("setxattr", b"none", b"user.a", b"b", 0),
    ],
    "every kind of mapping": [
        ("open", 0, b"long", RW), ("map", 0, b"shared write", True), ("pread", 0, 20, 0), ("map", 0, b"private", False),
        ("pread", 0, 20, 0), ("hold", 0, 4096), ("write", 0, b"WRITTEN"), ("peek", 0), ("close", 0), ("peek", 0),
        ("open", 1, b"long", RW), ("write", 1, b"again"), ("peek", 0), ("unlink", b"long"), ("peek", 0),
        ("open", 2, b"a", MAKE, 0o644), ("ftruncate", 2, 10000), ("hold", 2, 10000), ("write", 2, b"via write"),
        ("peek", 2), ("rename", b"a", b"b", 0), ("peek", 2), ("map", 2, b"via map", True), ("read", 2),
        ("open", 3, b".", RW | os.O_TMPFILE, 0o600), ("ftruncate", 3, 100), ("map", 3, b"nameless", True),
        ("pread", 3, 20, 0), ("linkproc", 3, b"named"), ("open", 4, b"named", 0), ("pread", 4, 20, 0),
        ("open", 4, b"deep/inner", 0), ("map", 4, b"x", True), ("map", 4, b"x", False), ("hold", 4, 6), ("peek", 4),
    ],
    "holes": [
        ("data", b"holes"), ("open", 0, b"holes", RW), ("data", b"holes"), ("write", 0, b"start"), ("data", b"holes"),
        ("punch", 0, 1 << 20, 4096), ("data", b"holes"), ("open", 1, b"a", MAKE, 0o644), ("ftruncate", 1, 1 << 20),
        ("data", b"a"), ("copy", 0, 1, 5), ("rename", b"a", b"b", 0), ("data", b"b"), ("ftruncate", 0, 100),
        ("data", b"holes"),
    ],
    "open files without names": [
        ("open", 0, b"file", 0), ("open", 1, b"file", RW), ("unlink", b"file"), ("fstat", 1), ("write", 1, b"still"),
        ("pread", 1, 10, 0), ("fchmod", 1, 0o600), ("futime", 1, 1, 2), ("fstat", 1), ("fsetxattr", 1, b"user.a", b"b"),
        ("fgetxattr", 1, b"user.a"), ("ftruncate", 1, 3), ("fstat", 1), ("reopen", 2, 1, RW), ("pread", 2, 10, 0),
        ("linkfd", 1, b"back"), ("linkproc", 1, b"back"), ("open", 1, b"file", MAKE | os.O_EXCL, 0o644), ("fstat", 1),
        ("open", 3, b"deep/er", 0), ("rename", b"deep/er/most", b"most", 0), ("rmdir", b"deep/er"), ("fstat", 3),
        ("openat", 4, 3, b"x", MAKE, 0o644), ("fchdir", 3), ("getcwd",), ("list", b"."), ("stat", b"..", True),
        ("mkdir", b"x", 0o755), ("stat", b"../inner", True), ("chdir", b".."), ("getcwd",), ("open", 4, b"inner", 0),
        ("unlink", b"inner"), ("fstat", 4), ("pread", 4, 10, 0), ("reopen", 2, 4, RW), ("write", 2, b"x"), ("fstat", 2),
    ],
    "a reader that came before the first writer": [
        ("open", 0, b"file", 0), ("hold", 0, 18), ("open", 1, b"file", RW), ("write", 1, b"CHANGED"), ("fstat", 0),
        ("open", 2, b"file", 0), ("pread", 2, 10, 0), ("rename", b"file", b"f", 0), ("fdname", 0), ("reopen", 3, 0, 0),
        ("pread", 3, 10, 0), ("fchmod", 0, 0o640), ("fstat", 1), ("stat", b"f", True),
    ],
}  # fmt: skip


@pytest.fixture
def sides() -> Iterator[Sides]:
    made = Sides(len(SCRIPTS))
    try:
        yield made
    finally:
        made.close()


def test_as_natively(sides: Sides) -> None:
    for name, steps in SCRIPTS.items():
        try:
            sides.run(steps)
        except AssertionError as failure:
            raise AssertionError(name) from failure


def test_what_an_early_reader_sees(sides: Sides) -> None:
    """The descriptor and the mapping show the old content; the name shows the new."""
    cow = sides.agents["cow"]
    opened = cow.do(("begin", b"e0", False), ("open", 0, b"file", 0), ("hold", 0, 18), ("open", 1, b"holes", 0))
    changed = cow.do(
        ("open", 2, b"file", RW | os.O_TRUNC), ("write", 2, b"short"), ("truncate", b"holes", 3), ("unlink", b"file")
    )
    assert {*opened, *changed} == {"ok", "5"}
    # The agent itself leaves out steps that differ from Linux, unless the test says otherwise.
    seen = cow.do(("forget_stale",), ("pread", 0, 7, 0), ("peek", 0), ("pread", 1, 4, 1 << 20), ("pread", 2, 9, 0))
    assert seen == ["ok", repr(b"content"), repr(b"content of a file\n"), repr(b"data"), repr(b"short")]

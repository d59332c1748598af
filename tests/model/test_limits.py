"""Names at and beyond what Linux takes, chains of links, and very large directories: the same answers as natively."""

from __future__ import annotations

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


@pytest.fixture
def sides() -> Iterator[Sides]:
    made = Sides(1)
    try:
        yield made
    finally:
        made.close()


def everything(path: bytes, free: bytes) -> list[Step]:
    """Every call that takes a name, with `path` for one that exists and `free` for a new one."""
    return [
        ("stat", path, True), ("stat", path, False), ("statx", path, 0), ("access", path, 4), ("readlink", path),
        ("open", 0, path, 0), ("open", 0, path, 0o10000000), ("open", 0, free, 0o102, 0o644), ("unlink", free),
        ("open2", 0, b".", path, 0, 0), ("mkdir", free, 0o755), ("rmdir", free), ("rmdir", path), ("chdir", path),
        ("rename", path, b"new", 0), ("rename", b"new", path, 0), ("rename", free, path, 1), ("link", path, free),
        ("unlink", free), ("link", free, path), ("symlink", path, b"short"), ("readlink", b"short"),
        ("stat", b"short", True), ("unlink", b"short"), ("symlink", b"x", free), ("unlink", free),
        ("chmod", path, 0o600), ("utime", path, 1, 2), ("lutime", path, 1, 2), ("truncate", path, 3),
        ("mknod", free, 0o10644), ("unlink", free), ("setxattr", path, b"user.a", b"v"), ("getxattr", path, b"user.a"),
        ("listxattr", path), ("removexattr", path, b"user.a"), ("chown", path, -1, -1), ("list", path),
    ]  # fmt: skip


def of_length(length: int, name: bytes) -> bytes:
    """A path of exactly that many bytes to `name` in the working directory."""
    rest = length - len(name)
    return b"./" * (rest // 2) + b"/" * (rest % 2) + name


def test_long_names(sides: Sides) -> None:
    steps: list[Step] = []
    for length in (4094, 4095, 4096, 4097, 10_000):
        steps += everything(of_length(length, b"file"), of_length(length, b"fresh"))
    for length in (254, 255, 256, 4000):
        steps += [("open", 1, b"c" * length, 0o102, 0o644), *everything(b"c" * length, b"d" * length)]
        steps += everything(b"nothing/" + b"c" * length, b"file/" + b"d" * length)
    sides.run(steps)


def test_chains_of_links(sides: Sides) -> None:
    steps: list[Step] = [("symlink", b"file", b"l1"), ("symlink", b"deep", b"d1"), ("symlink", b"absent", b"n1")]
    for number in range(2, 45):
        for letter in (b"l", b"d", b"n"):
            steps.append(("symlink", b"%s%d" % (letter, number - 1), b"%s%d" % (letter, number)))
    for number in (39, 40, 41, 44):
        steps += everything(b"l%d" % number, b"n%d" % number)
        for name in (b"d%d/inner", b"d%d/up/file", b"d%d/", b"d20/up/d%d", b"d%d/../l1"):
            steps += [("stat", name % number, True), ("open", 0, name % number, 0), ("list", name % number)]
    sides.run(steps)


@pytest.mark.parametrize(
    "count", [pytest.param(5_000), pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(3000)])]
)
def test_a_large_directory(sides: Sides, count: int) -> None:
    sides.run([
        ("fill", b"empty", count), ("list", b"empty"), ("unlink", b"empty/%03d" % (count // 2)), ("list", b"empty"),
        ("rename", b"empty/000", b"empty/first", 0), ("rename", b"empty", b"full", 0), ("stat", b"full", True),
        ("list", b"full"), ("rmdir", b"full"), ("thin", b"full"), ("list", b"full"), ("rmdir", b"full"),
    ])  # fmt: skip

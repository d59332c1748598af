"""The model of husk's file system is Linux's: random sequences of operations have the same results, step by step.

Failing sequences are written down in `found/`, one step per line, and run again every time. HUSK_MODEL_EXAMPLES makes
the search longer and truly random.
"""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from tests.lib.harness import NATIVE_ONLY
from tests.model.sides import EXT4, Sides
from tests.unit.vfs.worlds import Step

FOUND = Path(__file__).parent / "found"
EXAMPLES = int(os.environ.get("HUSK_MODEL_EXAMPLES", "0"))
POOL = 40


def _file_system() -> int:
    import ctypes
    import tempfile

    buffer = ctypes.create_string_buffer(256)
    ctypes.CDLL(None).statfs(os.fsencode(tempfile.gettempdir()), buffer)
    return int.from_bytes(buffer.raw[:8], "little")


pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.needs("python3"),
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.skipif(_file_system() != EXT4, reason="the directory for temporary files is not on ext4, the model"),
]

OLD = b"""file long none holes deep deep/inner deep/er deep/er/most deep/up deep/back deep/twin2 twin1 empty wide
wide/far to_file to_dir dangling loop fifo""".split()
NEW = [b"a", b"b", b"deep/a", b"empty/a", b"a/b", b"wide/\xff\xfe", b"to_dir/inner", b"deep/up/file", b"n" * 255]
MODES = [0o644, 0o600, 0o755, 0o777, 0o444, 0o000, 0o1777]
ACCESS = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR]
OPENS = [
    *ACCESS, *ACCESS, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_WRONLY | os.O_TRUNC,
    os.O_RDWR | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT | os.O_APPEND,
    os.O_RDONLY | os.O_DIRECTORY, os.O_RDONLY | os.O_DIRECTORY, os.O_PATH, os.O_PATH | os.O_NOFOLLOW,
    os.O_PATH | os.O_DIRECTORY, os.O_RDONLY | os.O_NOFOLLOW, os.O_RDONLY | os.O_TRUNC, os.O_CREAT | os.O_RDONLY,
    os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, os.O_RDWR | os.O_TMPFILE, os.O_WRONLY | os.O_TMPFILE | os.O_EXCL,
]

plain = st.sampled_from(OLD + NEW + NEW)
odd = st.builds(
    lambda before, name, after: before + name + after,
    st.sampled_from([b"", b"", b"../", b"./", b"/", b"deep/", b"a/", b"to_file/", b"nothing/"]),
    plain,
    st.sampled_from([b"", b"", b"/", b"/.", b"/..", b"/x", b"n" * 254]),
)
paths = st.one_of(plain, plain, odd)
folders = st.sampled_from([b".", b"deep", b"deep/er", b"empty", b"wide", b"a", b"b", b"to_dir", b".."])
names = st.sampled_from([b"a", b"b", b"er", b"inner", b"file", b"deep", b"most", b"x", b"."])
slots = st.integers(0, 4)
modes = st.sampled_from(MODES)
# The tree has FIFOs.
opens = st.sampled_from(OPENS).map(lambda flags: flags | os.O_NONBLOCK)
held = st.sampled_from([*ACCESS, os.O_PATH]).map(lambda flags: flags | os.O_NONBLOCK)
data = st.sampled_from([b"w", b"words of more length", b"0123456789" * 900])
sizes = st.sampled_from([0, 1, 5, 100, 4096, 5000, 20000])
moments = st.sampled_from([0, 10**9, 999_999_999, 123_456_789_012_345_678])
attributes = st.sampled_from([b"user.one", b"user.two", b"user.", b"trusted.x", b"nothing"])
masks = st.sampled_from([0, 0o22, 0o77])
values = st.sampled_from([b"", b"v", b"value" * 30])


def one(operation: str, *arguments: st.SearchStrategy[object]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(operation), *arguments)


any_flag = st.sampled_from([0, 0, 0, 1, 2])
CHANGES = st.one_of(
    one("mkdir", paths, modes), one("rmdir", paths), one("unlink", paths), one("unlink", plain),
    one("symlink", st.sampled_from([b"file", b"../a", b"deep", b"a", b"deep/er/most", b"t" * 200]), paths),
    one("link", paths, paths, st.booleans()), one("link", plain, plain, st.just(False)),
    one("rename", paths, paths, any_flag), one("rename", plain, plain, any_flag), one("rename", plain, plain, any_flag),
    one("mknod", paths, st.sampled_from([stat.S_IFIFO | 0o644, stat.S_IFREG | 0o600, stat.S_IFSOCK | 0o644])),
    one("fill", folders, st.integers(1, 40)), one("thin", folders),
)
METADATA = st.one_of(
    one("chmod", paths, modes), one("chmod", plain, modes), one("utime", paths, moments, moments),
    one("lutime", paths, moments, moments), one("truncate", paths, sizes), one("umask", masks),
    one("setxattr", paths, attributes, values, st.sampled_from([0, 0, 1, 2])), one("removexattr", paths, attributes),
    one("lsetxattr", paths, attributes, values), one("chdir", folders), one("chdir", paths),
)
QUESTIONS = st.one_of(
    one("stat", paths, st.booleans()), one("statx", paths, st.sampled_from([0, 0x100, 0x800])), one("list", paths),
    one("list", folders), one("readlink", paths), one("access", paths, st.integers(0, 7)), one("getcwd"),
    one("same", paths, paths), one("getxattr", paths, attributes), one("listxattr", paths), one("mtime", paths),
    one("data", plain),
)
DESCRIPTORS = st.one_of(
    one("open", slots, paths, opens, modes), one("open", slots, paths, opens, modes),
    one("open", slots, plain, opens, modes), one("openat", slots, slots, names, opens, modes),
    one("open2", slots, folders, paths, opens, st.sampled_from([0, 2, 4, 8, 16])),
    one("reopen", slots, slots, st.sampled_from(ACCESS).map(lambda flags: flags | os.O_NONBLOCK)),
    one("close", slots), one("dup", slots, slots),
)
USES = st.one_of(
    one("write", slots, data), one("write", slots, data), one("read", slots),
    one("pread", slots, st.sampled_from([10, 5000]), sizes), one("ftruncate", slots, sizes), one("fstat", slots),
    one("seek", slots, sizes, st.sampled_from([0, 1, 2, 3, 4])), one("copy", slots, slots, sizes),
    one("punch", slots, sizes, st.sampled_from([10, 4096])), one("map", slots, data, st.booleans()),
    one("fchmod", slots, modes), one("futime", slots, moments, moments), one("fsetxattr", slots, attributes, values),
    one("fgetxattr", slots, attributes), one("flistxattr", slots), one("fchdir", slots), one("freadlink", slots),
    one("fdname", slots), one("linkfd", slots, paths), one("linkproc", slots, plain),
    one("renameat", slots, names, slots, names, any_flag), one("unlinkat", slots, names, st.sampled_from([0, 0x200])),
    one("mkdirat", slots, names, modes),
)


ANY = st.one_of(
    CHANGES, METADATA, QUESTIONS, DESCRIPTORS, USES,
    # Most operations on a descriptor need an open one.
    st.builds(
        lambda slot, path, flags, step: [("open", slot, path, flags, 0o644), (step[0], slot, *step[2:])],
        slots, plain, opens, USES,
    ),
    # A file loses its name while several descriptors lead to it.
    st.builds(
        lambda path, first, second, again, one, other, step: [
            ("open", one, path, first, 0o644), ("reopen", other, one, second), (step[0], other, *step[2:]),
            ("unlink", path), ("reopen", other, one, again), (step[0], one, *step[2:]), ("fstat", one),
        ],
        plain, held, held, held, slots, slots, USES,
    ),
)  # fmt: skip
LOOK: Step = ("tree",)
START: list[Step] = [
    ("open", 0, b"file", os.O_RDONLY),
    ("open", 1, b"long", os.O_RDWR),
    ("open", 2, b"deep", os.O_RDONLY),
    ("open", 3, b"deep/inner", os.O_PATH),
    ("open", 4, b".", os.O_RDWR | os.O_TMPFILE),
]


def flat(chosen: list[Step | list[Step]]) -> list[Step]:
    """Now and then the whole tree is looked at, so that a mistake is found near its cause."""
    steps = [step for each in chosen for step in (each if isinstance(each, list) else [each])]
    return [step for number, each in enumerate(steps, 1) for step in ([each, LOOK] if number % 16 == 0 else [each])]


class Arena:
    """Fresh examples without end."""

    def __init__(self) -> None:
        self.sides = Sides(POOL)

    def run(self, steps: list[Step]) -> None:
        if not self.sides.left:
            self.sides.close()
            self.sides = Sides(POOL)
        self.sides.run(steps)


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Arena()
    try:
        yield made
    finally:
        made.sides.close()


def smaller(arena: Arena, steps: list[Step], budget: int = 120) -> list[Step]:
    """Leave out what does not matter. (Hypothesis would take much longer: it cannot know that any step may go.)"""
    size = len(steps) // 2
    while size and budget:
        place = 0
        while place < len(steps) and budget:
            shorter = steps[:place] + steps[place + size :]
            budget -= 1
            try:
                arena.run(shorter)
                place += size
            except AssertionError:
                steps = shorter
        size //= 2
    return steps


def search(arena: Arena, examples: int, steps: int, *, repeatable: bool) -> None:
    found: list[list[Step]] = []

    @settings(
        max_examples=examples,
        derandomize=repeatable,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(ANY, min_size=steps // 2, max_size=steps).map(flat))
    def same(chosen: list[Step]) -> None:
        try:
            arena.run(START + chosen)
        except AssertionError:
            found.append(START + chosen)
            raise

    try:
        same()
    except (AssertionError, HypothesisWarning):  # it warns of a failing example that is long
        if not found:
            raise
        shortest = smaller(arena, found[0])
    else:
        return
    arena.run(shortest)
    pytest.fail("what failed once did not fail again:\n" + "\n".join(map(repr, found[0])))


def test_same_as_linux(arena: Arena) -> None:
    search(arena, EXAMPLES or 30, 60, repeatable=not EXAMPLES)


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_same_as_linux_for_long(arena: Arena) -> None:
    search(arena, EXAMPLES or 1500, 120, repeatable=False)


def test_found_before(arena: Arena) -> None:
    """Every sequence that ever failed."""
    for script in sorted(FOUND.glob("*.txt")):
        try:
            arena.run([ast.literal_eval(line) for line in script.read_text().splitlines()])
        except AssertionError as failure:
            raise AssertionError(script.name) from failure

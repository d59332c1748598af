"""Host processes change a directory while a box uses it: a clean answer to every call, and nothing from outside it.

husk reports its own faults on stderr, which must stay empty.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import scratch
from tests.model.sides import Asked, agent_in_husk, copy_code
from tests.unit.vfs.worlds import Step

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.needs("python3"),
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]
MANNERS = ("ro", "rw", "cow")
SECRET = "not for guests"
CLEAN = [
    "EACCES", "EEXIST", "EINVAL", "EIO", "EISDIR", "ELOOP", "ENODATA", "ENOENT", "ENOTDIR", "ENOTEMPTY", "ENXIO",
    "EPERM",
    "EROFS", "ESPIPE", "ESTALE",
]  # fmt: skip


class Shared:
    """Equal host directories, one for each mount mode, and one that is not mounted."""

    def __init__(self, stack: ExitStack) -> None:
        place = stack.enter_context(scratch())
        self.outside = place / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_text(SECRET)
        self.roots = [place / manner for manner in MANNERS]
        self.errors = place / "errors"
        for root in self.roots:
            fill(root)
        mounts = [word for manner in MANNERS for word in ("--mount", f"{place / manner}:/{manner}:{manner}")]
        self.agent: Asked = agent_in_husk(stack, copy_code(place), "/", mounts, errors=self.errors)

    def ask(self, *steps: Step) -> dict[str, list[str]]:
        """The same on every mount. Nothing of the secret may show, and only errors Linux has for such things."""
        found = {}
        for manner in MANNERS:
            answers = self.agent.do(*(_there(manner, step) for step in steps))
            for step, answer in zip(steps, answers, strict=True):
                assert SECRET not in answer, (manner, step)
                assert not answer.startswith("E") or answer in CLEAN, (manner, step, answer)
            found[manner] = answers
        return found


def fill(root: Path) -> None:
    (root / "dir" / "sub").mkdir(parents=True)
    (root / "file").write_text("content")
    (root / "dir" / "inner").write_text("inner")
    (root / "dir" / "sub" / "leaf").write_text("leaf")
    (root / "big").write_bytes(b"b" * 3_000_000)


def _there(manner: str, step: Step) -> Step:
    """Names that begin with @ are below the mount; descriptors have names here, and each mount has its own."""
    place = b"/" + manner.encode()
    words = [place + each[1:] if isinstance(each, bytes) and each[:1] == b"@" else each for each in step[1:]]
    return step[0], *(manner + each if isinstance(each, str) else each for each in words)


@pytest.fixture
def shared() -> Iterator[Shared]:
    with ExitStack() as stack:
        made = Shared(stack)
        yield made
        made.agent.end()
        assert made.errors.read_text() == ""


# Opening what is now a FIFO would wait for its other end, as it does natively.
READ, WRITE, MAKE = os.O_NONBLOCK, os.O_RDWR | os.O_NONBLOCK, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK


def opened(path: bytes, flags: int) -> list[Step]:
    return [("open", "new", path, flags), ("read", "new"), ("fstat", "new"), ("close", "new")]


def opened_from(name: bytes, flags: int) -> list[Step]:
    return [("openat", "new", "dir", name, flags), ("read", "new"), ("close", "new")]


HOLD: list[Step] = [
    ("open", "file", b"@/file", 0), ("open", "dir", b"@/dir", 0), ("open", "path", b"@/dir/inner", os.O_PATH),
]  # fmt: skip
# Everything a guest may try with what it holds, and with names that were something else a moment ago.
HELD: list[Step] = [
    ("fstat", "file"), ("fdname", "file"), ("fstat", "dir"), ("fdname", "dir"), ("fstat", "path"), ("fchdir", "dir"),
    ("getcwd",), ("list", b"."), ("read", "file"), *opened_from(b"inner", READ), *opened_from(b"secret", READ),
    ("reopen", "new", "file", WRITE), *opened_from(b"made", MAKE), ("mkdirat", "dir", b"d", 0o755),
    ("fchmod", "file", 0o600), ("unlinkat", "dir", b"inner", 0), ("renameat", "dir", b"sub", "dir", b"bus", 0),
    ("chdir", b"/"), ("futime", "file", 1, 2),
]  # fmt: skip
TRIES: list[Step] = [
    ("stat", b"@/file", True), *opened(b"@/file", READ), *opened(b"@/file", WRITE), ("list", b"@/dir"),
    *opened(b"@/dir", READ), ("stat", b"@/dir/inner", True), *opened(b"@/dir/inner", READ),
    *opened(b"@/dir/secret", READ), *opened(b"@/file/secret", READ), ("readlink", b"@/file"), ("readlink", b"@/dir"),
    ("chmod", b"@/dir/inner", 0o600), ("truncate", b"@/file", 2), ("utime", b"@/file", 1, 2),
    ("setxattr", b"@/dir", b"user.a", b"b"), *opened(b"@/dir/new", MAKE), ("mkdir", b"@/dir/newdir", 0o755),
    ("rename", b"@/dir/inner", b"@/dir/moved", 0), ("unlink", b"@/dir/inner"), ("link", b"@/file", b"@/dir/linked"),
    ("rename", b"@/dir/sub", b"@/elsewhere", 0), ("rmdir", b"@/dir"), ("list", b"@/"),
]  # fmt: skip


def vanish(root: Path) -> None:
    shutil.rmtree(root / "dir")
    (root / "file").unlink()


def change_kinds(root: Path) -> None:
    vanish(root)
    (root / "file").mkdir()
    (root / "dir").write_text("now a file")


def point_outside(root: Path) -> None:
    vanish(root)
    (root / "file").symlink_to(root.parent / "outside" / "secret")
    (root / "dir").symlink_to(root.parent / "outside")


def point_up(root: Path) -> None:
    vanish(root)
    (root / "file").symlink_to("../outside/secret")
    (root / "dir").symlink_to("../outside")


def become_special(root: Path) -> None:
    vanish(root)
    os.mkfifo(root / "file")
    (root / "dir").mkdir()
    os.mkfifo(root / "dir" / "inner")


def be_replaced(root: Path) -> None:
    vanish(root)
    (root / "big").unlink()
    fill(root)


@pytest.mark.parametrize("change", [vanish, change_kinds, point_outside, point_up, become_special, be_replaced])
def test_host_changes(shared: Shared, change: Callable[[Path], None]) -> None:
    for manner, answers in shared.ask(*HOLD, ("stat", b"@/file", True), ("list", b"@/dir")).items():
        assert answers[:3] == ["ok"] * 3, manner
    # On the layer, some of the files have been copied up already.
    shared.ask(("chmod", b"@/file", 0o640), ("setxattr", b"@/dir/sub", b"user.x", b"y"), *HOLD)
    for root in shared.roots:
        change(root)
    held = shared.ask(*HELD)
    for manner, answers in held.items():
        assert answers[0].startswith("-rw-"), f"on {manner} an open file was lost: {answers[0]}"
    shared.ask(*TRIES, *HELD)
    alive = shared.agent.do(("mkdir", b"/tmp/alive", 0o755), ("list", b"/tmp/alive"))
    assert alive[0] == "ok"


def test_shrinking_while_it_is_read(shared: Shared) -> None:
    shared.ask(("open", "big", b"@/big", 0))
    for root in shared.roots:
        os.truncate(root / "big", 1000)
    for manner, answers in shared.ask(("pread", "big", 10, 995), ("stat", b"@/big", True)).items():
        assert answers[0] == repr(b"bbbbb") and "size=1000" in answers[1], manner
    cow = shared.agent.do(("open", 0, b"/cow/big", os.O_RDWR), ("pread", 0, 10, 995), ("write", 0, b"mine"))
    assert cow == ["ok", repr(b"bbbbb"), "4"]
    assert (shared.roots[2] / "big").read_bytes() == b"b" * 1000
    (shared.roots[2] / "big").unlink()
    assert shared.agent.do(("open", 0, b"/cow/big", 0), ("pread", 0, 4, 0)) == ["ok", repr(b"mine")]

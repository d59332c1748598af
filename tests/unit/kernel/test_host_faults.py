"""The host fails husk at every single place: each of husk's calls to the host, one after the other, gets an errno.

A call that succeeds is made once to count husk's own calls to the host, then once for each of them with that one
failing. The guest must get one answer; if it is an error, nothing it can see may have changed, nothing may stay open,
and the same call must succeed afterwards.
"""

from __future__ import annotations

import ast
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from husk.vfs.node import Dir
from tests.lib.failing_host import CORE, NEVER, OS
from tests.unit.kernel.fakes import Guest, new_descriptors, open_descriptors
from tests.unit.kernel.good_calls import GOOD

ERRNOS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.ENOMEM)
SOURCE = Path(__file__).resolve().parents[3] / "src" / "husk"
# (host call, the guest's errno) where the guest rightly gets another errno than husk got.
TURNED = {
    ("pread", errno.ENOEXEC),  # Linux, too, takes program headers it cannot read for those of no program
}
# (guest's call, host call) after which a second try cannot succeed: Linux binds a socket once, and the host has.
ONCE = {("bind", "link"), ("bind", "unlink")}


class Failing:
    """Counts host calls; the one with number `at` fails."""

    def __init__(self, at: int = -1, number: int = 0) -> None:
        self.at, self.number, self.count = at, number, 0
        self.failed = ""

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            if sys._getframe(1).f_globals["__name__"].startswith("tests."):
                return real(*words, **named)  # the fakes ask the host too, which is no call of husk's
            self.count += 1
            if self.count - 1 == self.at:
                self.failed = name
                raise OSError(self.number, os.strerror(self.number))
            return real(*words, **named)

        return call

    @contextmanager
    def active(self) -> Iterator[None]:
        replaced: list[tuple[Any, str, Any]] = []
        replaced += [(os, name, getattr(os, name)) for name in OS if hasattr(os, name)]
        for module in [module for key, module in sys.modules.items() if key.startswith("husk.") and "_core" not in key]:
            replaced += [(module, name, getattr(module, name)) for name in CORE if hasattr(module, name)]
        try:
            for where, name, real in replaced:
                setattr(where, name, self.wrap(name, real))
            yield
        finally:
            for where, name, real in replaced:
                setattr(where, name, real)


def visible(guest: Guest) -> dict[bytes, tuple[object, ...]]:
    """Everything the guest can see of its tree, access times aside."""
    found: dict[bytes, tuple[object, ...]] = {}
    ctx, vfs = guest.vfs.context, guest.vfs

    def look(path: bytes, folder: Dir) -> None:
        for entry in list(folder.tree.entries(ctx, folder, 2)):
            node = folder.tree.lookup(ctx, folder, entry.name)
            info = node.tree.stat(ctx, node)
            name = path + b"/" + entry.name
            size = info.size if not stat.S_ISDIR(info.mode) else 0
            found[name] = info.mode, info.nlink, info.uid, info.gid, size, info.mtime, sorted(
                (key, node.tree.get_xattr(ctx, node, key)) for key in node.tree.list_xattr(ctx, node))
            if isinstance(node, Dir):
                look(name, node)

    assert isinstance(vfs.root, Dir)
    look(b"", vfs.root)
    return found


def test_every_host_call_is_known() -> None:
    """Every call that husk makes is listed: it may fail here (OS), or it cannot fail (NEVER)."""
    used = set()
    for folder in ("kernel", "vfs", "sandbox"):
        for path in (SOURCE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    where = node.func.value
                    if isinstance(where, ast.Name) and where.id == "os":
                        used.add(node.func.attr)
    assert used <= {*OS, *NEVER}


class Box:
    """A fresh guest with one good call ready to be made."""

    def __init__(self, place: Path, lower: Path, name: str) -> None:
        place.mkdir()
        self.guest = Guest(os.fsencode(place), os.fsencode(lower))
        self.name, self.args = name, GOOD[name](self.guest)

    def answer(self, failing: Failing) -> tuple[str, int]:
        call = self.guest.make(self.name, *self.args)
        with failing.active():
            return self.guest.answer(call)


@pytest.mark.parametrize("name", GOOD)
def test_every_host_call_fails_once(tmp_path: Path, lower: Path, name: str) -> None:
    box = Box(tmp_path / "count", lower, name)
    counting = Failing()
    assert box.answer(counting)[0] != "error"
    box.guest.close()
    assert counting.count < 200
    for at in range(counting.count):
        number = ERRNOS[at % len(ERRNOS)]
        box = Box(tmp_path / f"{at}", lower, name)
        guest, failing = box.guest, Failing(at, number)
        before, descriptors = visible(guest), open_descriptors()
        kind, value = box.answer(failing)
        where = f"{name}, host call {at} ({failing.failed}) fails with {errno.errorcode[number]}"
        if kind == "error":
            assert visible(guest) == before, f"{where}: half done"
            # The folder of the files is made on first use, and stays open as long as the box.
            assert not [one for one in new_descriptors(descriptors) if not one.endswith("/files")], where
            told = errno.errorcode[value]
            assert value == number or (failing.failed, value) in TURNED, f"{where}: the guest gets {told}"
            if (name, failing.failed) not in ONCE:
                assert box.answer(Failing())[0] != "error", f"{where}: and later it does not work either"
        guest.close()

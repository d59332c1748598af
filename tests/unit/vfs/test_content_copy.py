"""Copying a lower file up: holes stay holes, and a large copy holds up no other call."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from husk.vfs.layer import content_copy
from husk.vfs.state import State
from tests.unit.vfs.test_layered_tree import layer, real_files
from tests.unit.vfs.virtual import Virtual

BIG = content_copy.LARGE * 3


class Gate:
    """Copies wait here until `open` is set. `count` says how many came."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived, self.open, self.count = threading.Event(), threading.Event(), 0
        self.failure: OSError | None = None
        self._copy = content_copy.copy_content
        monkeypatch.setattr(content_copy, "copy_content", self._wait)

    def _wait(self, source: int, target: int, state: State | None = None) -> None:
        self.count += 1
        self.arrived.set()
        assert self.open.wait(60)
        if self.failure:
            raise self.failure
        self._copy(source, target, state)


@pytest.fixture
def gate(lower: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    (lower / "big").write_bytes(b"x" * BIG)
    return Gate(monkeypatch)


class Aside:
    """A step done by another thread, as another call of a guest would be."""

    def __init__(self, step: Callable[[], object]) -> None:
        self.result: object = None
        self._step = step
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._step()
        except OSError as failure:
            self.result = failure.errno

    def wait(self) -> object:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.result


def writer(world: Virtual, path: bytes = b"/big", flags: int = os.O_RDWR) -> Callable[[], object]:
    def step() -> object:
        opened = world.vfs.open(world.ctx, world.here, path, flags, 0)
        try:
            return os.fstat(opened.host_fd).st_ino
        finally:
            os.close(opened.host_fd)

    return step


def test_others_go_on_meanwhile(world: Virtual, gate: Gate) -> None:
    slow = Aside(writer(world))
    assert gate.arrived.wait(60)
    assert Aside(lambda: world.do_stat(b"/file")).wait() == world.do_stat(b"/file")
    assert Aside(lambda: world.do_stat(b"/big")).wait() == world.do_stat(b"/big")
    world.do_chmod(b"/big", 0o600)
    world.do_utime(b"/big", 5, 7)
    gate.open.set()
    assert isinstance(slow.wait(), int)
    assert world.do_times(b"/big") == "5 7", "what was set during the copy was lost"
    assert world.do_stat(b"/big").startswith("-rw------- links=1")
    assert real_files(world) == 1 and not layer(world).copy_up.copies


def test_two_at_once_share_one_copy(world: Virtual, gate: Gate) -> None:
    first = Aside(writer(world))
    assert gate.arrived.wait(60)
    second, third = Aside(writer(world)), Aside(lambda: world.do_truncate(b"/big", BIG - 1))
    gate.open.set()
    assert first.wait() == second.wait() and third.wait() is None
    assert gate.count == 1
    assert f"size={BIG - 1}" in world.do_stat(b"/big")
    assert real_files(world) == 1 and not layer(world).copy_up.copies


@pytest.mark.parametrize("meanwhile", ["unlink", "rename", "truncate", "replace"])
def test_the_name_changes_meanwhile(world: Virtual, gate: Gate, meanwhile: str) -> None:
    slow = Aside(writer(world))
    assert gate.arrived.wait(60)
    if meanwhile == "unlink":
        world.do_unlink(b"/big")
    elif meanwhile == "rename":
        world.do_rename(b"/big", b"/moved")
    elif meanwhile == "truncate":
        world.do_truncate(b"/big", 0)
    else:
        world.do_rename(b"/file", b"/big")
    gate.open.set()
    result = slow.wait()
    left = {"unlink": 0, "rename": 0, "truncate": 1, "replace": 1}[meanwhile]
    assert (result == 2) == (meanwhile in ("unlink", "rename")), "ENOENT, for the name is gone"
    assert real_files(world) == left and not layer(world).copy_up.copies, "a copy that is not needed any more was left"
    if meanwhile == "truncate":
        assert "size=0" in world.do_stat(b"/big")
    if meanwhile == "replace":
        assert "size=6" in world.do_stat(b"/big")


def test_a_failure_reaches_every_call_that_waited(world: Virtual, gate: Gate) -> None:
    gate.failure = OSError(28, "no space")
    first = Aside(writer(world))
    assert gate.arrived.wait(60)
    second = Aside(writer(world))
    gate.open.set()
    assert (first.wait(), second.wait()) == (28, 28)
    assert real_files(world) == 0 and not layer(world).copy_up.copies
    gate.failure = None
    world.do_open(1, b"/big", os.O_RDWR)
    assert f"size={BIG}" in world.do_stat(b"/big")


def test_an_unlinked_file_that_is_still_open(world: Virtual, gate: Gate) -> None:
    gate.open.set()
    world.do_open(1, b"/big", os.O_RDONLY)
    world.do_unlink(b"/big")
    opened = world.vfs.open_node(world.ctx, world.held(1), os.O_RDWR)
    assert os.pread(opened.host_fd, 3, BIG - 3) == b"xxx"
    os.close(opened.host_fd)


def test_the_end_of_the_box_ends_a_copy(world: Virtual, gate: Gate) -> None:
    slow = Aside(writer(world))
    assert gate.arrived.wait(60)
    world.vfs.state.end()
    gate.open.set()
    assert slow.wait() == errno.EINTR
    assert real_files(world) == 0 and not layer(world).copy_up.copies


def test_emptying_copies_nothing(world: Virtual, gate: Gate) -> None:
    assert isinstance(Aside(writer(world, flags=os.O_RDWR | os.O_TRUNC)).wait(), int)
    assert gate.count == 0


@pytest.mark.parametrize("size", [8 << 20, 1 << 16])
@pytest.mark.parametrize("data", [(), (0,), (1 << 15,), (0, 1 << 15)])
def test_holes_stay_holes(world: Virtual, lower: Path, size: int, data: tuple[int, ...]) -> None:
    with open(lower / "holes", "wb") as file:
        for place in data:
            file.seek(place)
            file.write(b"data")
        file.truncate(size)
    before = os.stat(lower / "holes").st_blocks
    world.do_open(1, b"/holes", os.O_RDWR)
    fd = world.slots[1].host_fd
    assert os.fstat(fd).st_size == size
    assert os.fstat(fd).st_blocks == before, "holes were filled"
    assert os.pread(fd, size, 0) == (lower / "holes").read_bytes()
    world.do_write(1, b"more")
    assert (lower / "holes").read_bytes()[:4] != b"more"


def test_without_help_from_the_host(world: Virtual, lower: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system can neither share blocks, nor copy in the kernel, nor find holes."""

    def refuse(*_: object) -> int:
        raise OSError(18, "not between these")

    monkeypatch.setattr(content_copy, "ioctl", refuse)
    monkeypatch.setattr(os, "copy_file_range", refuse)
    monkeypatch.setattr(os, "lseek", refuse)
    content = os.urandom(5000) + bytes(content_copy.LARGE) + b"end"
    (lower / "big").write_bytes(content)
    world.do_open(1, b"/big", os.O_RDWR)
    assert os.pread(world.slots[1].host_fd, len(content) + 1, 0) == content

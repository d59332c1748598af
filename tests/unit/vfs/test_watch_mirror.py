"""Watching changes nothing: the random scripts of the differential test, while everything is watched."""

from __future__ import annotations

import ctypes
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from husk.native._core import VfsLock
from husk.vfs.layer.host_changes import HostChanges
from husk.vfs.layer.inodes import LayerDir
from husk.vfs.node import Dir
from tests.unit.vfs import scripted
from tests.unit.vfs.native import run_native
from tests.unit.vfs.random_steps import random_steps
from tests.unit.vfs.trees import TREES, copy_tree, new_state, prepare
from tests.unit.vfs.virtual import Virtual
from tests.unit.vfs.worlds import Step

ALL_EVENTS, DONT_FOLLOW = 0xFFF, 0x02000000


@pytest.fixture
def queue() -> Iterator[int]:
    fd = ctypes.CDLL(None).inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert fd >= 0
    yield fd
    os.close(fd)


def watch_everything(world: Virtual, queue: int, *, files: bool) -> int:
    """Every directory, and with `files` every name; what the guest may not look at stays unwatched."""
    count = 0
    waiting: list[tuple[Dir, bytes]] = [(world.vfs.root, b"/")]
    while waiting:
        directory, path = waiting.pop()
        for entry in list(world.vfs.entries(world.ctx, directory, 2)):
            name = path + entry.name
            try:
                node = world.node(name, follow=False)
                if isinstance(node, Dir):
                    waiting.append((node, name + b"/"))
                if isinstance(node, Dir) or files:
                    world.vfs.watch(world.ctx, world.vfs.root, name, ALL_EVENTS | DONT_FOLLOW, queue)
                    count += 1
            except OSError:
                continue
    return count


def check_counterparts(world: Virtual) -> None:
    """A watched directory and its mirror on the host hold the same names."""
    state = world.vfs.state
    waiting: list[Dir] = [world.vfs.root]
    while waiting:
        directory = waiting.pop()
        if not isinstance(directory, LayerDir):
            continue
        if directory.mirror is not None:
            host = os.open(state.mirror_path(directory), os.O_RDONLY | os.O_DIRECTORY, dir_fd=state.fd)
            try:
                there = {os.fsencode(name) for name in os.listdir(host)}
            finally:
                os.close(host)
            names = {entry.name for entry in world.vfs.entries(world.ctx, directory, 2)}
            assert there == directory.mirror.names
            assert there == names if directory.mirror.complete else there <= names
        waiting += [node for node in directory.names.values() if isinstance(node, Dir)]


def compare(tmp_path: Path, kind: str, steps: list[Step], queue: int, *, files: bool) -> None:
    native = prepare(tmp_path / "native", scripted.build)
    source = copy_tree(native, tmp_path / "source")
    expected = run_native(native, steps)
    state = new_state(tmp_path)
    world = Virtual(state, TREES[kind](state, source))
    watched = 0
    try:
        for number, (step, want) in enumerate(zip(steps, expected, strict=True)):
            if number % 40 == 0:
                watched += watch_everything(world, queue, files=files)
            got = world.answer(step)
            assert got.endswith(" = stale") or got == want, f"step {number}"
        assert watched > 20
        check_counterparts(world)
    finally:
        world.close()
        state.close()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be an ordinary user in a root of its own")


@needs_root
@pytest.mark.parametrize("files", [False, True], ids=["directories", "all"])
@pytest.mark.parametrize("kind", [kind for kind in TREES if kind != "host"])
@pytest.mark.parametrize("seed", range(2))
def test_random(tmp_path: Path, queue: int, seed: int, kind: str, files: bool) -> None:
    compare(tmp_path, kind, random_steps(100 + seed, 1000), queue, files=files)


@needs_root
@pytest.mark.parametrize("name", scripted.SCRIPTS)
def test_script(tmp_path: Path, queue: int, name: str) -> None:
    compare(tmp_path, "layered", scripted.SCRIPTS[name], queue, files=True)


def test_the_host_takes_watched_files_away(world: Virtual, lower: Path, queue: int) -> None:
    """Their entries stay in the mirror, and must not get in the way."""
    for path in (b"/", b"/dir", b"/dir/sub"):
        world.vfs.watch(world.ctx, world.vfs.root, path, ALL_EVENTS, queue)
    (lower / "dir" / "sub" / "leaf").unlink()
    (lower / "file").unlink()
    (lower / "dir" / "inner").unlink()
    world.vfs.rmdir(world.ctx, world.vfs.root, b"/dir/sub")
    os.close(world.vfs.open(world.ctx, world.vfs.root, b"/dir/inner", os.O_WRONLY | os.O_CREAT, 0o644).host_fd)
    world.vfs.mkdir(world.ctx, world.vfs.root, b"/file", 0o755)
    world.vfs.rename(world.ctx, world.vfs.root, b"/dir/inner", world.vfs.root, b"/file/inner")
    world.vfs.unlink(world.ctx, world.vfs.root, b"/file/inner")
    world.vfs.rmdir(world.ctx, world.vfs.root, b"/file")
    check_counterparts(world)


def test_a_forked_child_leaves_the_parents_thread_alone() -> None:
    """The two share the descriptor that wakes the thread."""
    tree = SimpleNamespace(state=SimpleNamespace(lock=VfsLock()))
    host = HostChanges(tree, None, None)  # type: ignore[arg-type]
    child = os.fork()
    if not child:
        host.end()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not select.select([host._wake], [], [], 0)[0]
    link, until = f"/proc/self/fd/{host._queue}", time.monotonic() + 60
    assert os.readlink(link) == "anon_inode:inotify"
    host.end()
    while os.path.islink(link) and os.readlink(link) == "anon_inode:inotify":
        assert time.monotonic() < until
        time.sleep(0.01)

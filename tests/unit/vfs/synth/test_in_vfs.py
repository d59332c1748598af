"""The synthesised trees mounted in the real vfs: the everyday names that programs open, with its permission checks."""

from __future__ import annotations

import errno
import os
import stat as st
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import Dir
from husk.vfs.proc.proc_tree import ProcTree
from husk.vfs.state import State
from husk.vfs.synth.dev import DevTree
from husk.vfs.synth.sysfs import SysTree
from husk.vfs.vfs import Vfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .conftest import Box


@pytest.fixture
def vfs(box: Box, tmp_path: Path) -> Iterator[Vfs]:
    state = State(bytes(tmp_path))
    made = Vfs(state, LayeredTree(state), box.creds)
    box.tasks.root = box.tasks.cwd = made.root
    proc = ProcTree(lambda: box.tasks, made.mounts, box.creds, dev=state.new_device(), guest_file=made.file_of_link)
    made.mount(proc, b"/proc")
    made.mount(DevTree(box.pts, dev=state.new_device()), b"/dev")
    made.mount(LayeredTree(state, mode=0o1777), b"/dev/shm")
    made.mount(SysTree(dev=state.new_device()), b"/sys")
    yield made
    state.close()


def content(box: Box, vfs: Vfs, path: bytes) -> bytes:
    with open(vfs.open(box.ctx, vfs.root, path, os.O_RDONLY, 0).host_fd, "rb") as file:
        return file.read()


def test_everyday_names(box: Box, vfs: Vfs, child: int) -> None:
    assert b"\nPid:\t%d\n" % box.me in content(box, vfs, b"/proc/self/status")
    assert b"SECRET=" in content(box, vfs, b"/proc/%d/environ" % child)
    assert content(box, vfs, b"/proc/net/tcp").count(b"\n") == 1
    assert content(box, vfs, b"/sys/devices/system/cpu/online")
    assert content(box, vfs, b"/sys/class/net/lo/mtu") == b"65536\n"
    assert vfs.readlink(box.ctx, vfs.root, b"/proc/self") == b"%d" % box.me
    assert vfs.readlink(box.ctx, vfs.root, b"/proc/self/cwd") == b"/"
    assert vfs.walk(box.ctx, vfs.root, b"/proc/self/root/dev/fd/..") is vfs.walk(box.ctx, vfs.root, b"/proc/self")


def test_dev_null_as_a_shell_opens_it(box: Box, vfs: Vfs) -> None:
    opened = vfs.open(box.ctx, vfs.root, b"/dev/null", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    assert os.write(opened.host_fd, b"gone") == 4
    link, host = os.readlink(b"/proc/self/fd/%d" % opened.host_fd), os.fstat(opened.host_fd)
    assert vfs.path_of_link(link, host.st_dev, host.st_ino) == b"/dev/null"
    os.close(opened.host_fd)


def test_pipes_by_name(box: Box, vfs: Vfs) -> None:
    """`cat <(echo hi)`: /dev/fd/N leads through two links to what the guest holds."""
    reader, writer = os.pipe()
    os.write(writer, b"hi")
    os.close(writer)
    opened = vfs.open(box.ctx, vfs.root, b"/dev/fd/%d" % reader, os.O_RDONLY | os.O_NONBLOCK, 0)
    assert os.read(opened.host_fd, 9) == b"hi"
    for fd in (opened.host_fd, reader):
        os.close(fd)


@pytest.mark.parametrize(("path", "flags", "error"), [
    (b"/proc/self/status", os.O_WRONLY, errno.EACCES),
    (b"/proc/sys/kernel/pid_max", os.O_RDWR, errno.EACCES),
    (b"/proc/self/setgroups", os.O_WRONLY, errno.EPERM),
    (b"/proc/made", os.O_WRONLY | os.O_CREAT, errno.ENOENT),
    (b"/proc/self/made", os.O_WRONLY | os.O_CREAT, errno.ENOENT),
    (b"/dev/made", os.O_WRONLY | os.O_CREAT, errno.EACCES),
    (b"/dev/tty", os.O_RDWR, errno.ENXIO),
    (b"/proc/self/fd", os.O_WRONLY, errno.EISDIR),
    (b"/proc/self/status/x", os.O_RDONLY, errno.ENOTDIR),
    (b"/proc/self/pagemap", os.O_RDONLY, errno.ENOENT),
    (b"/proc/self", os.O_RDONLY | os.O_NOFOLLOW, errno.ELOOP),
])
def test_refusals(box: Box, vfs: Vfs, path: bytes, flags: int, error: int) -> None:
    with pytest.raises(OSError) as caught:
        vfs.open(box.ctx, vfs.root, path, flags, 0o644)
    assert caught.value.errno == error


def test_open_descriptors_are_known_again(box: Box, vfs: Vfs) -> None:
    for path in (b"/proc/%d/maps" % box.me, b"/proc/uptime", b"/sys/kernel/mm/transparent_hugepage/enabled"):
        if path.startswith(b"/sys") and not os.path.exists(path):
            continue
        fd = vfs.open(box.ctx, vfs.root, path, os.O_RDONLY, 0).host_fd
        link, host = os.readlink(b"/proc/self/fd/%d" % fd), os.fstat(fd)
        os.close(fd)
        assert vfs.path_of_link(link, host.st_dev, host.st_ino) == path
        node = vfs.node_of_link(link, host.st_dev, host.st_ino)
        assert node is not None and vfs.stat_node(box.ctx, node).mode == st.S_IFREG | 0o444


def test_directories_by_descriptor(box: Box, vfs: Vfs, child: int) -> None:
    opened = vfs.open(box.ctx, vfs.root, b"/proc/%d" % child, os.O_RDONLY | os.O_DIRECTORY, 0)
    link = os.readlink(b"/proc/self/fd/%d" % opened.host_fd)
    os.close(opened.host_fd)
    again = vfs.node_of_link(link, 0, 0)
    assert again is opened.node and isinstance(again, Dir) and vfs.path_of(again) == b"/proc/%d" % child
    names = [entry.name for entry in vfs.entries(box.ctx, again, 0)]
    assert names[:2] == [b".", b".."] and {b"status", b"fd", b"exe"} <= set(names)


def test_mounts_of_the_real_vfs(box: Box, vfs: Vfs) -> None:
    points = [line.split()[1] for line in content(box, vfs, b"/proc/mounts").splitlines()]
    assert points == [b"/", b"/proc", b"/dev", b"/dev/shm", b"/sys"]
    parents = {line.split()[4]: line.split()[:2] for line in content(box, vfs, b"/proc/self/mountinfo").splitlines()}
    assert parents[b"/dev/shm"][1] == parents[b"/dev"][0]

"""/dev, /sys and the made files of /etc."""

from __future__ import annotations

import errno
import fcntl
import os
import stat as st
from pathlib import Path

import pytest

from husk.vfs.image.etc_files import etc_files
from husk.vfs.node import Credentials, Dir
from husk.vfs.synth import pts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .conftest import Box


# -- /dev -------------------------------------------------------------------------------------------------------------
def test_dev_names(box: Box) -> None:
    assert set(box.names(b"/dev")) == {
        b"null", b"zero", b"full", b"random", b"urandom", b"tty", b"ptmx", b"fd", b"stdin", b"stdout", b"stderr",
        b"shm", b"pts", b"mqueue"}


@pytest.mark.parametrize("name", [b"null", b"zero", b"full", b"random", b"urandom", b"tty"])
def test_devices_stat_like_the_hosts(box: Box, name: bytes) -> None:
    found, host = box.dev.stat(box.ctx, box.walk(b"/dev/" + name)), os.stat(b"/dev/" + name)
    assert (found.mode, found.uid, found.gid, found.rdev) == (st.S_IFCHR | 0o666, 0, 0, host.st_rdev)


def test_devices_work(box: Box) -> None:
    assert box.read(b"/dev/null") == b""
    fd = box.open(b"/dev/zero")
    assert os.read(fd, 4) == bytes(4) and os.get_inheritable(fd) is False
    os.close(fd)
    fd = box.open(b"/dev/urandom")
    assert len(os.read(fd, 16)) == 16
    os.close(fd)
    fd = box.open(b"/dev/full", os.O_WRONLY | os.O_TRUNC)
    with pytest.raises(OSError) as caught:
        os.write(fd, b"x")
    assert caught.value.errno == errno.ENOSPC
    os.close(fd)


def test_tty_is_the_callers_own_and_never_husks(box: Box) -> None:
    """The terminal of husk (these tests may have one) is not a terminal of the box."""
    with pytest.raises(OSError) as caught:
        box.open(b"/dev/tty", os.O_RDWR)
    assert caught.value.errno == errno.ENXIO


def test_terminals_come_and_go_with_their_masters(box: Box) -> None:
    assert box.names(b"/dev/pts") == [b"ptmx"]
    master = box.open(b"/dev/ptmx", os.O_RDWR)
    number = fcntl.ioctl(master, 0x80045430, bytes(4))[0]
    name = b"/dev/pts/%d" % number
    assert box.names(b"/dev/pts") == [b"ptmx", b"%d" % number]
    found = box.dev.stat(box.ctx, box.walk(b"/dev/ptmx")), box.pts.stat(box.ctx, box.walk(name))
    assert found[0].rdev == os.makedev(5, 2) and found[1].rdev == os.makedev(136, number)
    assert (found[1].mode, found[1].uid, found[1].gid) == (st.S_IFCHR | 0o620, box.ctx.creds.uid, 5)
    slave = box.walk(name)
    with pytest.raises(OSError) as caught:
        box.open(name, os.O_RDWR)
    assert caught.value.errno == errno.EIO  # still locked
    os.close(master)
    assert box.names(b"/dev/pts") == [b"ptmx"]
    # The host gives the number to the next program. The node of the old terminal must not lead there.
    other = os.openpty()
    try:
        with pytest.raises(OSError) as caught:
            box.pts.open(box.ctx, slave, os.O_RDWR)
        assert caught.value.errno == errno.EIO and box.names(b"/dev/pts") == [b"ptmx"]
    finally:
        for fd in other:
            os.close(fd)


def test_a_box_cannot_take_all_terminals_of_the_host(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pts, "TERMINALS_MAX", 2)
    masters = [box.open(b"/dev/ptmx", os.O_RDWR) for _ in range(2)]
    with pytest.raises(OSError) as caught:
        box.open(b"/dev/ptmx", os.O_RDWR)
    assert caught.value.errno == errno.ENOSPC
    os.close(masters.pop())
    masters.append(box.open(b"/dev/ptmx", os.O_RDWR))
    for master in masters:
        os.close(master)


def test_links_lead_into_proc(box: Box) -> None:
    assert box.walk(b"/dev/fd") is box.walk(b"/proc/self/fd")
    assert box.dev.readlink(box.ctx, box.walk(b"/dev/stdin", follow=False)) == b"/proc/self/fd/0"


def test_mount_points(box: Box) -> None:
    for name, mode in ((b"shm", 0o1777), (b"mqueue", 0o1777), (b"pts", 0o755)):
        node = box.walk(b"/dev/" + name)
        assert isinstance(node, Dir) and node.tree.stat(box.ctx, node).mode == st.S_IFDIR | mode


# -- /sys -------------------------------------------------------------------------------------------------------------
def test_cpus_are_the_hosts(box: Box) -> None:
    base = b"/sys/devices/system/cpu/"
    for name in (b"online", b"possible", b"present"):
        assert box.read(base + name) == Path((base + name).decode()).read_bytes()
    cpus = [name for name in box.names(base[:-1]) if name[3:].isdigit()]
    assert len(cpus) == len([name for name in os.listdir(base) if name[3:].isdigit()])
    core = base + b"cpu0/topology/core_id"
    if os.path.exists(core):
        assert box.read(core) == Path(os.fsdecode(core)).read_bytes()


def test_everything_in_sys_can_be_read_and_nothing_written(box: Box) -> None:
    files = [(path, node) for path, node in box.every_file(b"/sys") if node.kind == st.S_IFREG]
    assert len(files) > 20
    for path, node in files:
        with pytest.raises(PermissionError):
            node.tree.open(box.ctx, node, os.O_RDWR)
        try:
            box.read(path)
        except OSError as error:
            assert not os.access(path, os.R_OK) or error.errno == errno.EINVAL, path


def test_links_in_sys_stay_inside(box: Box) -> None:
    for path, node in box.every_file(b"/sys"):
        if node.kind == st.S_IFLNK:
            assert isinstance(box.walk(path), Dir), path


def test_control_groups_are_an_empty_directory(box: Box) -> None:
    assert box.names(b"/sys/fs/cgroup") == [] and b"module" not in box.names(b"/sys")


# -- /etc -------------------------------------------------------------------------------------------------------------
def test_etc_of_an_ordinary_user() -> None:
    made = etc_files(Credentials(1000, 1000, frozenset({27, 5000})), b"guest", b"/home/guest", b"box")
    users = [line.split(b":") for line in made[b"passwd"].splitlines()]
    assert all(len(user) == 7 for user in users)
    names = {user[0]: user for user in users}
    assert names[b"guest"][2:6] == [b"1000", b"1000", b"guest", b"/home/guest"]
    assert names[b"root"][2] == b"0" and names[b"nobody"][2] == b"65534"
    groups = {line.split(b":")[0]: line.split(b":")[2:] for line in made[b"group"].splitlines()}
    assert groups[b"guest"] == [b"1000", b""] and groups[b"sudo"] == [b"27", b"guest"]
    assert groups[b"group5000"] == [b"5000", b"guest"]
    assert made[b"hostname"] == b"box\n" and b"127.0.1.1\tbox\n" in made[b"hosts"]
    assert b"hosts:          files" in made[b"nsswitch.conf"]


@pytest.mark.parametrize(("uid", "user"), [
    (65534, b"guest"), (0, b"guest"), (4_000_000_000, b"root"), (33, b"www-data"), (1000, b"sudo")])
def test_etc_numbers_and_names_are_unique(uid: int, user: bytes) -> None:
    made = etc_files(Credentials(uid, uid), user, b"/h", b"box")
    for file in (b"passwd", b"group"):
        rows = [line.split(b":") for line in made[file].splitlines()]
        assert len({row[0] for row in rows}) == len(rows) == len({row[2] for row in rows})
    assert made[b"passwd"].splitlines()[0].split(b":")[:3] == [user, b"x", b"%d" % uid]


@pytest.mark.parametrize("user", [b"a:b", b"a\nroot::0:0", b"a\0"])
def test_etc_refuses_names_that_would_make_accounts(user: bytes) -> None:
    with pytest.raises(ValueError, match="passwd"):
        etc_files(Credentials(1, 1), user, b"/h", b"box")

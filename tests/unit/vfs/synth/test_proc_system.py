"""The files of /proc about the machine: parsed the way the programs that read them do."""

from __future__ import annotations

import os
import re
import stat as st
import struct
import time
from pathlib import Path

import pytest

from husk.vfs.mounts import mountinfo_text, mounts_text
from husk.vfs.synth.synth_tree import SynthTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .conftest import Box


def test_what_is_there(box: Box) -> None:
    names = set(box.names(b"/proc"))
    assert names >= {b"self", b"thread-self", b"cpuinfo", b"meminfo", b"stat", b"uptime", b"loadavg", b"version",
                     b"filesystems", b"mounts", b"cmdline", b"sys", b"net", b"swaps", b"vmstat"}
    assert not names & {b"kcore", b"kallsyms", b"kmsg", b"config.gz", b"keys", b"modules", b"sysrq-trigger", b"iomem"}
    assert not set(box.names(b"/proc/self")) & {b"attr", b"pagemap", b"stack", b"syscall", b"map_files"}


def test_limits_on_shared_memory_are_those_that_shmctl_tells(box: Box) -> None:
    from husk.kernel.ipc.segments import TOLD_LARGEST, TOLD_MOST

    told = [int(box.read(b"/proc/sys/kernel/" + name)) for name in (b"shmmax", b"shmmni", b"shmall")]
    assert told == [TOLD_LARGEST, TOLD_MOST, TOLD_LARGEST]


def test_loadavg_counts_guests(box: Box, child: int) -> None:
    fields = box.read(b"/proc/loadavg").split()
    assert [float(field) >= 0 for field in fields[:3]] == [True] * 3
    assert fields[3:] == [b"1/2", b"%d" % child]


def test_stat_has_cpus_but_no_interrupt_table(box: Box) -> None:
    lines = {line.split()[0]: line.split()[1:] for line in box.read(b"/proc/stat").splitlines()}
    assert len([name for name in lines if re.fullmatch(rb"cpu\d+", name)]) == os.cpu_count()
    assert len(lines[b"cpu"]) == 10 and len(lines[b"intr"]) == 1 and b"btime" in lines
    assert lines[b"processes"] == [b"%d" % box.me]


def test_memory_and_uptime(box: Box) -> None:
    memory = dict(line.split(b":") for line in box.read(b"/proc/meminfo").splitlines())
    assert int(memory[b"MemTotal"].split()[0]) * 1024 >= os.sysconf("SC_PAGE_SIZE") * 1000
    assert len(box.read(b"/proc/uptime").split()) == 2


def test_counters_stay_live_for_who_keeps_them_open(box: Box) -> None:
    """procps opens these once and rewinds."""
    fd = box.open(b"/proc/uptime")
    first = os.read(fd, 99)
    time.sleep(0.03)
    os.lseek(fd, 0, os.SEEK_SET)
    assert os.read(fd, 99) != first
    node = box.proc.node_of_host(os.readlink(b"/proc/self/fd/%d" % fd), 0, 0, b"")
    os.close(fd)
    assert node is box.walk(b"/proc/uptime")


def test_nothing_of_the_host_in_names(box: Box) -> None:
    host = Path("/proc/cmdline").read_bytes().split()
    assert not set(host[:20]) & set(box.read(b"/proc/cmdline").split()) - {b"quiet"}
    assert box.read(b"/proc/version").startswith(f"Linux version {os.uname().release} ".encode())
    assert box.read(b"/proc/swaps").count(b"\n") == 1
    assert box.read(b"/proc/sys/kernel/hostname") == b"boxed\n"


def test_net_without_a_network_of_its_own(box: Box) -> None:
    """The test process shares the host's network namespace, as a guest with network access does."""
    assert box.walk(b"/proc/net") is box.walk(b"/proc/self/net")
    for name in box.names(b"/proc/net"):
        rows = box.read(b"/proc/net/" + name).splitlines()
        if name in (b"tcp", b"tcp6", b"udp", b"udp6", b"unix", b"raw", b"netlink", b"arp", b"route"):
            assert len(rows) == 1, name
            host = Path("/proc/net").joinpath(name.decode())
            if host.exists():
                assert host.read_bytes().splitlines()[0].split() == rows[0].split()
    assert [line.split(b":")[0].strip() for line in box.read(b"/proc/net/dev").splitlines()[2:]] == [b"lo"]


def test_sys_is_read_only_text(box: Box) -> None:
    files = list(box.every_file(b"/proc/sys"))
    assert len(files) > 60
    for path, node in files:
        found = node.tree.stat(box.ctx, node)
        assert found.mode in (st.S_IFREG | 0o444, st.S_IFREG | 0o644) and (found.uid, found.gid) == (0, 0)
        text = box.read(path)
        assert text.endswith(b"\n") or text == b"", path
        with pytest.raises(PermissionError):
            node.tree.open(box.ctx, node, os.O_WRONLY)


@pytest.mark.parametrize("path", [
    b"kernel/pid_max", b"kernel/ngroups_max", b"kernel/osrelease", b"kernel/threads-max", b"vm/overcommit_memory",
    b"vm/max_map_count", b"fs/file-max", b"fs/pipe-max-size", b"fs/inotify/max_user_watches", b"net/core/somaxconn",
])
def test_sys_values_are_the_hosts(box: Box, path: bytes) -> None:
    assert box.read(b"/proc/sys/" + path) == Path("/proc/sys").joinpath(path.decode()).read_bytes()


def test_random_ids(box: Box) -> None:
    first, second = (box.read(b"/proc/sys/kernel/random/uuid") for _ in range(2))
    boots = [box.read(b"/proc/sys/kernel/random/boot_id") for _ in range(2)]
    form = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n")
    assert form.fullmatch(first) and first != second
    assert form.fullmatch(boots[0]) and boots[0] == boots[1] != Path("/proc/sys/kernel/random/boot_id").read_bytes()


def test_mounts(box: Box) -> None:
    assert box.proc.readlink(box.ctx, box.walk(b"/proc/mounts", follow=False)) == b"self/mounts"
    lines = [line.split() for line in box.read(b"/proc/mounts").splitlines()]
    assert [line[1] for line in lines] == [b"/", b"/proc", b"/dev", b"/sys"]
    assert [line[2] for line in lines] == [b"husk", b"proc", b"devtmpfs", b"sysfs"]
    assert all(len(line) == 6 for line in lines)
    assert [line[3].split(b",")[0] for line in lines] == [b"rw", b"rw", b"rw", b"ro"]


def test_mountinfo(box: Box) -> None:
    form = re.compile(rb"(\d+) (\d+) (\d+):(\d+) / (\S+) (\S+) - (\S+) (\S+) (\S+)")
    found = [form.fullmatch(line) for line in box.read(b"/proc/self/mountinfo").splitlines()]
    assert [match and match.group(5) for match in found] == [b"/", b"/proc", b"/dev", b"/sys"]
    root = found[0]
    assert root is not None and all(match and match.group(2) == root.group(1) for match in found[1:])
    assert [match and int(match.group(4)) for match in found] == [40, 41, 42, 43]


def test_mounts_escape_and_nest() -> None:
    trees = [SynthTree(dev=number) for number in range(4)]
    paths = [b"/", b"/a b", b"/a b/c\\d\n", b"/a b/c\\d\n/x/y\t"]
    mounts = list(zip(paths, trees, strict=True))
    assert [line.split()[1] for line in mounts_text(mounts).splitlines()] == [  # type: ignore[arg-type]
        b"/", rb"/a\040b", rb"/a\040b/c\134d\012", rb"/a\040b/c\134d\012/x/y\011"]
    numbers = [line.split()[:2] for line in mountinfo_text(mounts).splitlines()]  # type: ignore[arg-type]
    assert [parent for _, parent in numbers[1:]] == [number for number, _ in numbers[:-1]]


def test_auxv_is_a_vector(box: Box) -> None:
    raw = box.read(b"/proc/self/auxv")
    pairs = dict(struct.iter_unpack("QQ", raw))
    assert pairs[6] == os.sysconf("SC_PAGE_SIZE") and pairs[0] == 0


def test_every_name_has_a_text() -> None:
    """Names and texts are kept apart, so that starting a box loads no texts."""
    from husk.vfs.proc.entries import _NET_FILES, TASK_FILES
    from husk.vfs.proc.net_files import NET_TEXT
    from husk.vfs.proc.task_files import TASK_TEXT

    counters = {b"netstat", b"snmp", b"snmp6"}  # made from the host's own list of names
    assert TASK_FILES.keys() - {b"mem"} == TASK_TEXT.keys() and set(_NET_FILES) - counters == NET_TEXT.keys()

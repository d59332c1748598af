"""The meter measures real processes and files of this test, and reports each limit once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from mmap import MADV_DONTNEED, MADV_NOHUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ
from pathlib import Path

import pytest

from husk.sandbox.limits import memory_use as memoryuse
from husk.sandbox.limits import meter
from husk.sandbox.limits.cgroups import Group
from husk.sandbox.limits.limits import Exceeded, Limits
from husk.sandbox.limits.meter import Disk, Meter

# Python's mmap keeps a descriptor of its own.
MAPPED = (
    "fd = os.memfd_create('x'); os.write(fd, bytes(64 << 20)); kept.append(mmap.mmap(fd, 64 << 20)); "
    "os.closerange(3, 64)"
)
PAGE_TABLES = (
    f"kept.append(mmap.mmap(-1, 32 << 30, {MAP_PRIVATE | MAP_ANONYMOUS}, {PROT_READ})); "
    f"kept[0].madvise({MADV_NOHUGEPAGE}); [kept[0][i] for i in range(0, 32 << 30, 2 << 20)]"
)


class Watched:
    """A meter over some processes; `told` is what it reported."""

    def __init__(self, place: Path, pids: list[int], *texts: str, group: Group | None = None, bounded: bool = True,
                 elsewhere: int = 0):
        limits = Limits()
        for text in texts:
            limits.read(text)
        self.told: list[Exceeded] = []
        disk = Disk(os.fsencode(place), elsewhere)
        self.meter = Meter(limits, lambda: pids, pids[0] if pids else 0, disk, group, self.told.append, dict,
                           forks_bounded=bounded)

    def look(self) -> list[str]:
        self.meter.measure()
        return [limit.name for limit in self.told]


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """A process that executes one line of Python at a time."""
    script = "import mmap, os, sys, time\nkept = []\nfor line in sys.stdin:\n    exec(line); print('done', flush=True)"
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as process:
        yield process
        process.kill()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


@pytest.mark.parametrize(
    "take",
    [
        "kept.append(bytearray(os.urandom(1 << 20) * 64))",
        "fd = os.memfd_create('x'); os.write(fd, bytes(64 << 20))",
        "kept.append(mmap.mmap(-1, 64 << 20)); kept[0].write(b'x' * (64 << 20))",
        f"kept.append(mmap.mmap(-1, 64 << 20)); kept[0].write(b'x' * (64 << 20)); kept[0].madvise({MADV_DONTNEED})",
        MAPPED,
        PAGE_TABLES,
    ],
    ids=["own", "memfd", "shared", "shared, let go", "memfd, only mapped", "page tables"],
)
def test_memory(
    tmp_path: Path, holder: subprocess.Popen[str], take: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_host = [0]  # whatever others on this machine take and give back meanwhile
    monkeypatch.setattr(memoryuse, "shared_on_host", lambda: on_host[0])
    watched = Watched(tmp_path, [holder.pid], "memory=48M")
    assert watched.look() == []
    tell(holder, take)
    on_host[0] = 64 << 20
    assert watched.look() == ["memory"] and watched.told[0].ended
    assert watched.told[0].seen < 90 << 20, "counted twice"
    assert watched.look() == ["memory"], "told once"


def test_memory_that_husk_keeps_for_the_box(tmp_path: Path) -> None:
    watched = Watched(tmp_path, [], "memory=48M")
    assert watched.look() == []
    watched.meter._memory._kept = lambda: {(1, 2): 40 << 20, (1, 3): 10 << 20}
    assert watched.look() == ["memory"] and watched.told[0].seen == 50 << 20


def test_the_hosts_own_shared_memory_is_not_the_boxs(
    tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows by much, and the box has mapped much without touching it."""
    watched = Watched(tmp_path, [holder.pid], "memory=48M")
    monkeypatch.setattr(memoryuse, "shared_on_host", lambda: 1 << 40)
    assert watched.look() == []
    if os.geteuid() == 0:  # the host shows only root what a mapping is of
        tell(holder, "kept.append(mmap.mmap(-1, 64 << 20))")
        assert watched.look() == []


def test_what_all_of_the_host_shares_is_known() -> None:
    (told,) = [line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("Shmem:")]
    assert abs(memoryuse.shared_on_host() - (int(told) << 10)) < 1 << 30  # others come and go


def test_shared_pages_count_once(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """Four processes share 64 MiB: the cheap sum counts them four times, and must not decide."""
    tell(holder, "kept.append(mmap.mmap(-1, 64 << 20)); kept[0].write(b'x' * (64 << 20))")
    tell(holder, "kept += [os.fork() or (kept[0].find(b'y', 0), time.sleep(600), os._exit(0)) for _ in range(3)]")
    children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
    pids = [holder.pid, *map(int, children.read_text().split())]
    assert len(pids) == 4
    deadline = time.monotonic() + 60
    try:
        while sum(memoryuse.resident(pid) for pid in pids) < 200 << 20:
            assert time.monotonic() < deadline, "the children never touched the pages"
            time.sleep(0.01)
        assert Watched(tmp_path, pids, "memory=200M").look() == []
    finally:
        for pid in pids[1:]:
            os.kill(pid, 9)


def test_processor_time(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    watched = Watched(tmp_path, [holder.pid], "cpu=1")
    assert watched.look() == []
    tell(holder, "[0 for _ in iter(lambda: time.process_time() > 1.1, True)]")
    assert watched.look() == ["cpu"]
    assert 1 < watched.told[0].seen < 5


def test_processor_time_of_the_forgotten(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """The time of a process that ended without a parent adding it up counts as it was last seen."""
    watched = Watched(tmp_path, [os.getpid()], "cpu=1000")
    watched.meter._times = {-1: 2000.0}
    assert watched.look() == ["cpu"]


def test_disk(tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "EVERY_FILE", 0.0)
    files = tmp_path / "files"
    files.mkdir()
    (files / "before").write_bytes(bytes(4 << 20))
    watched = Watched(tmp_path, [holder.pid], "disk=3M", elsewhere=-(4 << 20))
    assert watched.look() == [], "what is husk's own does not count"
    (files / "1").write_bytes(bytes(2 << 20))
    (files / "hole").touch()
    os.truncate(files / "hole", 1 << 30)
    assert watched.look() == []
    second = str(files / "2")
    tell(holder, f"kept.append(os.open({second!r}, os.O_RDWR | os.O_CREAT)); os.write(kept[0], bytes(2 << 20))")
    (files / "2").unlink()
    assert watched.look() == ["disk"], "a file without a name counts while it is open"
    assert 4 << 20 <= watched.told[0].seen < 5 << 20


def test_files_are_counted_when_the_disk_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting is expensive: it is done again only when enough was written, or after some time."""
    counted: list[bytes] = []

    def count(folder: bytes) -> int:
        counted.append(folder)
        return 0

    monkeypatch.setattr(meter, "used_bytes", count)
    monkeypatch.setattr(meter, "EVERY_FILE", 1000.0)
    space = os.statvfs(tmp_path)
    monkeypatch.setattr(meter.os, "statvfs", lambda path: space)  # type: ignore[attr-defined]
    watched = Watched(tmp_path, [], "disk=1G")
    for _ in range(5):
        watched.look()
    assert len(counted) == 1
    more = 300 * (1 << 20) // space.f_frsize
    fuller = os.statvfs_result((*space[:3], space.f_bfree - more, *space[4:]))
    monkeypatch.setattr(meter.os, "statvfs", lambda path: fuller)  # type: ignore[attr-defined]
    watched.look()
    assert len(counted) == 2


def test_descriptors(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """The host makes pipes natively, and does not report when the limit is met."""
    watched = Watched(tmp_path, [holder.pid], "files=40")
    assert watched.look() == []
    tell(holder, "kept += [os.pipe() for _ in range(20)]")
    assert watched.look() == ["files"] and not watched.told[0].ended
    watched.meter.check_fd_table(holder.pid)
    assert len(watched.told) == 1
    other = Watched(tmp_path, [], "files=40")
    other.meter.check_fd_table(holder.pid)
    assert [limit.name for limit in other.told] == ["files"]


def test_processes(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    assert Watched(tmp_path, [holder.pid], "processes=2").look() == []
    at_it = Watched(tmp_path, [holder.pid], "processes=1")
    assert at_it.look() == ["processes"] and not at_it.told[0].ended, "the kernel refuses the next one; the box goes on"
    shared = Watched(tmp_path, [holder.pid], "processes=1", bounded=False)
    assert shared.look() == []
    tell(holder, "import threading; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()")
    assert shared.look() == ["processes"] and shared.told[0].ended, "nobody refuses, so the box ends"


def test_what_a_group_counts_is_believed(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\n")
    (tmp_path / "memory.events").write_text("max 3\noom_kill 1\n")
    (tmp_path / "pids.events").write_text("max 7\n")
    (tmp_path / "pids.current").write_text("3\n")
    group = Group(str(tmp_path))
    group.enforces = {"memory", "processes"}
    watched = Watched(tmp_path, [], "cpu=2", "memory=1M", "processes=5", group=group)
    assert watched.look() == ["processes", "cpu", "memory"]
    assert [limit.ended for limit in watched.told] == [False, True, True]
    assert str(watched.told[2]) == "limit: memory 1M exceeded", "the kernel let it have no more: nothing else was seen"


@pytest.mark.parametrize("file", ["pids.current", "pids.peak"])
def test_a_group_that_is_full_has_refused_nothing_itself(tmp_path: Path, file: str) -> None:
    """RLIMIT_NPROC has the same value and Linux checks it first: pids.events stays at 0."""
    (tmp_path / "pids.events").write_text("max 0\n")
    (tmp_path / file).write_text("4\n")
    group = Group(str(tmp_path))
    group.enforces = {"processes"}
    watched = Watched(tmp_path, [], "processes=5", group=group)
    assert watched.look() == []
    (tmp_path / file).write_text("5\n")
    watched.meter.group_ends()
    assert [(limit.name, limit.ended) for limit in watched.told] == [("processes", False)]


def test_what_is_known_only_after_the_end(tmp_path: Path) -> None:
    watched = Watched(tmp_path, [], "cpu=2")
    watched.meter.start()
    watched.meter.stop()
    assert watched.told == []
    watched.meter.final(2.5)
    assert [limit.name for limit in watched.told] == ["cpu"]


def test_one_file_that_stopped_at_the_limit(tmp_path: Path) -> None:
    """RLIMIT_FSIZE fails its writes there, so that the sum is never above the limit."""
    watched = Watched(tmp_path, [], "disk=1M")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "1").write_bytes(bytes(1 << 20))
    assert watched.look() == []
    watched.meter.final(0.0)
    assert [str(limit) for limit in watched.told] == ["limit: disk 1M reached"]


def test_the_dead_do_not_stop_it(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert Watched(tmp_path, [gone.pid], "cpu=1", "memory=1M", "disk=1M", "processes=5").look() == []


def test_tasks_of_a_user() -> None:
    assert meter.user_tasks(os.getuid()) >= 1
    assert meter.user_tasks(4_000_000_001) == 0

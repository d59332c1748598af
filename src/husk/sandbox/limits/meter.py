"""sandbox: a thread that measures from time to time how much a box uses, and reports each limit that is met.

It runs only if the caller gave a limit that Linux's own per-process limits do not enforce: processor time, memory and
disk are sums over the box. Where a control group enforces one of them, only its counter is read. The meter reads what
the host shows and changes nothing; what to do about a limit that is met is up to the box.
docs/design/008-limits.md says how far a box can get between two measurements.
"""

from __future__ import annotations

import _thread
import os
import time

from husk.kernel.fd_tables import tables_of
from husk.native.threads import start_thread
from husk.sandbox.limits.disk_use import used_bytes
from husk.sandbox.limits.limits import Exceeded
from husk.sandbox.limits.memory_use import MemoryUse, held_unnamed, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.sandbox.limits.cgroups import Group
    from husk.sandbox.limits.limits import Limits
    from husk.sandbox.limits.memory_use import InMemory

SHORTEST = 0.02  # seconds between two measurements
SHARE = 10  # measuring may take a tenth of the time
EVERY_FILE = 2.0  # seconds after which all files are counted even if the file system says little was written
TICK = 1 / os.sysconf("SC_CLK_TCK")


class Disk:
    """Where the box's files are: in its state directory, and `elsewhere` bytes in layers of earlier runs. Files of
    earlier runs in the same box count too: the limit is for the box."""

    __slots__ = ("elsewhere", "state")

    def __init__(self, state: bytes, elsewhere: int) -> None:
        self.state, self.elsewhere = state, elsewhere

    def used(self) -> int:
        return used_bytes(self.state) + self.elsewhere


class Meter:
    """`over` is called once for each limit that is met: by the meter's thread, or in a call of `check_fd_table`."""

    def __init__(
        self,
        limits: Limits,
        pids: Callable[[], list[int]],
        reaper: int,
        disk: Disk,
        group: Group | None,
        over: Callable[[Exceeded], None],
        segments: Callable[[], InMemory],
        *,
        forks_bounded: bool,
    ) -> None:
        self._limits, self._reaper, self._disk, self._group, self._over = limits, reaper, disk, group, over
        self._pids = pids if group is None else group.pids
        self._forks_bounded = forks_bounded  # the kernel itself refuses a fork above the limit
        self._memory = MemoryUse(segments)
        self._reported: set[str] = set()
        self._report_lock = _thread.allocate_lock()
        self._enough = _thread.allocate_lock()
        self._enough.acquire()
        self._left = _thread.allocate_lock()
        self._times: dict[int, float] = {}  # processor time of each process when last seen
        self._times_gone = 0.0
        self._disk_used, self._counted_at, self._blocks_then = 0, 0.0, 0

    # -- life --------------------------------------------------------------------------------------------------
    def start(self) -> None:
        self._left.acquire()
        try:
            start_thread(self._run)
        except OSError:
            self._left.release()
            raise

    def stop(self) -> None:
        """After the box is gone: nothing of the thread is left when this returns."""
        self._enough.release()
        self._left.acquire()

    def _run(self) -> None:
        pause = SHORTEST
        try:
            while not self._enough.acquire(timeout=pause):
                # Processor time, not wall time: on a busy host the thread waits for most of the latter, and a pause of
                # nine times that would let the box run on for seconds.
                begin = time.thread_time()
                try:
                    self.measure()
                except OSError:
                    pass  # a process or file vanished meanwhile; the next measurement will do
                pause = max(SHORTEST, (time.thread_time() - begin) * (SHARE - 1))
        finally:
            self._left.release()

    # -- one measurement ---------------------------------------------------------------------------------------
    def measure(self) -> None:
        limits, pids = self._limits, self._pids()
        if limits["processes"] is not None:
            self._check_processes(limits["processes"], pids)
        if limits["cpu"] is not None:
            self._compare("cpu", self._cpu(pids))
        if limits["memory"] is not None:
            self._check_memory(limits["memory"], pids)
        if limits["disk"] is not None:
            self._check_disk(limits["disk"], pids)
        if limits["files"] is not None:
            for pid in pids:
                self.check_fd_table(pid)

    def check_fd_table(self, pid: int) -> None:
        """Has this process as many descriptors as the limit allows? Called from any thread."""
        allowed = self._limits["files"]
        if allowed is not None and (count := _descriptors(pid)) >= allowed:
            self._report("files", count, ends=False)

    def group_ends(self) -> None:
        """Read the group a last time: processes may have died of a limit between two measurements."""
        limits = self._limits
        if self._group is not None and "memory" in self._group.enforces:
            self._check_memory(limits["memory"] or 0, [])
        if self._group is not None and limits["processes"] is not None:
            self._check_processes(limits["processes"], [])

    def final(self, cpu_seconds: float) -> None:
        """Check what is known only after the end."""
        limits = self._limits
        if limits["cpu"] is not None:
            self._compare("cpu", cpu_seconds)
        if limits["disk"] is not None and self._disk.used() >= limits["disk"]:
            # RLIMIT_FSIZE stopped a single file at this size: a call failed, and the sum was never above the limit.
            self._report("disk", limits["disk"], ends=False)

    def _compare(self, name: str, seen: float, *, ends: bool = True) -> None:
        allowed = self._limits[name]
        if allowed is not None and seen > allowed:
            self._report(name, seen, ends=ends)

    def _report(self, name: str, seen: float, *, ends: bool) -> None:
        with self._report_lock:
            known = name in self._reported
            self._reported.add(name)
        if not known:
            self._over(Exceeded(name, self._limits[name] or 0, seen, ended=ends))

    def _check_processes(self, allowed: int, pids: list[int]) -> None:
        group = self._group
        if group is not None and "processes" in group.enforces:
            # RLIMIT_NPROC has the same value and is checked first, so the group may never have refused a fork.
            # Not every kernel has the peak.
            count = max(group.value("pids.current"), group.value("pids.peak"))
            if count >= allowed or group.number("pids.events", "max"):
                self._report("processes", count, ends=False)
            return
        count = sum(_threads(pid) for pid in pids)
        if not self._forks_bounded:
            self._compare("processes", count)
        elif count >= allowed:  # the next one would be refused
            self._report("processes", count, ends=False)

    def _cpu(self, pids: list[int]) -> float:
        """The kernel's sums or the meter's own, whichever is more: for a parent that ignores SIGCHLD the kernel does
        not add up the times of its children."""
        if self._group is not None and (used := self._group.number("cpu.stat", "usage_usec")):
            return used / 1e6
        inherited, seen = 0.0, {}
        for pid in [*pids, self._reaper]:
            try:
                own, children = _processor_times(pid)
            except (OSError, ValueError):
                continue
            seen[pid] = own
            inherited += own + children
        # A pid that is used again counts as the same process; the new one's time is then counted a little late.
        self._times_gone += sum(used for pid, used in self._times.items() if pid not in seen)
        self._times = seen
        return max(inherited, self._times_gone + sum(seen.values()))

    def _check_memory(self, allowed: int, pids: list[int]) -> None:
        group = self._group
        if group is not None and "memory" in group.enforces:
            if group.number("memory.events", "oom_kill"):
                self._report("memory", allowed, ends=True)  # the kernel did not allow more than that
            return
        used = self._memory.above(allowed, pids)
        if used:
            self._report("memory", used, ends=True)

    def _check_disk(self, allowed: int, pids: list[int]) -> None:
        """Counting every file is expensive, and not needed while the file system's own count rose by less than the room
        left. Other programs write to it too, which only means counting more often; or they free space, hence the second
        clock."""
        space = os.statvfs(self._disk.state)
        taken = (space.f_blocks - space.f_bfree) * space.f_frsize
        now = time.monotonic()
        # A quarter of the room at a time, so that space freed by other programs cannot hide much.
        room = (allowed - self._disk_used) // 4
        if self._counted_at and taken - self._blocks_then < room and now - self._counted_at < EVERY_FILE:
            return
        self._counted_at, self._blocks_then = now, taken
        held = held_unnamed(pids, self._disk.state + b"/")
        self._disk_used = self._disk.used() + sum(held.values())
        self._compare("disk", self._disk_used)


def user_tasks(uid: int) -> int:
    """Processes and threads of a user now, which is what RLIMIT_NPROC compares with."""
    count = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.stat(f"/proc/{entry}").st_uid == uid:
                    count += _threads(int(entry))
            except OSError:
                continue
    return count


def _descriptors(pid: int) -> int:
    """How many are open in its fullest table. Linux 6.2 and later say so without a listing."""
    try:
        return max(os.stat(table).st_size or len(os.listdir(table)) for table in tables_of(pid))
    except OSError:
        return 0  # gone


def _threads(pid: int) -> int:
    return sum(status(pid, (b"Threads",)))


def _processor_times(pid: int) -> tuple[float, float]:
    """(its own, that of the children it has waited for) in seconds."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        words = stat.read().rpartition(b")")[2].split()  # the name may hold anything
    user, system, children_user, children_system = (int(word) * TICK for word in words[11:15])
    return user + system, children_user + children_system

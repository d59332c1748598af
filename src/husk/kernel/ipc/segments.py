"""kernel: System V shared memory. Without an ipc namespace keys and ids are shared by the whole host. With one, a
segment that no process has attached is memory that only a control group counts. So a segment is a memfd of husk, and
its key and id are known in this box alone.

husk does not record which process has a segment attached: the host's list of mappings tells that, and it stays right
through fork, exec and death.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.kernel.tasks import LiveRuns

IPC_PRIVATE = 0
DEST = 0o1000  # in a mode: to be destroyed with its last attachment
MOST = 256  # each costs husk a descriptor
# Linux's own defaults, which shmctl and /proc/sys/kernel tell. What husk gives is less, and ends with the same ENOSPC.
TOLD_MOST, TOLD_LARGEST = 4096, (1 << 64) - 1 - (1 << 24)
LARGEST = 1 << 40  # of all together; what was touched counts as the box's memory (sandbox/limits/memory_use.py)
# A guest thread can take the descriptor while it is being mapped: it must not be able to change the size.
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Segment:
    __slots__ = (
        "attached_at", "by", "changed_at", "detached_at", "dev", "fd", "gid", "id", "ino", "key", "last", "mode",
        "size", "uid",
    )  # fmt: skip

    def __init__(self, number: int, key: int, size: int, mode: int, by: int, owner: tuple[int, int]) -> None:
        self.id, self.key, self.size, self.mode, self.by, self.last = number, key, size, mode, by, 0
        self.uid, self.gid = owner
        self.attached_at, self.detached_at, self.changed_at = 0, 0, int(time.time())
        self.fd = os.memfd_create("SYSV%08x" % (key & 0xFFFFFFFF), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
            host = os.fstat(self.fd)
        except OSError:
            os.close(self.fd)
            raise OSError(errno.ENOMEM, "no room for it") from None
        self.dev, self.ino = host.st_dev, host.st_ino

    def permits(self, wanted: int) -> None:
        """All processes in a box have the same user: only the owner's bits count. EACCES."""
        if wanted & ~(self.mode >> 6) & 7:
            raise OSError(errno.EACCES, "the segment's mode does not allow it")


class Segments:
    """Those of one box. `live` knows which processes may have one attached."""

    __slots__ = ("_by_id", "_last", "_live", "lock")

    def __init__(self, live: LiveRuns) -> None:
        self._live, self._last, self._by_id = live, -1, dict[int, Segment]()
        self.lock = _thread.allocate_lock()  # held by the callers of everything below

    def with_key(self, key: int) -> Segment | None:
        if key == IPC_PRIVATE:
            return None
        return next((one for one in self._by_id.values() if one.key == key), None)

    def make(self, key: int, size: int, mode: int, by: int, owner: tuple[int, int]) -> Segment:
        if not 1 <= size <= LARGEST:
            raise OSError(errno.EINVAL, "no size for a segment")
        if not self._room(size):
            self.sweep()
        if not self._room(size):
            raise OSError(errno.ENOSPC, "too many segments")
        self._last += 1
        segment = self._by_id[self._last] = Segment(self._last, key, size, mode, by, owner)
        return segment

    def _room(self, size: int) -> bool:
        return len(self._by_id) < MOST and size + sum(one.size for one in self._by_id.values()) <= LARGEST

    def find(self, number: int) -> Segment:
        segment = self._by_id.get(number)
        if segment is not None and segment.mode & DEST:
            self.sweep()
            segment = self._by_id.get(number)
        if segment is None:
            raise OSError(errno.EINVAL, "no such segment")
        return segment

    def remove(self, segment: Segment) -> None:
        """Its key is free from now on; what is attached stays until it is detached."""
        segment.key, segment.mode = IPC_PRIVATE, segment.mode | DEST
        self.sweep()

    def sweep(self) -> None:
        """Forget segments that were removed and are attached nowhere."""
        for segment in [one for one in self._by_id.values() if one.mode & DEST]:
            if not self.attached(segment):
                del self._by_id[segment.id]
                os.close(segment.fd)

    def attached(self, segment: Segment) -> int:
        """Counted as Linux counts: an attachment that mprotect has split counts twice."""
        ours = segment.dev, segment.ino
        return sum(1 for pid in self._live.host_pids() for _, _, _, file in _mappings(pid) if file == ours)

    def at(self, pid: int, address: int) -> tuple[Segment, int] | None:
        """The segment attached at `address`, and how much of it lies there in one piece."""
        ours = {(one.dev, one.ino): one for one in self._by_id.values()}
        found, end = None, address
        for start, stop, offset, file in _mappings(pid):
            here = ours.get(file) if start == end and start - address == offset else None
            if here is not None and found in (None, here):
                found, end = here, stop
        return (found, end - address) if found is not None else None

    def in_use(self) -> tuple[int, int, int, int]:
        """How many, their pages, those of them in memory, and the highest id."""
        self.sweep()
        every = self._by_id.values()
        pages = sum(-(-one.size // 4096) for one in every)
        return len(every), pages, sum(os.fstat(one.fd).st_blocks for one in every) // 8, max(self._by_id, default=0)

    def in_memory(self) -> dict[tuple[int, int], int]:
        """Device and inode of each, and the bytes that were touched."""
        with self.lock:
            return {(one.dev, one.ino): os.fstat(one.fd).st_blocks * 512 for one in self._by_id.values()}

    def close(self) -> None:
        for segment in self._by_id.values():
            os.close(segment.fd)
        self._by_id.clear()


def _mappings(pid: int) -> Iterator[tuple[int, int, int, tuple[int, int]]]:
    """What a process has mapped of memory files, in the order of addresses: begin, end, offset, device and inode."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as maps:
            lines = maps.readlines()
    except OSError:
        return  # it has ended
    for line in lines:
        if b" /memfd:SYSV" in line:
            span, _mode, offset, dev, ino = line.split(None, 5)[:5]
            start, stop = span.split(b"-")
            major, minor = dev.split(b":")
            file = os.makedev(int(major, 16), int(minor, 16)), int(ino)
            yield int(start, 16), int(stop, 16), int(offset, 16), file

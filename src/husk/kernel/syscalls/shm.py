"""shmget(2), shmat(2), shmdt(2), shmctl(2): System V shared memory, where the box has no ipc namespace."""

from __future__ import annotations

import errno
import mmap
import os
import struct
import time

from husk.kernel.call import Call, Reply, answered_remotely, i32
from husk.kernel.ipc.segments import DEST, TOLD_LARGEST, TOLD_MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.ipc.segments import Segment, Segments

IPC_CREAT, IPC_EXCL = 0o1000, 0o2000
IPC_RMID, IPC_SET, IPC_STAT, IPC_INFO = range(4)
SHM_LOCK, SHM_UNLOCK, SHM_STAT, SHM_INFO, SHM_STAT_ANY = range(11, 16)
SHM_LOCKED = 0o2000
SHM_RDONLY, SHM_RND, SHM_REMAP, SHM_EXEC, SHM_HUGETLB = 0o10000, 0o20000, 0o40000, 0o100000, 0o4000
MAP_FIXED, MAP_FIXED_NOREPLACE = 0x10, 0x100000
PAGE = 4096
# struct ipc64_perm: key, uid, gid, creator's, mode, sequence; then size, three times, two pids, attachments
SHMID_DS = struct.Struct("<iIIIIIHHIQQ QqqqiiQQQ")


def shmget(call: Call) -> Reply:
    return _get(call, _segments(call), i32(call, 0), call.args[1], i32(call, 2))


def shmat(call: Call) -> Reply:
    return _attach(call, _segments(call), i32(call, 0), call.args[1], i32(call, 2))


def shmdt(call: Call) -> Reply:
    return _detach(call, _segments(call), call.args[0])


def shmctl(call: Call) -> Reply:
    number, command = i32(call, 0), i32(call, 1)
    if number < 0 or not (IPC_RMID <= command <= IPC_INFO or SHM_LOCK <= command <= SHM_STAT_ANY):
        raise OSError(errno.EINVAL, "no such segment or command")
    if command in (IPC_INFO, SHM_INFO):
        return _tell_of_all(call, _segments(call), command)
    return _control(call, _segments(call), number, command)


# -- what they mean ----------------------------------------------------------------------------------------------------


def _segments(call: Call) -> Segments:
    return call.kernel.segments


def _caller(call: Call) -> int:
    """The pid of the caller as guests know it."""
    return call.kernel.tasks.guest_of(call.raw.tgid())


def _get(call: Call, segments: Segments, key: int, size: int, flags: int) -> Reply:
    if flags & SHM_HUGETLB:
        raise OSError(errno.EPERM, "huge pages are the host's to give")
    with segments.lock:
        found = segments.with_key(key)
        if found is None:
            if key and not flags & IPC_CREAT:
                raise OSError(errno.ENOENT, "no segment has this key")
            owner = call.creds.uid, call.creds.gid
            return segments.make(key, size, flags & 0o777, _caller(call), owner).id
        if flags & IPC_CREAT and flags & IPC_EXCL:
            raise OSError(errno.EEXIST, "the key is taken")
        if size > found.size:
            raise OSError(errno.EINVAL, "the segment is smaller")
        found.permits(flags >> 6 | flags >> 3 | flags)
        return found.id


def _attach(call: Call, segments: Segments, number: int, address: int, flags: int) -> Reply:
    if number < 0:
        raise OSError(errno.EINVAL, "no such segment")
    if address % PAGE and flags & SHM_RND:
        address -= address % PAGE
    if address % PAGE or (flags & SHM_REMAP and not address):
        raise OSError(errno.EINVAL, "no address for a segment")
    writes, executes = not flags & SHM_RDONLY, bool(flags & SHM_EXEC)
    fixed = 0 if not address else MAP_FIXED if flags & SHM_REMAP else MAP_FIXED_NOREPLACE
    protection = mmap.PROT_READ | mmap.PROT_WRITE * writes | mmap.PROT_EXEC * executes
    with segments.lock:
        segment = segments.find(number)
        segment.permits(4 | 2 * writes | executes)
        segment.attached_at, segment.last = int(time.time()), _caller(call)
        # Opened anew, so that a segment attached for reading cannot be made writable later.
        fd = os.open(f"/proc/self/fd/{segment.fd}", (os.O_RDWR if writes else os.O_RDONLY) | os.O_CLOEXEC)
    try:
        return answered_remotely(call.raw.map(fd, address, segment.size, protection, mmap.MAP_SHARED | fixed))
    finally:
        os.close(fd)


def _detach(call: Call, segments: Segments, address: int) -> Reply:
    with segments.lock:
        found = segments.at(call.tid, address) if address % PAGE == 0 else None
        if found is None:
            raise OSError(errno.EINVAL, "no segment is attached there")
        segment, size = found
        segment.detached_at, segment.last = int(time.time()), _caller(call)
    reply = answered_remotely(call.raw.unmap(address, size))
    if segment.mode & DEST:
        with segments.lock:
            segments.sweep()
    return reply


def _control(call: Call, segments: Segments, number: int, command: int) -> Reply:
    given = call.raw.read(call.args[2], SHMID_DS.size) if command == IPC_SET else b""
    with segments.lock:
        segment = segments.find(number)
        if command in (IPC_STAT, SHM_STAT, SHM_STAT_ANY):
            if command != SHM_STAT_ANY:
                segment.permits(4)
            call.raw.write(call.args[2], _described(segment, segments.attached(segment)))
            return 0 if command == IPC_STAT else segment.id  # an index is an id here
        if command == IPC_SET:
            _, segment.uid, segment.gid, _, _, mode, *_ = SHMID_DS.unpack(given)
            segment.mode, segment.changed_at = segment.mode & ~0o777 | mode & 0o777, int(time.time())
        elif command == IPC_RMID:
            segments.remove(segment)
        elif command in (SHM_LOCK, SHM_UNLOCK):  # to keep it in memory is a wish, and only shown as granted
            segment.mode = segment.mode & ~SHM_LOCKED | (SHM_LOCKED if command == SHM_LOCK else 0)
        return 0


def _tell_of_all(call: Call, segments: Segments, command: int) -> Reply:
    """Tell the limits, or the use; the result is the highest index either way."""
    with segments.lock:
        count, pages, resident, highest = segments.in_use()
    if command == IPC_INFO:
        told = struct.pack("<9Q", TOLD_LARGEST, 1, TOLD_MOST, TOLD_MOST, TOLD_LARGEST, 0, 0, 0, 0)
    else:
        told = struct.pack("<i4x5Q", count, pages, resident, 0, 0, 0)
    call.raw.write(call.args[2], told)
    return highest


def _described(segment: Segment, attached: int) -> bytes:
    one = segment
    owner = one.uid, one.gid, one.uid, one.gid
    times = one.attached_at, one.detached_at, one.changed_at
    return SHMID_DS.pack(one.key, *owner, one.mode, 0, 0, 0, 0, 0, one.size, *times, one.by, one.last, attached, 0, 0)

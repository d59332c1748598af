"""kernel: flock(2) on files that a box shares with the host and with other boxes (docs/design/016-locks.md).

A guest's own lock on such a file would hold up host programs, and two boxes could signal by it. So the lock is taken on
a stand-in, a memfd that only this box has: the host's kernel still decides who waits for whom. A guest's open file has
a *holder*: husk's duplicate of it, which tells it from others, and an open file of the stand-in, which has the lock.
Life of a holder: made by the first lock of an open file; ended by LOCK_UN, or once no process of the box has that open
file any more. husk is not told of a close, so it looks when another lock is refused, and now and then while one waits.
"""

from __future__ import annotations

import _thread
import errno
import os
import time

from husk.kernel.fd_tables import tables_of
from husk.native._core import lock_file, same_open_file
from husk.native.threads import start_thread
from husk.vfs.fd_reserve import is_in_reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.tasks import LiveRuns

    Patiently = Callable[[Callable[[], None]], None]

LOCK_NB, LOCK_UN = 4, 8
MOST = 256  # holders of one box; each takes two or three of husk's descriptors
PASSES = 2  # over the descriptor tables: a descriptor may move from one process to another during a pass
FIRST_LOOK, LONGEST_PAUSE = 0.005, 0.1  # seconds between two looks for holders that are gone, while a lock waits


class _Holder:
    __slots__ = ("file", "lock", "waits")

    def __init__(self, file: int, lock: int) -> None:
        self.file, self.lock = file, lock
        self.waits = 0  # threads that wait in the host for this lock


class _StandIn:
    __slots__ = ("fd", "holders")

    def __init__(self) -> None:
        self.fd = os.memfd_create("lock")
        self.holders: list[_Holder] = []


class PrivateLocks:
    """The private locks of one box, all its runs together. `key` says which file is meant."""

    __slots__ = ("_files", "_live", "_lock", "_watching")

    def __init__(self, live: LiveRuns) -> None:
        self._live, self._lock = live, _thread.allocate_lock()
        self._files: dict[bytes, _StandIn] = {}
        self._watching = False

    def close(self) -> None:
        with self._lock:
            for key, stand_in in list(self._files.items()):
                for holder in list(stand_in.holders):
                    self._end(key, stand_in, holder)

    def unlock(self, key: bytes, file: int) -> None:
        with self._lock:
            stand_in, holder = self._find(key, file)
            if stand_in is None or holder is None:
                return
            lock_file(holder.lock, LOCK_UN)
            self._end(key, stand_in, holder)

    def lock(self, key: bytes, file: int, operation: int) -> Callable[[Patiently], None] | None:
        """Lock for the open file `file`, which stays the caller's. None: done. Else what waits for it, in a thread that
        may wait; it is told how to treat EINTR. With LOCK_NB: EAGAIN."""
        with self._lock:
            stand_in, holder = self._find(key, file)
            if stand_in is None or holder is None:
                stand_in, holder = self._new(key, file)
            if self._try(key, stand_in, holder, operation):
                return None
            if operation & LOCK_NB:
                # As on Linux, an attempt to change the kind of a lock loses the one that was there.
                self._end(key, stand_in, holder)
                raise OSError(errno.EAGAIN, "locked")
        found, mine = stand_in, holder
        return lambda patiently: self._wait(key, found, mine, operation, patiently)

    def _wait(self, key: bytes, stand_in: _StandIn, holder: _Holder, operation: int, patiently: Patiently) -> None:
        with self._lock:
            if holder not in stand_in.holders:
                raise OSError(errno.EINTR, "the guest that asked has ended")
            holder.waits += 1
            if not self._watching:
                start_thread(self._watch)
                self._watching = True
        locked = False
        try:
            patiently(lambda: lock_file(holder.lock, operation))
            locked = True
        finally:
            with self._lock:
                holder.waits -= 1
                if not locked:
                    self._end(key, stand_in, holder)

    def _find(self, key: bytes, file: int) -> tuple[_StandIn | None, _Holder | None]:
        stand_in = self._files.get(key)
        me = os.getpid()
        for holder in stand_in.holders if stand_in is not None else ():
            if same_open_file(me, file, holder.file):
                return stand_in, holder
        return stand_in, None

    def _new(self, key: bytes, file: int) -> tuple[_StandIn, _Holder]:
        if sum(len(one.holders) for one in self._files.values()) >= MOST:
            for other in list(self._files):
                self._end_gone(other, self._files[other], None)
            if sum(len(one.holders) for one in self._files.values()) >= MOST:
                raise OSError(errno.ENOLCK, f"the box holds {MOST} locks on files of the host")
        same_open_file(os.getpid(), file, file)  # where the host does not tell, a lock could never be found again
        fds: list[int] = []
        stand_in = self._files.get(key) or _StandIn()
        try:
            fds.append(os.dup(file))
            fds.append(os.open(b"/proc/self/fd/%d" % stand_in.fd, os.O_RDWR | os.O_CLOEXEC))
            if is_in_reserve(fds[0]) or is_in_reserve(fds[1]):
                raise OSError(errno.ENOLCK, "husk has few descriptors left")
        except OSError:
            for fd in fds if stand_in.holders else [*fds, stand_in.fd]:
                os.close(fd)
            raise
        holder = _Holder(*fds)
        stand_in.holders.append(holder)
        self._files[key] = stand_in
        return stand_in, holder

    def _try(self, key: bytes, stand_in: _StandIn, holder: _Holder, operation: int) -> bool:
        for look in (True, False):
            try:
                lock_file(holder.lock, operation | LOCK_NB)
                return True
            except BlockingIOError:
                if not look or not self._end_gone(key, stand_in, holder):
                    return False
        return False

    def _end(self, key: bytes, stand_in: _StandIn, holder: _Holder) -> None:
        """The caller has the lock. Does nothing where a thread still waits with it."""
        if holder.waits or holder not in stand_in.holders:
            return
        stand_in.holders.remove(holder)
        os.close(holder.lock)
        os.close(holder.file)
        if not stand_in.holders:
            os.close(stand_in.fd)
            del self._files[key]

    def _end_gone(self, key: bytes, stand_in: _StandIn, asking: _Holder | None) -> int:
        """End the holders whose open file no process of the box has. How many?"""
        gone = [one for one in stand_in.holders if one is not asking and not one.waits and not self._is_open(one.file)]
        for holder in gone:
            lock_file(holder.lock, LOCK_UN)  # not only closed: a forked copy of husk may have the descriptor too
            self._end(key, stand_in, holder)
        return len(gone)

    def _is_open(self, file: int) -> bool:
        found = os.fstat(file)
        identity = found.st_dev, found.st_ino
        return any(_has(pid, identity, file) for _ in range(PASSES) for pid in self._live.host_pids())

    def _watch(self) -> None:
        """Lives as long as a lock waits. Looks for at most a fifth of the time."""
        pause = FIRST_LOOK
        while True:
            time.sleep(pause)
            begin = time.monotonic()
            with self._lock:
                waited_for = [
                    (key, one) for key, one in self._files.items() if any(holder.waits for holder in one.holders)
                ]
                if not waited_for:
                    self._watching = False
                    return
                for key, stand_in in waited_for:
                    self._end_gone(key, stand_in, None)
            pause = max(min(pause * 1.5, LONGEST_PAUSE), 4 * (time.monotonic() - begin))


def _has(pid: int, identity: tuple[int, int], file: int) -> bool:
    """Has this process a descriptor of the open file? No, where it ended or may not be looked at."""
    try:
        for table in tables_of(pid):
            thread = int(table.split(b"/")[-3])
            for name in os.listdir(table):
                try:
                    found = os.stat(table + name)
                    if (found.st_dev, found.st_ino) == identity and same_open_file(thread, int(name), file):
                        return True
                except OSError:
                    continue  # closed meanwhile
    except OSError:
        pass
    return False

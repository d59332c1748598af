"""kernel: finds record locks (fcntl F_SETLK) that a guest took on a file it shares with the host.

Such a lock belongs to the guest's process, so the host continues the guest's own call after husk has judged the
descriptor. Another thread can exchange the descriptor in between (docs/design/016-locks.md). husk cannot prevent that,
but the host lists all locks: husk looks after each such call, and ends a process that has a lock it must not have.
"""

from __future__ import annotations

import _thread
import os
import signal
import time

from husk.kernel.fd_tables import tables_of
from husk.kernel.locks.shared_files import shared_name
from husk.native.threads import start_thread
from husk.vfs.pinned import identify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.tasks import LiveRuns
    from husk.vfs.vfs import Vfs

    Report = Callable[[str, str, str, str, str], None]

FIRST_LOOK, LONGEST_PAUSE = 0.01, 0.5  # seconds after a call; twice as long after each look
ENOUGH = 2.0  # seconds without a call, if none waits either
WHY = "a record lock on a file of the host, by a descriptor that was exchanged during the call; the process was ended"


class RecordLocks:
    """Watches over one box. The thread lives while there is something to look for."""

    __slots__ = ("_last", "_live", "_lock", "_pause", "_report", "_vfs", "_watching")

    def __init__(self, vfs: Vfs, live: LiveRuns) -> None:
        self._vfs, self._live, self._lock = vfs, live, _thread.allocate_lock()
        self._watching, self._pause, self._last = False, FIRST_LOOK, 0.0
        self._report: Report | None = None

    def expect(self, report: Report) -> None:
        """A guest is about to take or wait for a record lock."""
        with self._lock:
            self._report, self._pause, self._last = report, FIRST_LOOK, time.monotonic()
            if not self._watching:
                start_thread(self._watch)
                self._watching = True

    def close(self) -> None:
        """The box is over, and so are its locks."""
        with self._lock:
            self._last, self._pause = -ENOUGH, FIRST_LOOK

    def _watch(self) -> None:
        while True:
            with self._lock:
                pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
            time.sleep(pause)
            waiting = self.look()
            with self._lock:
                if not waiting and time.monotonic() - self._last > ENOUGH:
                    self._watching = False
                    return

    def look(self) -> bool:
        """End every process with a lock it must not have. Does a process of the box wait for one?"""
        pids, waiting = set(self._live.host_pids()), False
        if not pids:
            return False
        with open("/proc/locks", "rb") as table:
            lines = [line.split() for line in table]
        for words in lines:  # 1: POSIX ADVISORY READ 1234 fe:00:5678 0 EOF; with an arrow: it waits
            blocked = words[1] == b"->"
            kind, pid, place = words[1 + blocked], int(words[4 + blocked]), words[5 + blocked]
            if kind != b"POSIX" or pid not in pids:
                continue
            waiting |= blocked
            major, minor, inode = place.split(b":")
            if not blocked and self._must_not(pid, os.makedev(int(major, 16), int(minor, 16)), int(inode)):
                self._end(pid)
        return waiting

    def _must_not(self, pid: int, device: int, inode: int) -> bool:
        """Is the locked file shared? A process with a record lock has a descriptor of the file: the first close would
        end the lock. Some file systems show devices in `stat` that this list does not have."""
        alike: list[tuple[bool, bool]] = []
        try:
            for table in tables_of(pid):
                for name in os.listdir(table):
                    try:
                        if os.stat(table + name).st_ino == inode:
                            alike.append(self._judge(table, name, device))
                    except (OSError, ValueError):
                        continue  # closed meanwhile
        except OSError:
            return False  # ended
        exact = [shared for same, shared in alike if same] or [shared for _, shared in alike]
        return bool(exact) and all(exact)

    def _judge(self, table: bytes, name: bytes, device: int) -> tuple[bool, bool]:
        link, found = identify(table + name)
        with open(table[: -len(b"fd/")] + b"fdinfo/" + name, "rb") as info:
            flags = next(int(line.split()[1], 8) for line in info if line.startswith(b"flags:"))
        return found.st_dev == device, shared_name(self._vfs, table + name, link, found, flags) is not None

    def _end(self, pid: int) -> None:
        try:
            process = os.pidfd_open(pid)
        except OSError:
            return
        try:
            if pid in self._live.host_pids():  # its number may be another's by now
                signal.pidfd_send_signal(process, signal.SIGKILL)
                if self._report is not None:
                    self._report("fcntl", "SIGKILL", "a record lock", WHY, "")
        except ProcessLookupError:
            pass
        finally:
            os.close(process)

"""sandbox: guests without their reaper, and how husk finds and ends them.

The reaper ends a run. It may be killed or stopped from outside, or by the host for want of memory. In a pid namespace
the kernel ends the other processes with it. Without one they live on, as children of some process of the host. So
husk-init marks itself before it does anything else, by its hard limit on file locks (RLIMIT_LOCKS). Linux hands that
down through fork and execve, has not used it since 2.4.25, and shows it to husk; the filter lets no guest change it.
What was rejected is in docs/design/017-reaper.md.

The upper bits of a mark are of the box, by the name of its state directory: the next husk ends what a killed one left.
The lower ones are of the run: other runs of the box go on.
"""

from __future__ import annotations

import _thread
import itertools
import os
import time

from husk.native._core import kill_marked
from husk.native.threads import start_thread

SIGKILL = 9
RUN_BITS = 16
ALL_BITS = (1 << 64) - 1
QUIET = 3  # passes in a row that find none
PATIENCE = 30.0  # seconds; a process that the host does not let die ends some time later
STOPPED = 1.0  # seconds that a reaper may be stopped: who stops and continues all of husk may continue husk first
LOOK = 0.05

_runs = itertools.count(1)  # no lock: an application may fork at any moment


def box_mark(name: str) -> int:
    """By the name of a state directory, box-PID-RANDOM. Never 0, nor unlimited."""
    _, pid, random = name.split("-")
    return 1 << 62 | (int(pid) & 0x3FFF) << 48 | int(random, 16) << RUN_BITS


def run_mark(name: str) -> int:
    """For the next run in the box with this state directory."""
    return box_mark(name) | next(_runs) & (1 << RUN_BITS) - 1


def end_run(mark: int) -> None:
    """Kill every process with this mark, until none is left. To be called while husk still answers: no guest is to see
    its calls fail."""
    _end(mark, ALL_BITS)


def end_box(name: str) -> None:
    """The same for all runs of a box whose husk was killed."""
    _end(box_mark(name), ALL_BITS << RUN_BITS & ALL_BITS)


def _end(mark: int, mask: int) -> None:
    quiet, deadline = 0, time.monotonic() + PATIENCE
    while quiet < QUIET and time.monotonic() < deadline:
        if kill_marked(mark, mask):
            quiet = 0
            time.sleep(0.001)
        else:
            quiet += 1


class Watch:
    """Watches a reaper, in a thread of its own, from its first report to its end. If it ends other than by ending its
    run, or is stopped and not soon continued, the run ends without it."""

    __slots__ = ("_mark", "_over", "_reaper")

    def __init__(self, reaper: int, mark: int) -> None:
        self._reaper, self._mark = reaper, mark
        self._over = _thread.allocate_lock()
        self._over.acquire()
        start_thread(self._watch)

    def wait(self) -> None:
        """Until the reaper is dead, and all its guests. It is not reaped."""
        with self._over:
            pass

    def _watch(self) -> None:
        try:
            if not self._ended_in_order():
                end_run(self._mark)
        finally:
            self._over.release()

    def _ended_in_order(self) -> bool:
        while True:
            try:
                # WNOWAIT: its number stays its own until `Launch.reap`.
                seen = os.waitid(os.P_PID, self._reaper, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
            except ChildProcessError:
                return False  # the application waits for any child, or ignores SIGCHLD: nothing is known about its end
            assert seen is not None
            if seen.si_code != os.CLD_STOPPED:
                return seen.si_code == os.CLD_EXITED and seen.si_status == 0
            _kill_if_stopped(self._reaper)


def kill_stopped(mark: int) -> None:
    """While a run is being started: husk-init stays stopped, and husk must not wait for it."""
    for child in marked_children(mark):
        _kill_if_stopped(child)


def marked_children(mark: int) -> list[int]:
    """Of this process: builder and reaper, dead ones too. For what need not be fast: `kill_marked` looks for itself."""
    found = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children", "rb") as children:
                found += [int(word) for word in children.read().split()]
        except OSError:
            continue  # the thread has ended, and another one has its children
    return [child for child in found if _hard_limit(child) == mark]


def _hard_limit(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/limits", "rb") as limits:
            (hard,) = [line.split()[4] for line in limits if line.startswith(b"Max file locks")]
    except OSError:
        return 0
    return int(hard) if hard.isdigit() else 0


def _kill_if_stopped(child: int) -> None:
    """It cannot be relied on any more, even if it is continued later."""
    deadline = time.monotonic() + STOPPED
    while _is_stopped(child):
        if time.monotonic() > deadline:
            os.kill(child, SIGKILL)
            return
        time.sleep(LOOK)


def _is_stopped(child: int) -> bool:
    try:
        return os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False

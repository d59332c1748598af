"""kernel: calls that may wait for ever in the host — opening a FIFO, connecting a blocking socket.

Each call waits in a thread of its own, in the host's own call: no other guest is held up, and Linux's rendezvous rules
hold. After reception a notified call can no longer be interrupted (WAIT_KILLABLE_RECV), but Linux lets a signal handler
interrupt these calls. So one more thread, for all of them, watches for signals that the guests handle and for guests
that die, and only then breaks a wait. The number of waiting calls of a box is bounded: each costs husk a thread and a
descriptor. Rejected: a queue for more calls; the calls that would end the waiting of others might be in the queue.
The answer is EINTR where the handler was set without SA_RESTART, else ERESTARTSYS: the host then restarts the call.
The host also returns EINTR for other reasons: another thread may have taken a signal for the whole process, and a husk
that was stopped and continued finds its own waits broken (signal(7) lists which). Then the wait goes on: `patiently`.
Rejected: retrying a non-blocking open, which loses a writer that comes and goes between two tries.
"""

from __future__ import annotations

import _thread
import errno
import os
import time

from husk.kernel.call import ANSWERED, LATER, Call, GiveFd, Refused, Reply
from husk.kernel.exec import resident
from husk.native._core import wake_thread
from husk.native.threads import start_thread
from husk.vfs.fd_reserve import is_in_reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from husk.kernel.kernel import Kernel

    T = TypeVar("T")

ERESTARTSYS = 512
FIRST_LOOK, LONGEST_PAUSE = 0.002, 0.02  # seconds between two looks at the callers
MOST_WAITING = 1000  # calls of one box
MOST_HELD = 64 << 20  # bytes that they wait to send


_lock = _thread.allocate_lock()
_waits: list[_Wait] = []
_watching = False


def forget() -> None:
    """In a forked child: the waiting calls are the parent's, and so is the thread that watched them."""
    global _lock, _watching
    _lock, _watching = _thread.allocate_lock(), False
    _waits.clear()


class _Wait:
    __slots__ = ("call", "done", "held", "ident", "operate", "since", "thread", "weight")

    def __init__(self, call: Call, operate: Callable[[], Reply], held: int, weight: int) -> None:
        self.call, self.operate, self.held, self.weight = call, operate, held, weight
        self.done, self.thread, self.ident, self.since = False, 0, 0, time.monotonic()


def later(call: Call, operate: Callable[[], Reply], held: int, *, also: int = -1, weight: int = 0) -> Reply:
    """Answer `call` with what `operate` returns. `operate` must give up on EINTR. `held` is a descriptor that is closed
    at the end, or -1; `also` is one that `operate` closes, or this function, if `operate` never runs. `weight`: bytes
    of husk's memory that the call holds."""
    global _watching
    wait = _Wait(call, operate, held, weight)
    scarce = is_in_reserve(max(held, also))
    with _lock:
        others = [one for one in _waits if one.call.kernel is call.kernel and not one.done]
        waiting, bytes_held = len(others), weight + sum(one.weight for one in others)
        full = scarce or waiting >= MOST_WAITING or (bytes_held > MOST_HELD and waiting > 0)
        if not full:
            _waits.append(wait)
            watch, _watching = not _watching, True
    try:
        if full:
            # As Linux answers when the user's share of memory is too small for the buffer of a FIFO.
            why = ", and husk has few descriptors left" if scarce else ""
            why = ", and with it they would hold too much to send" if bytes_held > MOST_HELD else why
            raise Refused(errno.ENOMEM, f"{waiting} calls of this box wait already{why}")
        if watch:
            start_thread(_watch)
        start_thread(_work, wait)
    except BaseException as error:
        wait.done = True
        if not full and watch:
            _watching = False  # the next one tries again; a second watcher would do no harm
        for fd in (held, also):
            if fd >= 0:
                os.close(fd)
        if isinstance(error, OSError) and error.errno == errno.EAGAIN:
            raise OSError(errno.ENOMEM, "the host gives no more threads") from None  # EAGAIN would mean: not just now
        raise
    return LATER


def waiting(kernel: Kernel) -> list[tuple[int, float, int]]:
    """Of each call of a run that waits here: the guest's thread, since when, and the thread of husk that waits."""
    with _lock:
        return [(one.call.tid, one.since, one.ident) for one in _waits if one.call.kernel is kernel and not one.done]


def _work(wait: _Wait) -> None:
    raw = wait.call.raw
    wait.thread, wait.ident = _thread.get_native_id(), _thread.get_ident()
    try:
        try:
            reply = wait.operate()
        finally:
            wait.done = True
            if wait.held >= 0:
                os.close(wait.held)  # before the guest runs on: husk's copy of the descriptor would be observable
        if reply is ANSWERED and raw.answered:
            given = 0
        elif isinstance(reply, GiveFd):
            given = raw.reply_fd(reply.fd, reply.cloexec, reply.alone)
        elif isinstance(reply, int):
            raw.reply(given := reply)
        else:
            raise TypeError(f"{reply!r} is no answer")
        wait.call.kernel.answered_later(wait.call, given)
    except OSError as error:
        if raw.answered:
            return
        wait.call.kernel.failed_later(wait.call, error)
        # EBUSY: another process traces the thread, so husk cannot.
        if error.errno != errno.EINTR or raw.interrupt(_interruption(wait.call.tid)) == -errno.EBUSY:
            raw.fail(error.errno or errno.EIO)
    except BaseException as fault:  # a stray exception is our bug
        wait.call.kernel.fault(raw, fault)


def patiently(call: Call, operate: Callable[[], T]) -> T:
    """Do what may wait in the host. EINTR only if the guest handles a signal, or no longer waits for the answer."""
    while True:
        try:
            return operate()
        except InterruptedError:
            if _handled_signals(call.tid) or not call.raw.valid():
                raise


def _watch() -> None:
    """Lives as long as a call waits. Looks often after a new wait began, seldom when nothing happens, and for at most a
    fifth of the time."""
    global _watching
    pause, known = FIRST_LOOK, 0
    while True:
        time.sleep(pause)
        begin = time.monotonic()
        with _lock:
            _waits[:] = [wait for wait in _waits if not wait.done]
            current = list(_waits)
            if not current:
                _watching = False
                return
        for wait in current:
            if not wait.done and wait.thread and (not wait.call.raw.valid() or _handled_signals(wait.call.tid)):
                # Repeated until the thread has left: a wake-up just before the wait begins is lost.
                wake_thread(wait.thread)
        pause = FIRST_LOOK if len(current) > known else min(pause * 1.5, LONGEST_PAUSE)
        pause, known = max(pause, 4 * (time.monotonic() - begin)), len(current)


def _interruption(tid: int) -> int:
    """How the call ends: the lowest pending signal decides, because the host delivers it first."""
    waiting = _handled_signals(tid)
    return errno.EINTR if waiting & -waiting & resident.thunked_signals(tid) else ERESTARTSYS


def _handled_signals(tid: int) -> int:
    """Mask of the pending signals for which the guest has a handler."""
    masks = {}
    try:
        with open(f"/proc/{tid}/status", "rb") as status:
            for line in status:
                label, _, value = line.partition(b":")
                if label in (b"SigPnd", b"ShdPnd", b"SigBlk", b"SigCgt"):
                    masks[label] = int(value, 16)
    except OSError:
        return 0  # gone; the caller also notices that the call is no longer valid
    return (masks[b"SigPnd"] | masks[b"ShdPnd"]) & ~masks[b"SigBlk"] & masks[b"SigCgt"]

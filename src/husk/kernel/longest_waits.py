"""kernel: which calls the tasks of a run wait in, for how long, and where husk is with them. For people who look for
the reason of a hang (`husk doctor --box`); nothing here decides anything, and nothing runs unless asked.

Of a call that husk has received it knows when. Of all others the host tells when the thread last ran.
"""

from __future__ import annotations

import os
import sys
import time

from husk.abi.registry import row
from husk.kernel import blocking
from husk.kernel.events import call_name, signature
from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from husk.kernel.kernel import Kernel

MOST_THREADS = 2000
MOST_TEXT = 256
LEVELS = 4  # functions of husk that are named, the innermost last
NOTIFIED = b"seccomp"  # how the host names the place where a notified call waits


class Wait:
    """`seconds` is negative where the host does not tell. `where`: who has the call, and what it does with it."""

    __slots__ = ("call", "pid", "program", "seconds", "tid", "where")

    def __init__(self, pid: int, tid: int, program: str, call: str, seconds: float, where: str) -> None:
        self.pid, self.tid, self.program, self.call = pid, tid, program, call
        self.seconds, self.where = seconds, where

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


class _Shown:
    """As much of a call as printing needs."""

    __slots__ = ("args", "copied_address", "nr", "texts")

    def __init__(self, nr: int, args: list[int], texts: dict[int, bytes]) -> None:
        self.nr, self.args, self.texts, self.copied_address = nr, args, texts, None


def waits(kernel: Kernel) -> list[Wait]:
    """The longest first."""
    held = _held(kernel)
    found: list[Wait] = []
    tasks = kernel.tasks
    for pid in tasks.host_pids():
        try:
            threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
        except OSError:
            continue  # gone
        for tid in threads[: MOST_THREADS - len(found)]:
            wait = _look(tid, held)
            if wait is not None:
                wait.pid, wait.tid = tasks.guest_of(pid), tasks.guest_of(tid)
                found.append(wait)
    return sorted(found, key=_seconds, reverse=True)


def _held(kernel: Kernel) -> dict[int, tuple[float, str]]:
    """Guest thread -> since when husk has its call, and where it is with it."""
    frames, now = sys._current_frames(), time.monotonic()
    held = {}
    for serving in list(kernel.serving.values()):
        if serving is not None and not serving[0].answered:
            raw, thread = serving
            held[raw.tid] = now - raw.received_ns / 1e9, "husk serves it: " + _functions(frames.get(thread))
    for tid, since, thread in blocking.waiting(kernel):
        held[tid] = now - since, "husk waits for it in a thread of its own: " + _functions(frames.get(thread))
    return held


def _functions(frame: FrameType | None) -> str:
    names: list[str] = []
    while frame is not None and len(names) < LEVELS:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("husk."):
            names.append(f"{module.rpartition('.')[2]}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " > ".join(reversed(names)) or "in its C core"


def _look(tid: int, held: dict[int, tuple[float, str]]) -> Wait | None:
    """None: it does not wait in a call."""
    at = b"/proc/%d/" % tid
    try:
        words = read_host(at + b"syscall").split()
        if len(words) < 9:  # "running", or stopped outside any call
            return None
        nr, args = int(words[0]), [int(word, 16) for word in words[1:7]]
        program = read_host(at + b"comm").rstrip(b"\n").decode("utf-8", "replace")
        place = read_host(at + b"wchan")
        seconds = _since_it_ran(at)
    except OSError:
        return None
    if tid in held:
        seconds, where = held[tid]
    elif place.startswith(NOTIFIED):
        where = "husk is to answer it, and no thread of husk has taken it up"
    else:
        where = "in the host's kernel" + (f" ({place.decode('ascii', 'replace')})" if place != b"0" else "")
    return Wait(0, 0, program, _spelled(tid, nr, args), seconds, where)


def _spelled(tid: int, nr: int, args: list[int]) -> str:
    from husk.abi.registry.signatures import arguments

    entry = row(nr)
    if entry is None:
        return f"{call_name(nr)}({', '.join(map(hex, args))})"
    texts = {}
    for n, (_, kind) in enumerate(arguments(entry)):
        if kind in ("path", "text") and (text := _text(tid, args[n])) is not None:
            texts[n] = text
    return signature(_Shown(nr, args, texts))  # type: ignore[arg-type]  # what it asks of a call is there


def _text(tid: int, address: int) -> bytes | None:
    """A string of the guest's. It may change while it is read: it is for people only."""
    try:
        memory = os.open(f"/proc/{tid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        size = min(MOST_TEXT, 4096 - address % 4096)
        return os.pread(memory, size, address).partition(b"\0")[0] if address < 1 << 63 else None
    except OSError:
        return None
    finally:
        os.close(memory)


def _since_it_ran(at: bytes) -> float:
    """The host notes when a thread last ran, by a clock of its own; the thread that asks runs now."""
    then, now = _last_run(at), _last_run(b"/proc/thread-self/")
    return max(0.0, now - then) if then >= 0 and now >= 0 else -1.0


def _last_run(at: bytes) -> float:
    try:
        text = read_host(at + b"sched")
    except OSError:
        return -1.0  # this host's kernel was built without it
    words = text.partition(b"se.exec_start")[2].split(None, 2)
    return float(words[1]) / 1000 if len(words) > 1 and words[0] == b":" else -1.0


def _seconds(wait: Wait) -> float:
    return wait.seconds

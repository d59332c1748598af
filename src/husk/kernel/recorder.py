"""kernel: what a traced run asks for. The C core notes native calls (native/trace/); here is what Python answers: the
same counts with results, reasons and time, the files that were named, and, where it is wanted, a line for each call.

Nothing here decides anything. Everything is bounded, and what had no room is counted: a guest chooses what it calls.
"""

from __future__ import annotations

import _thread
import os
import struct
import time
from errno import EIO, errorcode

from husk.abi.registry import ROWS, row
from husk.abi.registry.flags import FLAGS
from husk.abi.registry.signatures import arguments, positions, spell, spell_address
from husk.abi.text import harmless
from husk.kernel.call import Refused
from husk.kernel.events import call_name, signature
from husk.native import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from husk.abi.registry.rules import Walls
    from husk.kernel.call import Call

LINE = struct.Struct("<qiHBB6Q")  # struct trace_line, native/trace/trace.h
WAYS = ("native", "refused", "virtual")  # enum trace_way
MOST_KINDS = 32768  # calls with different telling values
MOST_REASONS = 8  # of one of them
MOST_ADDRESSES = 1024
NOT_SEEN = "not seen"  # how a call ended that the host has continued
NAMES_ROOM, NAME_COSTS = 32 << 20, 200  # bytes for the names of files

# Where calls that change something by name have that name. Opening is reported by the handler.
CHANGES = {
    "chmod": (0,), "chown": (0,), "fchmodat": (1,), "fchmodat2": (1,), "fchownat": (1,), "futimesat": (1,),
    "lchown": (0,), "link": (1,), "linkat": (3,), "lremovexattr": (0,), "lsetxattr": (0,), "mkdir": (0,),
    "mkdirat": (1,), "mknod": (0,), "mknodat": (1,), "removexattr": (0,), "rename": (0, 1), "renameat": (1, 3),
    "renameat2": (1, 3), "rmdir": (0,), "setxattr": (0,), "symlink": (1,), "symlinkat": (2,), "truncate": (0,),
    "unlink": (0,), "unlinkat": (1,), "utime": (0,), "utimensat": (1,), "utimes": (0,),
}  # fmt: skip


class SeenCall:
    """One call with one set of telling values."""

    __slots__ = ("count", "errors", "example", "nr", "ns", "reasons", "values", "way")

    def __init__(self, nr: int, way: str, values: dict[int, int]) -> None:
        self.nr, self.way, self.values = nr, way, values
        self.count = self.ns = 0
        self.errors: dict[str, int] = {}
        self.reasons: list[str] = []
        self.example = ""


class SeenFile:
    """Uses of one name."""

    __slots__ = ("errors", "executed", "listed", "read", "written")

    def __init__(self) -> None:
        self.read = self.written = self.listed = self.executed = 0
        self.errors: dict[str, int] = {}


class SeenRun:
    """A process, from one start of a program to the next. Times are in nanoseconds since the recorder was made."""

    __slots__ = ("argv", "began_ns", "count", "ended_ns", "exe", "parent", "pid", "slots", "status")

    def __init__(
        self, pid: int, parent: int, argv: bytes, exe: bytes, began: int, ended: int, status: int, count: int,
        slots: list[int],
    ) -> None:  # fmt: skip
        self.pid, self.parent, self.exe, self.status, self.count = pid, parent, exe, status, count
        self.argv = argv.removesuffix(b"\0").split(b"\0") if argv else []
        self.began_ns, self.ended_ns, self.slots = began, ended, slots


class Seen:
    """All that a run asked for. `addresses`: (number of the call, address, errno or "" or NOT_SEEN) → count."""

    __slots__ = ("_native_lines", "_own_lines", "addresses", "began_ns", "calls", "files", "lost", "runs", "slot_ns")

    def __init__(
        self,
        calls: list[SeenCall],
        files: dict[bytes, SeenFile],
        addresses: dict[tuple[int, str, str], int],
        core: _core.Recorder,
        own_lines: list[tuple[int, str]],
        lost: dict[str, int],
    ) -> None:
        self.calls, self.files, self.addresses, self.lost = calls, files, addresses, lost
        self.runs = [SeenRun(*run) for run in core.runs()]
        self.began_ns, self.slot_ns = core.times()
        self._native_lines, self._own_lines = core.lines(), own_lines

    def log(self) -> Iterator[tuple[float, str]]:
        """Time since the beginning, and one line for each call, in the order in which husk saw them."""
        from heapq import merge

        native = ((when, native_line(*rest)) for when, *rest in LINE.iter_unpack(self._native_lines))
        for when, line in merge(native, sorted(self._own_lines)):
            yield (when - self.began_ns) / 1e9, line


class Recorder:
    """Made for one run, before it is launched. `rules` is the ordinary filter of its box."""

    def __init__(self, rules: bytes, walls: Walls, most_lines: int) -> None:
        self._walls, self._most_lines = walls, most_lines
        self._telling = {nr: _telling(nr) for nr in ROWS}
        table = bytes(sum(1 << n for n in self._telling.get(nr, ())) for nr in range(max(ROWS) + 1))
        self.core = _core.Recorder(rules, table, most_lines)
        self._lock = _thread.allocate_lock()
        self._calls: dict[tuple[int, str, tuple[int, ...]], SeenCall] = {}
        self._files: dict[bytes, SeenFile] = {}
        self._addresses: dict[tuple[int, str, str], int] = {}
        self._lines: list[tuple[int, str]] = []
        self._names_room = NAMES_ROOM
        self._lost = {"lines": 0, "values": 0, "files": 0, "addresses": 0}

    # -- from the dispatcher -------------------------------------------------------------------------------------------
    def answered(self, call: Call, given: int | None) -> None:
        """`given` is what the guest got; None: it was answered on the way."""
        if call.raw.own:
            return
        self._count(call, "?" if given is None else str(given))
        with self._lock:
            if call.copied_address is not None:
                self._note_address(call, "")
        for n in CHANGES.get(call_name(call.nr), ()):
            if n in call.texts:
                self._use(call.kernel.events.absolute(call, call.texts[n]), "written")

    def failed(self, call: Call, error: OSError, reason: str) -> None:
        if call.raw.own:
            return
        name = errorcode.get(error.errno or EIO, str(error.errno))
        entry = row(call.nr)
        names = [n for n in positions(entry, "path") if n in call.texts] if entry is not None else []
        where = call.kernel.events.absolute(call, call.texts[names[-1]]) if names else None
        text = f"-1 {name}" + (f" ({reason})" if reason else "")
        known = self._count(call, text, refused=isinstance(error, Refused))
        with self._lock:
            if not known.errors:
                known.example = f"{signature(call)} = {text}"  # a failure tells more than a success
            known.errors[name] = known.errors.get(name, 0) + 1
            if reason and reason not in known.reasons and len(known.reasons) < MOST_REASONS:
                known.reasons.append(reason)
            if call.copied_address is not None:
                self._note_address(call, name)
            if where is not None and (file := self._file(where)) is not None:
                file.errors[name] = file.errors.get(name, 0) + 1

    def opened(self, where: bytes, flags: int) -> None:
        how = flags & os.O_ACCMODE
        if flags & os.O_DIRECTORY:
            self._use(where, "listed")
        elif not flags & os.O_PATH and how != os.O_WRONLY:
            self._use(where, "read")
        if how != os.O_RDONLY or flags & (os.O_TRUNC | os.O_CREAT):
            self._use(where, "written")

    def executed(self, where: bytes) -> None:
        self._use(where, "executed")

    # -- inside --------------------------------------------------------------------------------------------------------
    def _count(self, call: Call, outcome: str, *, refused: bool = False) -> SeenCall:
        """`refused`: by husk, perhaps in another runtime's name (kernel/emulation.py), whatever the row says."""
        now = time.monotonic_ns()
        places = self._telling.get(call.nr, ())
        values = tuple(call.args[n] & 0xFFFFFFFF for n in places)
        entry = row(call.nr)
        way = "refused" if entry is None else entry.verdict(call.args, self._walls).way
        if refused and way == "native":
            way = "refused"
        line = f"[{call.raw.shown_tid}] {signature(call)} = {outcome}" if self._most_lines else ""
        with self._lock:
            key = (call.nr, way, values)
            known = self._calls.get(key)
            if known is None:
                if len(self._calls) >= MOST_KINDS:
                    self._lost["values"] += 1
                    key, places, values = (call.nr, way, (-1,)), (), ()
                    known = self._calls.get(key)
                if known is None:
                    known = self._calls[key] = SeenCall(call.nr, way, dict(zip(places, values, strict=True)))
                    known.example = f"{signature(call)} = {outcome}"
            known.count += 1
            known.ns += max(0, now - call.raw.received_ns)
            if line:
                if len(self._lines) < self._most_lines:
                    self._lines.append((now, line))
                else:
                    self._lost["lines"] += 1
            return known

    def _note_address(self, call: Call, outcome: str) -> None:
        key = call.nr, harmless(spell_address(call.copied_address or b"")), outcome
        if key in self._addresses or len(self._addresses) < MOST_ADDRESSES:
            self._addresses[key] = self._addresses.get(key, 0) + 1
        else:
            self._lost["addresses"] += 1

    def _use(self, where: bytes, how: str) -> None:
        with self._lock:
            file = self._file(where)
            if file is not None:
                setattr(file, how, getattr(file, how) + 1)

    def _file(self, where: bytes) -> SeenFile | None:
        file = self._files.get(where)
        if file is None:
            if len(where) + NAME_COSTS > self._names_room:
                self._lost["files"] += 1
                return None
            self._names_room -= len(where) + NAME_COSTS
            file = self._files[where] = SeenFile()
        return file

    # -- when the run is over ------------------------------------------------------------------------------------------
    def seen(self) -> Seen:
        """No receiver is at work any more."""
        lines, runs, tasks, addresses = self.core.lost()
        lost = dict(self._lost)
        lost["lines"] += lines
        lost["programs"], lost["threads"] = runs, tasks
        lost["addresses"] += addresses
        for nr, packed, count in self.core.addresses():
            self._addresses[nr, harmless(spell_address(packed)), NOT_SEEN] = count
        calls = list(self._calls.values())
        for nr, way, error, values, count, args, _ in self.core.kinds():
            seen = SeenCall(nr, WAYS[way], {n: values[n] for n in self._telling.get(nr, ())})
            seen.count = count
            seen.example = _native_text(nr, args) + (_outcome(error) if WAYS[way] == "refused" else "")
            if WAYS[way] == "refused":
                if error:
                    seen.errors[errorcode.get(error, str(error))] = count
                seen.reasons = _reason(nr, args, self._walls)
            calls.append(seen)
        for nr, way, count in self.core.unsorted():
            lost["values"] += count
            seen = SeenCall(nr, WAYS[way], {})
            seen.count, seen.example = count, f"{call_name(nr)}(…)"
            calls.append(seen)
        lost = {name: count for name, count in lost.items() if count}
        return Seen(calls, self._files, self._addresses, self.core, self._lines, lost)


def _telling(nr: int) -> tuple[int, ...]:
    return tuple(n for n, (_, kind) in enumerate(arguments(ROWS[nr])) if kind in FLAGS)


def _reason(nr: int, args: Sequence[int], walls: Walls) -> list[str]:
    entry = row(nr)
    reason = entry.verdict(args, walls).reason if entry is not None else "no system call of Linux has this number"
    return [reason] if reason else []


def _outcome(error: int) -> str:
    return f" = -1 {errorcode.get(error, error)}" if error else " = 0"


def native_line(tid: int, nr: int, way: int, error: int, *args: int) -> str:
    return f"[{tid}] {_native_text(nr, args)}" + (_outcome(error) if WAYS[way] == "refused" else "")


def _native_text(nr: int, args: Sequence[int]) -> str:
    """A call by its registers alone."""
    entry = row(nr)
    if entry is None:
        return f"{call_name(nr)}({', '.join(map(hex, args))})"
    return f"{entry.name}({', '.join(spell(kind, args[n]) for n, (_, kind) in enumerate(arguments(entry)))})"

"""compat: the code of one ELF file: which function calls which, and what each asks of Linux.

Edges are found by their bytes: a `call`, a jump, a `lea` whose target is the start of a known function. Bytes that only
look like one rarely hit such a start, so the graph has a little too much, never too little of what is direct. Only
functions that ask something are disassembled. Not here: other files (reach.py), and the names of calls.
"""

from __future__ import annotations

import re
import struct
import time
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from husk.compat.look.elf_file import MOST_CODE, Boundaries, ElfFile
from husk.compat.look.propagate import CALL_ARGUMENTS, Called, Decoder, Effects, SegmentUse, Value
from husk.compat.look.telling import TELLING, TELLING_IMPORTS

MOST_DECODED = 4_000_000  # instructions of one file
MOST_DEPTH = 5  # wrappers around wrappers
MOST_ASKS = 200  # of one function
MOST_SEGMENT_CHECKS = 400

_NEAR = re.compile(rb"[\xe8\xe9]")
_CONDITIONAL = re.compile(rb"\x0f[\x80-\x8f]")
_RIP = re.compile(rb"[\x8b\x8d][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]")
_POINTER = re.compile(rb"\xff[\x15\x25]")
_IMMEDIATE = re.compile(rb"[\xb8-\xbf\x68]|\xc7[\xc0-\xc7]")
_SYSCALL = re.compile(rb"\x0f\x05")
_INT80 = re.compile(rb"\xb8(...\x00)\xcd\x80", re.DOTALL)
_GS = re.compile(rb"\x65[\x40-\x4f]?[\x01\x03\x29\x2b\x31\x33\x39\x3b\x80\x81\x83\x88-\x8b\xa1\xa3\xc6\xc7\xff\x0f]")
_BASE = re.compile(rb"\xf3[\x40-\x4f]?\x0f\xae[\xc0-\xdf]")
_FS = re.compile(rb"\x64\x48[\x03\x2b\x33\x39\x3b\x89\x8b\xc7][\x04\x0c\x14\x1c\x24\x2c\x34\x3c]\x25")
_BEFORE_FUNCTION = b"\xc3\x90\xcc\x00\xf4\x0b\xe9\xeb"


@dataclass(frozen=True)
class Ask:
    """One request: a system call by its number, or a call of an imported function whose arguments tell something.

    Values may be parameters of the function it is in; then callers complete it."""

    address: int
    number: Value
    symbol: str
    arguments: tuple[Value, ...]

    @property
    def template(self) -> bool:
        """Does it depend on parameters, where that matters?"""
        if isinstance(self.number, tuple):
            return True
        return any(isinstance(self.arguments[n], tuple) for n in self.telling())

    def telling(self) -> tuple[int, ...]:
        if self.symbol:
            return TELLING_IMPORTS.get(self.symbol, ())
        if isinstance(self.number, frozenset):
            return tuple(sorted({n for one in self.number for n in TELLING.get(one, ())}))
        return ()

    def completed(self, call: Called | None) -> Ask:
        """As a caller makes it; None stands for a caller whose arguments cannot be seen."""

        def value(one: Value) -> Value:
            if not isinstance(one, tuple):
                return one
            return call.parameter(one) if call is not None and one[0] != "sp" else None

        number = value(self.number)
        return Ask(self.address, number, self.symbol, tuple(value(one) for one in self.arguments))


@dataclass
class Function:
    start: int
    name: str = ""
    edges: set[int] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    asks: list[Ask] = field(default_factory=list)


@dataclass
class Code:
    """What a file's code says. `data_functions` are those whose address stands in its data."""

    functions: dict[int, Function] = field(default_factory=dict)
    data_functions: set[int] = field(default_factory=set)
    exports: dict[str, int] = field(default_factory=dict)
    segments: list[SegmentUse] = field(default_factory=list)
    thread_pointer: bool = False  # something is addressed by %fs
    old_calls: list[int] = field(default_factory=list)  # numbers before `int 0x80`
    unseen: list[str] = field(default_factory=list)


def scan(file: ElfFile, deadline: float) -> Code:
    """Everything of `file`. Work stops at `deadline` (of time.thread_time) or at a bound; `unseen` says so."""
    return _Scan(file, deadline).run()


class _Scan:
    def __init__(self, file: ElfFile, deadline: float) -> None:
        self.file, self.deadline = file, deadline
        self.code = Code(exports=dict(file.exports))
        self.pieces = list(file.code())
        self.relocatable = file.kind != "executable"
        self.decoder = Decoder()
        self.effects: dict[int, Effects] = {}
        self.stubs: dict[int, str] = {}
        self.late = False

    def run(self) -> Code:
        if sum(len(piece) for _, piece in self.pieces) > MOST_CODE:
            self.code.unseen.append(f"more than {MOST_CODE >> 20} MiB of code; it was not looked at")
            return self.code
        starts = dict(self.file.functions)
        guessed = not self.file.whole_functions and not self._mostly_named(starts)
        if guessed:
            self._guess_starts(starts)
        self.code.functions = {start: Function(start, name) for start, name in sorted(starts.items())}
        self.bounds = Boundaries(list(self.code.functions))
        self._find_stubs()
        asking = self._find_edges()
        if guessed:
            self._fall_through()
        self._find_data_functions()
        self._decode(asking)
        self._complete_templates()
        self._find_segments()
        if self.late:
            self.code.unseen.append("the time for looking ran out; arguments and some calls were not followed")
        return self.code

    def _mostly_named(self, starts: dict[int, str]) -> bool:
        """Symbols of a file that is not stripped name every function; those for linking only the exported ones."""
        return sum(bool(name) for name in starts.values()) > len(self.file.exports) + 3

    def _guess_starts(self, starts: dict[int, str]) -> None:
        """Without any table: what is called, where the byte before could end a function."""
        for base, piece in self.pieces:
            limit = len(piece)
            for match in re.finditer(rb"\xe8", piece):
                at = match.start() + 1
                if at + 4 <= limit:
                    target = at + 4 + struct.unpack_from("<i", piece, at)[0]
                    if 0 < target < limit and (target % 16 == 0 or piece[target - 1] in _BEFORE_FUNCTION):
                        starts.setdefault(base + target, "")
            if piece:
                starts.setdefault(base, "")

    def _find_stubs(self) -> None:
        """The linker's stubs: a jump through a pointer that the loader fills. Other functions call these."""
        for base, piece in self.pieces:
            for match in _POINTER.finditer(piece):
                at = match.start()
                if piece[at + 1] != 0x25 or at + 6 > len(piece):
                    continue
                name = self.file.slots.get(base + at + 6 + struct.unpack_from("<i", piece, at + 2)[0])
                if not name:
                    continue
                places = [at, at - 1 if piece[at - 1] == 0xF2 else at]
                places += [place - 4 for place in places if bytes(piece[place - 4 : place]) == b"\xf3\x0f\x1e\xfa"]
                for place in places:
                    self.stubs[base + place] = name

    def _find_edges(self) -> set[int]:
        """Fill in the graph; returns the functions to disassemble: those with a `syscall` or a telling import."""
        asking: set[int] = set()
        for base, piece in self.pieces:
            limit = len(piece) - 4
            for pattern, skip in ((_NEAR, 1), (_CONDITIONAL, 2), (_RIP, 2), (_POINTER, 2)):
                if time.thread_time() > self.deadline:
                    self.late = True
                    break
                for match in pattern.finditer(piece):
                    at = match.start() + skip
                    if at <= limit:
                        target = base + at + 4 + struct.unpack_from("<i", piece, at)[0]
                        self._edge(base + at, target, asking)
            if not self.relocatable:
                for match in _IMMEDIATE.finditer(piece):
                    at = match.end()
                    if at <= limit:
                        target = int.from_bytes(piece[at : at + 4], "little")
                        if target in self.code.functions or target in self.stubs:
                            self._edge(base + at, target, asking)
            for match in _SYSCALL.finditer(piece):
                asking.add(self.bounds.of(base + match.start()))
            for match in _INT80.finditer(piece):
                self.code.old_calls.append(int.from_bytes(match.group(1), "little"))
            self.code.thread_pointer |= _FS.search(piece) is not None
        return asking

    def _edge(self, at: int, target: int, asking: set[int]) -> None:
        name = self.stubs.get(target) or self.file.slots.get(target)
        if name is None and target not in self.code.functions:
            return
        source = self.bounds.of(at)
        function = self.code.functions.get(source)
        if function is None:
            return
        if name is None:
            if target != source:
                function.edges.add(target)
            return
        function.imports.add(name)
        if name in TELLING_IMPORTS:
            asking.add(source)

    def _fall_through(self) -> None:
        """A guessed start may be a label inside a function: what comes before goes on there."""
        for before, after in pairwise(self.bounds.starts):
            if not self.code.functions[after].name:
                self.code.functions[before].edges.add(after)

    def _find_data_functions(self) -> None:
        known = self.code.functions.keys()
        found = self.file.pointers & known
        for address, piece in self.file.data():
            skip = -address % 8
            words = array("Q")
            words.frombytes(piece[skip : skip + (len(piece) - skip) // 8 * 8] if len(piece) > skip else b"")
            found |= set(words) & known
        self.code.data_functions = found

    def _effects(self, start: int) -> Effects | None:
        if start not in self.effects:
            if self.decoder.decoded > MOST_DECODED or time.thread_time() > self.deadline:
                self.late = True
                return None
            size = min(self.bounds.end(start) - start, 1 << 20)
            self.effects[start] = self.decoder.effects(self.file.bytes_at(start, size), start)
        return self.effects[start]

    def _decode(self, asking: set[int]) -> None:
        for start in sorted(asking):
            effects = self._effects(start)
            function = self.code.functions.get(start)
            if effects is None or function is None:
                continue
            for made in effects.system_calls:
                self._add(function, Ask(made.address, made.number, "", made.arguments))
            for call in effects.calls:
                name = self._import_of(call)
                if name in TELLING_IMPORTS:
                    values = tuple(call.registers[register] for register in CALL_ARGUMENTS)
                    self._add(function, Ask(call.address, None, name, values))

    def _import_of(self, call: Called) -> str:
        return self.file.slots.get(call.target, "") if call.by_pointer else self.stubs.get(call.target, "")

    def _add(self, function: Function, ask: Ask) -> bool:
        if ask in function.asks or len(function.asks) >= MOST_ASKS:
            return False
        function.asks.append(ask)
        return True

    def _complete_templates(self) -> None:
        """Hand asks that depend on parameters up to the callers, some levels."""
        callers: dict[int, set[int]] = defaultdict(set)
        for function in self.code.functions.values():
            for target in function.edges:
                callers[target].add(function.start)
        own = {start: name for name, start in self.code.exports.items()}
        by_name: dict[str, set[int]] = defaultdict(set)
        for function in self.code.functions.values():
            for name in function.imports & self.code.exports.keys():
                by_name[name].add(function.start)
        every = self.code.functions.values()
        waiting = [(function.start, ask, 0) for function in every for ask in function.asks if ask.template]
        while waiting:
            start, ask, depth = waiting.pop()
            if depth >= MOST_DEPTH:
                continue
            for caller in sorted(callers[start] | by_name.get(own.get(start, ""), set())):
                effects = self._effects(caller)
                function = self.code.functions[caller]
                if effects is None:
                    continue
                # An edge without a call: the address is taken, and whoever calls it then cannot be seen.
                calls: list[Called | None] = [call for call in effects.calls if self._goes_to(call, start)]
                for call in calls or [None]:
                    more = ask.completed(call)
                    if self._add(function, more) and more.template:
                        waiting.append((caller, more, depth + 1))

    def _goes_to(self, call: Called, start: int) -> bool:
        if not call.by_pointer and call.target == start:
            return True
        name = self._import_of(call)
        return bool(name) and self.code.exports.get(name) == start

    def _find_segments(self) -> None:
        candidates: set[int] = set()
        for base, piece in self.pieces:
            for pattern in (_BASE, _GS):
                for match in pattern.finditer(piece):
                    candidates.add(self.bounds.of(base + match.start()))
                    if len(candidates) > MOST_SEGMENT_CHECKS:
                        break
        for start in sorted(candidates)[:MOST_SEGMENT_CHECKS]:
            effects = self._effects(start)
            if effects is not None:
                self.code.segments += [use for use in effects.segments if use.segment == "gs" or "base" in use.text]
        self.code.thread_pointer |= any(use.segment == "fs" for one in self.effects.values() for use in one.segments)

"""compat: what registers hold where a function makes a system call or calls another function.

A value is a small set of constants, one of the function's own parameters, or unknown. Where ways meet, constants are
united, and passes are repeated until nothing changes. So a value that is claimed can only be wrong where memory on the
stack is changed through a pointer, which is watched for, or where code changes itself. Not here: which functions there
are (elf_file.py), and what calls mean (reach.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

MOST_INSTRUCTIONS = 40_000  # of one function
MOST_VALUES = 8
MOST_PASSES = 30
PATIENCE = 4  # passes
MASK = (1 << 64) - 1

Constants = frozenset[int]
# A parameter: the name of a register at the entry, or ("[]", offset) for a slot above the return address.
Parameter = tuple[str, int]
Value = Constants | Parameter | None



def _register_names() -> dict[str, tuple[str, int]]:
    """Every spelling of a register: its whole name and how many bits; 0 for the second byte."""
    names: dict[str, tuple[str, int]] = {}
    for letter in "abcd":
        whole = f"r{letter}x"
        names |= {whole: (whole, 64), f"e{letter}x": (whole, 32), f"{letter}x": (whole, 16)}
        names |= {f"{letter}l": (whole, 8), f"{letter}h": (whole, 0)}
    for name in ("si", "di", "bp", "sp"):
        whole = f"r{name}"
        names |= {whole: (whole, 64), f"e{name}": (whole, 32), name: (whole, 16), f"{name}l": (whole, 8)}
    for number in range(8, 16):
        whole = f"r{number}"
        names |= {whole: (whole, 64), f"{whole}d": (whole, 32), f"{whole}w": (whole, 16), f"{whole}b": (whole, 8)}
    return names


_WIDTHS = _register_names()
REGISTERS = sorted({name for name, _ in _WIDTHS.values()})
CALL_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
SYSTEM_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_LOST_BY_CALL = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")

_IMPLICIT = {
    "syscall": ("rax", "rcx", "r11"), "sysenter": tuple(REGISTERS), "cpuid": ("rax", "rbx", "rcx", "rdx"),
    "rdtsc": ("rax", "rdx"), "rdtscp": ("rax", "rdx", "rcx"), "xgetbv": ("rax", "rdx"), "rdpkru": ("rax", "rdx"),
    "mul": ("rax", "rdx"), "div": ("rax", "rdx"), "idiv": ("rax", "rdx"), "cdq": ("rdx",), "cqo": ("rdx",),
    "cdqe": ("rax",), "cwde": ("rax",), "cwd": ("rdx",), "cbw": ("rax",), "cmpxchg": ("rax",),
    "cmpxchg8b": ("rax", "rdx"), "cmpxchg16b": ("rax", "rdx"), "lahf": ("rax",),
    "loop": ("rcx",), "in": ("rax",), "mulx": ("rax", "rdx"),
}  # fmt: skip
_STRING = re.compile(r"(rep|repe|repne)? ?(movs|stos|lods|cmps|scas)[bwdq]$")
_STRING_REGISTERS = ("rdi", "rsi", "rcx", "rax")
_NO_TARGET = {
    "cmp", "test", "nop", "endbr64", "ret", "push", "bt", "ud2", "hlt", "int3", "lfence", "mfence", "sfence", "pause",
    "prefetcht0", "prefetcht1", "prefetcht2", "prefetchnta", "prefetchw", "clflush", "leave", "cld", "std", "wrfsbase",
    "wrgsbase", "ldmxcsr", "verr", "verw", "fnop",
}  # fmt: skip
_PADDING = ("nop", "int3", "xchg", "ud2", "endbr64")
_ENDS = ("jmp", "ret", "ud2", "hlt", "iretq", "iretd")
_ARITHMETIC = frozenset(("add", "sub", "or", "and", "xor", "shl", "inc", "dec"))
_TWO_TARGETS = ("xchg", "xadd")
_MEMORY = re.compile(r"(?:(?P<size>\w+) ptr )?(?:(?P<segment>[fgs]s):)?\[(?P<inside>[^]]*)\]$")


@dataclass(frozen=True)
class SystemCall:
    """A `syscall` instruction: the number and the six arguments."""

    address: int
    number: Value
    arguments: tuple[Value, ...]


@dataclass(frozen=True)
class Called:
    """A direct call, or a jump to another function. `registers` and `stack` are what the callee finds."""

    address: int
    target: int  # the function, or the pointer that a `call [rip + x]` goes through
    by_pointer: bool
    registers: dict[str, Value]
    stack: dict[int, Value]  # offset from the callee's stack pointer -> value

    def parameter(self, wanted: Parameter) -> Value:
        kind, offset = wanted
        return self.stack.get(offset) if kind == "[]" else self.registers.get(kind)


@dataclass(frozen=True)
class SegmentUse:
    """An access through %fs or %gs, or an instruction that sets its base."""

    address: int
    segment: str
    text: str
    displacement: int | None


@dataclass
class Effects:
    system_calls: list[SystemCall]
    calls: list[Called]
    segments: list[SegmentUse]


class _Operand(NamedTuple):
    """One operand of an instruction, taken apart: a register, a number, or memory at a register plus an offset."""

    register: str = ""  # by its whole name: `eax` is rax
    width: int = 0
    number: int | None = None
    base: str = ""  # of memory; empty where an index takes part
    offset: int = 0
    memory: bool = False
    segment: str = ""
    wide: bool = False  # memory of 32 or 64 bits


class _Instruction(NamedTuple):
    address: int
    size: int
    base: str  # the mnemonic without prefixes
    jump: bool
    operands: tuple[_Operand, ...]
    text: str


class Decoder:
    """capstone, set up once. Counts what it decoded, so that a look has a bound."""

    def __init__(self) -> None:
        from capstone import CS_ARCH_X86, CS_MODE_64, Cs

        self._engine = Cs(CS_ARCH_X86, CS_MODE_64)
        self.decoded = 0

    def effects(self, code: bytes, start: int) -> Effects:
        instructions = [
            _Instruction(address, size, mnemonic.rsplit(" ", 1)[-1], _is_jump(mnemonic), _operands(operands), operands)
            for address, size, mnemonic, operands in self._engine.disasm_lite(code, start, MOST_INSTRUCTIONS)
        ]
        self.decoded += len(instructions)
        end = start + len(code)
        return _Pass(instructions, start, end).run()


class _State:
    __slots__ = ("registers", "stack")

    def __init__(self, registers: dict[str, Value], stack: dict[int, Value]) -> None:
        self.registers, self.stack = registers, stack

    def copy(self) -> _State:
        return _State(dict(self.registers), dict(self.stack))

    def meet(self, other: _State, patient: bool = True) -> bool:
        """Keep what holds on both ways; True if that is less than before. Impatient: what differs is unknown at once,
        so that counting in a loop does not take a pass for each number."""
        mine, theirs = self.registers, other.registers
        changed = False
        for name in REGISTERS:
            before = mine[name]
            if before is not None and before != theirs[name]:
                after = mine[name] = _united(before, theirs[name]) if patient else None
                changed |= after != before
        for at, before in self.stack.items():
            if before is not None and before != other.stack.get(at):
                after = self.stack[at] = _united(before, other.stack.get(at)) if patient else None
                changed |= after != before
        for at in other.stack.keys() - self.stack.keys():
            self.stack[at] = None  # known on one way only; it must not pass for the caller's slot
            changed = True
        return changed


def _unknown() -> _State:
    return _State(dict.fromkeys(REGISTERS), {})


def _united(one: Value, other: Value) -> Value:
    if one == other:
        return one
    if isinstance(one, frozenset) and isinstance(other, frozenset) and len(one | other) <= MOST_VALUES:
        return one | other
    return None


class _Pass:
    """Passes over a function until what is known at its labels does not change any more."""

    def __init__(self, instructions: list[_Instruction], start: int, end: int) -> None:
        self.instructions, self.start, self.end = instructions, start, end
        self.state: _State | None = None
        self.entering: dict[int, _State] = {}  # label -> what is known on the ways that lead there by a jump
        self.changed = False
        self.patient = True
        self.escaped: int | None = None  # the lowest place on the stack whose address went somewhere
        targets = (one.operands[0].number for one in instructions if one.jump and one.operands)
        self.labels = {target for target in targets if target is not None and start <= target < end}
        self.found = Effects([], [], [])

    def run(self) -> Effects:
        for number in range(MOST_PASSES):
            self.patient = number < PATIENCE
            orphans = self._walk()
            if not self.changed and not orphans:
                return self.found
            if not self.changed:
                # Reached by a table of jumps, or by what is: nothing is known there.
                self.entering |= {orphan: _unknown() for orphan in orphans}
        for label in self.labels:  # too tangled: claim nothing at any label
            self.entering[label] = _unknown()
        self._walk()
        return self.found

    def _walk(self) -> list[int]:
        """One pass. Returns where the parts begin that no way leads to."""
        registers: dict[str, Value] = {name: (name, 0) for name in REGISTERS}
        registers["rsp"] = ("sp", 0)
        self.state = _State(registers, {})
        self.found = Effects([], [], [])
        self.changed = False
        orphans: list[int] = []
        ended = False
        for one in self.instructions:
            address, base = one.address, one.base
            came = self.entering.get(address)
            if came is not None:
                if self.state is None:
                    self.state = came.copy()
                else:
                    self.state.meet(came)
            if self.state is None:
                if ended and base not in _PADDING and address not in self.labels:
                    # Behind an end, and no jump leads here: a table of jumps does, or nothing.
                    self.state = self.entering[address] = _unknown()
                elif ended and base not in _PADDING:
                    orphans.append(address)
            if self.state is None:
                ended = base in _ENDS or (ended and base in _PADDING)
                continue
            ended = base in _ENDS
            if one.jump:
                self._jump(one)
            elif not ended:
                self._step(one)
            if ended:
                self.state = None
        return orphans

    def _jump(self, one: _Instruction) -> None:
        assert self.state is not None
        operand = one.operands[0] if one.operands else _Operand()
        target = operand.number
        if target is None:
            if operand.base == "rip" and not operand.segment:
                self._call(one.address, one.address + one.size + operand.offset, by_pointer=True, pushed=0)
        elif not self.start <= target < self.end or (target == self.start and one.base == "jmp"):
            self._call(one.address, target, by_pointer=False, pushed=0)
        elif target not in self.entering:
            self.entering[target] = self.state.copy()
            self.changed = True
        else:
            self.changed |= self.entering[target].meet(self.state, self.patient)

    def _call(self, address: int, target: int, *, by_pointer: bool, pushed: int) -> None:
        assert self.state is not None
        pointer = self.state.registers["rsp"]
        stack: dict[int, Value] = {}
        if isinstance(pointer, tuple) and pointer[0] == "sp":
            for offset in range(8, 64, 8):
                stack[offset] = self._load(pointer[1] + offset - pushed)
        self.found.calls.append(Called(address, target, by_pointer, self.state.registers.copy(), stack))

    def _step(self, one: _Instruction) -> None:
        assert self.state is not None
        registers = self.state.registers
        base = one.base
        if base == "syscall":
            values = tuple(registers[name] for name in SYSTEM_ARGUMENTS)
            self.found.system_calls.append(SystemCall(one.address, registers["rax"], values))
            for name in _IMPLICIT["syscall"]:
                registers[name] = None
        elif base == "call":
            operand = one.operands[0]
            if operand.number is not None:
                self._call(one.address, operand.number, by_pointer=False, pushed=8)
            elif operand.base == "rip" and not operand.segment:
                self._call(one.address, one.address + one.size + operand.offset, by_pointer=True, pushed=8)
            for name in _LOST_BY_CALL:
                registers[name] = None
            if self.escaped is not None:
                lowest = self.escaped
                self.state.stack = {at: value for at, value in self.state.stack.items() if at < lowest}
        else:
            if "s:" in one.text or base.endswith("sbase"):
                self._segment(one)
            self._move(one, base, one.operands)

    def _segment(self, one: _Instruction) -> None:
        text = f"{one.base} {one.text}"
        if one.base in ("wrfsbase", "wrgsbase", "rdfsbase", "rdgsbase"):
            self.found.segments.append(SegmentUse(one.address, one.base[2:4], text, None))
        for operand in one.operands:
            if operand.segment in ("fs", "gs"):
                plain = operand.offset if operand.base == "" and operand.number is not None else None
                self.found.segments.append(SegmentUse(one.address, operand.segment, text, plain))

    def _move(self, one: _Instruction, base: str, operands: tuple[_Operand, ...]) -> None:
        assert self.state is not None
        registers = self.state.registers
        after = one.address + one.size
        if base in ("mov", "movabs", "movsxd", "movzx", "movsx") and len(operands) == 2:
            value = self._value(operands[1])
            if base in ("movzx", "movsx") and not isinstance(value, tuple):
                value = None
            elif base == "movsxd" and isinstance(value, frozenset):
                value = frozenset((each | ~0xFFFFFFFF) & MASK if each & 0x80000000 else each for each in value)
            self._assign(operands[0], value)
        elif base == "lea":
            self._assign(operands[0], self._address(operands[1], after))
        elif base == "push":
            self._shift(-8)
            self._store(self._slot(_TOP), self._value(operands[0]), wide=True)
        elif base == "pop":
            value = self._load(self._slot(_TOP))
            self._shift(8)
            self._assign(operands[0], value)
        elif base == "leave":
            registers["rsp"] = registers["rbp"]
            value = self._load(self._slot(_TOP))
            self._shift(8)
            registers["rbp"] = value
        elif base in ("xor", "sub") and len(operands) == 2 and operands[0] == operands[1] and operands[0].register:
            self._assign(operands[0], _ZERO)
        elif base in _ARITHMETIC and operands[0].register:
            self._assign(operands[0], self._arithmetic(base, operands))
        elif base.startswith("cmov"):
            self._assign(operands[0], _united(self._value(operands[0]), self._value(operands[1])))
        else:
            for name in _changes(base, operands):
                registers[name] = None
            if operands and operands[0].memory and base not in _NO_TARGET:
                self._store(self._slot(operands[0]), None, wide=True)

    def _arithmetic(self, base: str, operands: tuple[_Operand, ...]) -> Value:
        before = self._value(operands[0])
        operand = _ONE if len(operands) == 1 else self._value(operands[1])
        if before is None or not isinstance(operand, frozenset):
            return None
        if isinstance(before, tuple):
            # The stack pointer moves; a parameter is only ever passed on.
            if before[0] == "sp" and len(operand) == 1 and base in ("add", "sub"):
                (by,) = operand
                by = by - (1 << 64) if by >> 63 else by
                return ("sp", before[1] + (by if base == "add" else -by))
            if before[0] == "sp" and base == "and":
                return ("sp", (before[1] & ~0xFFFFF) - (1 << 20))  # aligned: some place further down, all its own
            return None
        results = {_compute(base, each, other) for each in before for other in operand}
        return frozenset(results) if len(results) <= MOST_VALUES else None

    def _shift(self, by: int) -> None:
        assert self.state is not None
        pointer = self.state.registers["rsp"]
        if isinstance(pointer, tuple) and pointer[0] == "sp":
            self.state.registers["rsp"] = ("sp", pointer[1] + by)

    def _value(self, operand: _Operand) -> Value:
        assert self.state is not None
        if operand.register:
            value = self.state.registers[operand.register]
            width = operand.width
            if width == 64 or (width == 32 and isinstance(value, tuple)):
                return value
            if width == 32 and isinstance(value, frozenset):
                return frozenset(each & 0xFFFFFFFF for each in value)
            return None
        if operand.memory:
            return self._load(self._slot(operand)) if operand.wide else None
        return frozenset((operand.number & MASK,)) if operand.number is not None else None

    def _assign(self, operand: _Operand, value: Value) -> None:
        assert self.state is not None
        name, width = operand.register, operand.width
        if not name:
            self._store(self._slot(operand), value if operand.wide else None, wide=operand.wide)
            return
        if width == 32 and isinstance(value, frozenset):
            value = frozenset(each & 0xFFFFFFFF for each in value)
        elif width == 32 and isinstance(value, tuple) and value[0] == "sp":
            value = None
        elif width == 8:
            before = self.state.registers[name]
            if isinstance(before, frozenset) and isinstance(value, frozenset) and len(before) == len(value) == 1:
                value = frozenset((min(before) & ~0xFF | min(value) & 0xFF,))
            else:
                value = None
        elif width in (0, 16):
            value = None
        self.state.registers[name] = value

    def _address(self, operand: _Operand, after: int) -> Value:
        """What `lea` computes."""
        assert self.state is not None
        if operand.base == "rip":
            return frozenset(((after + operand.offset) & MASK,))
        slot = self._slot(operand)
        if slot is not None:
            self.escaped = slot if self.escaped is None else min(self.escaped, slot)
            return ("sp", slot)
        if operand.number is not None:
            return frozenset((operand.number & MASK,))
        value = self.state.registers.get(operand.base)
        if isinstance(value, frozenset):
            return frozenset((each + operand.offset) & MASK for each in value)
        return None

    def _slot(self, operand: _Operand) -> int | None:
        """The place on the stack that an operand names, counted from the stack pointer at the entry."""
        assert self.state is not None
        if operand.segment:
            return None
        pointer = self.state.registers.get(operand.base)
        if isinstance(pointer, tuple) and pointer[0] == "sp":
            return pointer[1] + operand.offset
        return None

    def _load(self, slot: int | None) -> Value:
        assert self.state is not None
        if slot is None:
            return None
        if slot in self.state.stack:
            return self.state.stack[slot]
        return ("[]", slot) if slot > 0 else None

    def _store(self, slot: int | None, value: Value, *, wide: bool) -> None:
        assert self.state is not None
        if slot is None:
            return
        self.state.stack[slot] = value
        if not wide:
            self.state.stack[slot & ~7] = None


def _is_jump(mnemonic: str) -> bool:
    return mnemonic[0] == "j" or mnemonic.endswith("jmp") or mnemonic == "loop"


def _compute(base: str, one: int, other: int) -> int:
    if base in ("add", "inc"):
        return (one + other) & MASK
    if base in ("sub", "dec"):
        return (one - other) & MASK
    if base == "or":
        return one | other
    if base == "and":
        return one & other
    if base == "xor":
        return one ^ other
    return (one << (other & 63)) & MASK


def _changes(base: str, operands: tuple[_Operand, ...]) -> tuple[str, ...]:
    """The registers that an instruction may change, by its form."""
    if _STRING.match(base):
        return _STRING_REGISTERS
    implicit = _IMPLICIT.get(base, ())
    if base in _NO_TARGET:
        return implicit
    if base == "imul" and len(operands) == 1:
        return ("rax", "rdx")
    targets = operands[: 2 if base in _TWO_TARGETS else 1]
    return (*implicit, *(one.register for one in targets if one.register))


@lru_cache(1 << 16)
def _operands(text: str) -> tuple[_Operand, ...]:
    return tuple(_operand(one) for one in text.split(", ")) if text else ()


@lru_cache(1 << 16)
def _operand(text: str) -> _Operand:
    known = _WIDTHS.get(text)
    if known is not None:
        return _Operand(register=known[0], width=known[1])
    number = _number(text)
    if number is not None:
        return _Operand(number=number)
    memory = _MEMORY.match(text)
    if memory is None:
        return _Operand()
    base, offset = _base_and_offset(memory["inside"])
    plain = _number(memory["inside"])  # an absolute address
    if plain is not None:
        base, offset = "", plain
    wide = memory["size"] in ("qword", "dword")
    return _Operand("", 0, plain, base, offset, True, memory["segment"] or "", wide)


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _base_and_offset(inside: str) -> tuple[str, int]:
    """`rsp + 8` as ("rsp", 8); an empty name where an index takes part."""
    parts = inside.split(" ")
    if len(parts) == 1:
        return parts[0], 0
    if len(parts) == 3 and "*" not in inside:
        offset = _number(parts[2])
        if offset is not None:
            return parts[0], offset if parts[1] == "+" else -offset
    return "", 0


_TOP = _operand("qword ptr [rsp]")
_ZERO, _ONE = frozenset((0,)), frozenset((1,))

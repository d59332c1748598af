"""Classic BPF for tests: the kernel's acceptance rules and a plain interpreter.

Written from the kernel's rules for seccomp programs, not from husk's assembler, so that the two can contradict
each other.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

SECCOMP_DATA_SIZE = 64
MAX_INSTRUCTIONS = 4096

LD_W_ABS = 0x20
ALU_AND_K = 0x54
JMP_JA = 0x05
JMP_JEQ_K = 0x15
JMP_JGT_K = 0x25
JMP_JGE_K = 0x35
JMP_JSET_K = 0x45
RET_K = 0x06
CONDITIONAL = (JMP_JEQ_K, JMP_JGT_K, JMP_JGE_K, JMP_JSET_K)


class Instruction(NamedTuple):
    code: int
    jt: int
    jf: int
    k: int


class Outcome(NamedTuple):
    action: int
    loads: frozenset[int]  # offsets into struct seccomp_data that were looked at
    steps: int


def decode(program: bytes) -> list[Instruction]:
    return [Instruction(*fields) for fields in struct.iter_unpack("<HBBI", program)]


def successors(pc: int, instruction: Instruction) -> list[int]:
    if instruction.code == RET_K:
        return []
    if instruction.code == JMP_JA:
        return [pc + 1 + instruction.k]
    if instruction.code in CONDITIONAL:
        return [pc + 1 + instruction.jt, pc + 1 + instruction.jf]
    return [pc + 1]


def faults(code: Sequence[Instruction]) -> list[str]:
    """What the kernel's checker would object to, and what it would not but we do: unreachable instructions."""
    found: list[str] = []
    if not 1 <= len(code) <= MAX_INSTRUCTIONS:
        return [f"{len(code)} instructions"]
    if code[-1].code != RET_K:
        found.append("the last instruction is no return")
    reachable = {0}
    for pc, instruction in enumerate(code):
        if instruction.code == LD_W_ABS:
            if instruction.k % 4 or instruction.k >= SECCOMP_DATA_SIZE:
                found.append(f"{pc}: load of offset {instruction.k}")
        elif instruction.code not in (ALU_AND_K, JMP_JA, RET_K, *CONDITIONAL):
            found.append(f"{pc}: code {instruction.code:#x} is not used by husk")
        if instruction.code not in CONDITIONAL and (instruction.jt or instruction.jf):
            found.append(f"{pc}: jump distances on an instruction that does not branch")
        after = successors(pc, instruction)
        if any(target >= len(code) for target in after):
            found.append(f"{pc}: leaves the program")
        if pc in reachable:
            reachable.update(after)
        else:
            found.append(f"{pc}: unreachable")
    return found


def run(code: Sequence[Instruction], nr: int, arch: int, args: Sequence[int]) -> Outcome:
    """`args`: six arguments, or seven values: then the last is the instruction pointer."""
    *values, pointer = (value & 0xFFFFFFFFFFFFFFFF for value in (*args, 0)[:7])
    data = struct.pack("<IIQ6Q", nr & 0xFFFFFFFF, arch, pointer, *values)
    pc = accumulator = steps = 0
    loads: set[int] = set()
    while True:
        instruction = code[pc]
        steps += 1
        pc += 1
        if instruction.code == RET_K:
            return Outcome(instruction.k, frozenset(loads), steps)
        if instruction.code == LD_W_ABS:
            loads.add(instruction.k)
            (accumulator,) = struct.unpack_from("<I", data, instruction.k)
        elif instruction.code == ALU_AND_K:
            accumulator &= instruction.k
        elif instruction.code == JMP_JA:
            pc += instruction.k
        else:
            holds = {
                JMP_JEQ_K: accumulator == instruction.k,
                JMP_JGT_K: accumulator > instruction.k,
                JMP_JGE_K: accumulator >= instruction.k,
                JMP_JSET_K: bool(accumulator & instruction.k),
            }[instruction.code]
            pc += instruction.jt if holds else instruction.jf

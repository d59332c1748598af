"""Layer walls: an assembler for classic BPF as seccomp accepts it.

Here: instructions, labels, jumps. Not here: what the filter should say (filter.py).

A program is written from its end to its beginning. Classic BPF only jumps forward, so every target is already placed
when a jump to it is written, its distance is known at once, and no second pass is needed. Conditional jumps hold
distances in 8 bits; a target further away gets an intermediate unconditional jump (32 bits) next to the instruction.
"""

from __future__ import annotations

from struct import Struct

LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
JUMP = 0x05  # BPF_JMP | BPF_JA
JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
JUMP_GREATER = 0x25  # BPF_JMP | BPF_JGT | BPF_K
JUMP_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
JUMP_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K

MAX_INSTRUCTIONS = 4096  # BPF_MAXINSNS

# struct sock_filter: u16 code, u8 jump if true, u8 jump if false, u32 constant
_INSTRUCTION = Struct("<HBBI")


def join(head: list[tuple[int, int, int, int]], rest: bytes) -> bytes:
    """Instructions before a program that is encoded already. Jumps behind the last one lead to its beginning."""
    if len(head) + len(rest) // _INSTRUCTION.size > MAX_INSTRUCTIONS:
        raise ValueError("a seccomp filter with these instructions in front is longer than Linux accepts")
    return b"".join([_INSTRUCTION.pack(*instruction) for instruction in head]) + rest


class Program:
    """Instructions in reverse. A label is the number of instructions from its place to the end of the program."""

    __slots__ = ("_returns", "_reversed")

    def __init__(self) -> None:
        self._reversed: list[tuple[int, int, int, int]] = []
        self._returns: dict[int, int] = {}

    def put(self, code: int, k: int) -> int:
        """Place an instruction that goes on to the one placed before it."""
        self._reversed.append((code, 0, 0, k))
        return len(self._reversed)

    def ret(self, value: int) -> int:
        """A label where the program returns `value`: the last such place while it is near, else a new one."""
        label = self._returns.get(value, 0)
        if not label or len(self._reversed) - label > 255:
            label = self._returns[value] = self.put(RETURN, value)
        return label

    def branch(self, code: int, k: int, true: int, false: int) -> int:
        """Place a conditional jump to two labels."""
        false = self._near(false, 1)  # the intermediate jump for `true` may still come between
        true = self._near(true, 0)
        here = len(self._reversed)
        self._reversed.append((code, here - true, here - false, k))
        return here + 1

    def go(self, label: int) -> int:
        """Make `label` the place the next instruction falls through to."""
        here = len(self._reversed)
        if here == label:
            return label
        code, _, _, k = self._reversed[label - 1]
        if code == RETURN:  # as short as a jump to it, and one step fewer
            label = self._returns[k] = self.put(RETURN, k)
            return label
        return self.put(JUMP, here - label)

    def _near(self, label: int, spare: int) -> int:
        return label if len(self._reversed) - label + spare <= 255 else self.go(label)

    def encode(self) -> bytes:
        if len(self._reversed) > MAX_INSTRUCTIONS:
            raise ValueError(f"a seccomp filter of {len(self._reversed)} instructions is longer than Linux accepts")
        pack = _INSTRUCTION.pack
        return b"".join([pack(*instruction) for instruction in reversed(self._reversed)])

"""compat/runtimes: comparisons of a seccomp profile as conditions that the registry's words can say.

libseccomp compares a register with seven operators. The registry's tests know equality under a mask and bits. Every
comparison is a union of such equalities: `x < 38` is `x` in 0..31, or in 32..35, or in 36..37, each one mask and one
value. So an imported rule means exactly what it said, and a filter can be made from it again.

Only 32 bits are compared: Linux reads flags, families and commands as int. A wider value that is compared for equality
keeps its 64 bits.
"""

from __future__ import annotations

from itertools import product

from husk.abi.registry.rules import ArgTest
from husk.compat.surface import ALL_32, spelled

OPERATORS = {f"SCMP_CMP_{name}": name for name in ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ")}
MOST = 1000  # alternatives of one rule; a profile with more is not written by hand

# What a comparison comes to: True or False whatever the register holds, or one of these tests.
Union = bool | list[ArgTest]
Range = tuple[int, int]  # from the first to the last


def comparison(index: int, name: str, kind: str, op: str, value: int, value_two: int) -> Union:
    """The comparison as a union of tests. ValueError: it is about bits that cannot be said."""
    if op == "MASKED_EQ":
        return _masked(index, name, value, value_two)
    if value > ALL_32:
        if op != "EQ":
            raise ValueError("it compares more than 32 bits")
        return [ArgTest(index, name, "in", {hex(value): value}, ALL_32, wide=True)]
    found = ranges(op, value)
    return found == [(0, ALL_32)] or tests_of(index, name, kind, found) or False


def ranges(op: str, value: int) -> list[Range]:
    """The numbers of 32 bits for which the comparison holds."""
    found = {
        "EQ": [(value, value)],
        "NE": [(0, value - 1), (value + 1, ALL_32)],
        "LT": [(0, value - 1)],
        "LE": [(0, value)],
        "GE": [(value, ALL_32)],
        "GT": [(value + 1, ALL_32)],
    }[op]
    return [(first, last) for first, last in found if first <= last]


def all_but(found: list[Range]) -> list[Range]:
    """The numbers of 32 bits that lie in none of the ranges."""
    gaps, start = [], 0
    for first, last in sorted(found):
        if first > start:
            gaps.append((start, first - 1))
        start = max(start, last + 1)
    return [*gaps, (start, ALL_32)] if start <= ALL_32 else gaps


def tests_of(index: int, name: str, kind: str, found: list[Range]) -> list[ArgTest]:
    """Tests of which one holds for each number in the ranges: one for all the single numbers, one for each block."""
    blocks = [block for first, last in found for block in aligned_blocks(first, last)]
    singles = {spelled(kind, value): value for value, mask in blocks if mask == ALL_32}
    tests = [ArgTest(index, name, "in", singles)] if singles else []
    return tests + [_test(index, name, value, mask) for value, mask in blocks if mask != ALL_32]


def aligned_blocks(first: int, last: int) -> list[tuple[int, int]]:
    """The numbers from `first` to `last` as blocks: (value, mask), where a number lies in one if number & mask is the
    value."""
    blocks = []
    while first <= last:
        size = first & -first or ALL_32 + 1
        while size > last - first + 1:
            size >>= 1
        blocks.append((first, ALL_32 & ~(size - 1)))
        first += size
    return blocks


def _masked(index: int, name: str, mask: int, wanted: int) -> Union:
    if wanted & ~mask:
        return False
    if mask > ALL_32:
        raise ValueError("its mask has more than 32 bits")
    return [_test(index, name, wanted, mask)] if mask else True


def _test(index: int, name: str, value: int, mask: int) -> ArgTest:
    return ArgTest(index, name, "in", {f"{value:#x} within {mask:#x}": value}, mask)


def alternatives(unions: list[Union]) -> list[tuple[ArgTest, ...]]:
    """All the unions at once, as tests of which one tuple must hold. An empty tuple always holds."""
    if any(union is False for union in unions):
        return []
    lists = [union for union in unions if isinstance(union, list)]
    count = 1
    for union in lists:
        count *= len(union)
    if count > MOST:
        raise ValueError(f"it has more than {MOST} alternatives")
    return list(product(*lists))

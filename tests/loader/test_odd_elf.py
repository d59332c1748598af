"""Hand-made ELF files, right and wrong ones: the loader ends as Linux does, by exit code or by signal."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Bench
from .elfmaker import (
    BASE,
    PAGE,
    PT_GNU_STACK,
    R,
    Segment,
    W,
    exit_with,
    exit_with_byte_at,
    image,
    increment_byte_at,
    text,
)

DATA = BASE + 0x10000
JUNK = {PAGE: b"\x55" * PAGE}
BUS, SEGV = 135, 139

CASES = {
    "plain": (image(exit_with(42), [text()]), 42),
    "bss only": (
        image(increment_byte_at(DATA + 9) + exit_with_byte_at(DATA + 9), [text(), Segment(R | W, DATA, 0, 0, 10)]),
        1,
    ),
    "bss only, unaligned": (
        image(exit_with_byte_at(DATA + 0x123), [text(), Segment(R | W, DATA + 0x123, 0x77, 0, PAGE)]),
        0,
    ),
    "data": (image(exit_with_byte_at(DATA + 8), [text(), Segment(R | W, DATA, PAGE, 16, 16)], data=JUNK), 0x55),
    "tail without bss keeps the file's bytes": (
        image(exit_with_byte_at(DATA + 100), [text(), Segment(R | W, DATA, PAGE, 16, 16)], data=JUNK),
        0x55,
    ),
    "tail past a short bss is zero": (
        image(exit_with_byte_at(DATA + PAGE - 1), [text(), Segment(R | W, DATA, PAGE, 16, 17)], data=JUNK),
        0,
    ),
    "tail of a read-only segment stays": (
        image(exit_with_byte_at(DATA + PAGE - 1), [text(), Segment(R, DATA, PAGE, 16, 2 * PAGE)], data=JUNK),
        0x55,
    ),
    "bss of a read-only segment is writable": (
        image(
            increment_byte_at(DATA + PAGE) + exit_with_byte_at(DATA + PAGE),
            [text(), Segment(R, DATA, PAGE, 16, 2 * PAGE)],
            data=JUNK,
        ),
        1,
    ),
    "large bss": (
        image(exit_with_byte_at(DATA + (64 << 20)), [text(), Segment(R | W, DATA, PAGE, 1, 65 << 20)], data=JUNK),
        0,
    ),
    "file part ends at a page": (
        image(exit_with_byte_at(DATA + PAGE), [text(), Segment(R | W, DATA, PAGE, PAGE, PAGE + 1)], data=JUNK),
        0,
    ),
    "unaligned offset": (
        image(exit_with_byte_at(DATA + 0x10), [text(), Segment(R, DATA + 0x10, PAGE + 0x10, 8, 8)], data=JUNK),
        0x55,
    ),
    "offset not congruent to address": (
        image(exit_with(0), [text(), Segment(R, DATA, PAGE + 0x10, 8, 8)], data=JUNK),
        SEGV,
    ),
    "file size above memory size": (image(exit_with(0), [text(), Segment(R, DATA, PAGE, 16, 8)], data=JUNK), SEGV),
    "memory size beyond user space": (
        image(exit_with(0), [text(), Segment(R, DATA, PAGE, 8, 1 << 62)], data=JUNK),
        SEGV,
    ),
    "read past end of file": (image(exit_with_byte_at(DATA), [text(), Segment(R, DATA, 8 * PAGE, 16, 16)]), BUS),
    "bss tail past end of file": (image(exit_with(0), [text(), Segment(R | W, DATA, 8 * PAGE, 16, 32)]), SEGV),
    "segments out of order": (
        image(
            exit_with_byte_at(DATA + 3),
            [Segment(R, DATA + 8 * PAGE, PAGE, 8, 8), text(), Segment(R, DATA, PAGE, 8, 8)],
            data=JUNK,
        ),
        0x55,
    ),
    "overlapping segments": (
        image(
            exit_with_byte_at(DATA), [text(), Segment(R | W, DATA, 0, 0, PAGE), Segment(R, DATA, PAGE, 8, 8)], data=JUNK
        ),
        0x55,
    ),
    "hole between segments": (
        image(exit_with_byte_at(DATA - PAGE), [text(), Segment(R | W, DATA, PAGE, 8, 8)], data=JUNK),
        SEGV,
    ),
    "table far from the header": (image(exit_with(7), [text()], phoff=3 * PAGE - 20), 7),
    "table of a thousand": (
        image(exit_with(8), [text(), *[Segment(R, 0, 0, 0, 0, kind=PT_GNU_STACK)] * 999], phoff=PAGE),
        8,
    ),
    "no segment at all": (image(exit_with(0), [Segment(R, 0, 0, 0, 0, kind=PT_GNU_STACK)]), SEGV),
    "segment on the stack's side of user space": (
        image(exit_with_byte_at(0x7000_0000_0000), [text(), Segment(R, 0x7000_0000_0000, PAGE, 8, 8)], data=JUNK),
        0x55,
    ),
}


def test_death_cannot_be_ignored(bench: Bench, tmp_path: Path) -> None:
    program = tmp_path / "odd"
    program.write_bytes(CASES["file size above memory size"][0])
    for setup in ("env --ignore-signal=SEGV", "env --block-signal=SEGV"):
        assert bench.loaded(program, ["odd"], setup=setup).code == SEGV


@pytest.mark.parametrize("name", CASES)
def test_as_linux(bench: Bench, tmp_path: Path, name: str) -> None:
    content, expected = CASES[name]
    program = tmp_path / "odd"
    program.write_bytes(content)
    program.chmod(0o755)
    try:
        native = bench.native(program, ["odd"]).code
    except OSError:
        native = SEGV  # refused before the point of no return: husk's supervisor refuses it earlier, too
    assert (bench.loaded(program, ["odd"]).code, native) == (expected, expected)


def test_over_the_resident_region(bench: Bench, tmp_path: Path) -> None:
    """Linux has no such region, so this is a difference: the program ends instead of overwriting it."""
    program = tmp_path / "odd"
    program.write_bytes(image(exit_with(0), [text(), Segment(R | W, 0x567F_0000_0000, 0, 0, PAGE)]))
    assert bench.loaded(program, ["odd"]).code == SEGV

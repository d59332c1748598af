"""Write call_table.h and ready_tables.h: what the C core has to know of system calls, and what each run would otherwise
make of the registry's rows when it starts.

    python tools/call_table.py CALL_TABLE READY_TABLES

Called by the build (src/husk/native/meson.build), and by tests that compile a C file of the core by hand.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"
COOKIES = 0x5AFE_F111_7E12_C00C, 0x0DD5_A1DE_B0A7_5EA1  # any two whose halves are no constants of a filter
sys.path.insert(0, str(SOURCES))
sys.dont_write_bytecode = True  # a build leaves the sources as they are


def call_table() -> str:
    from husk.abi.registry import HUSK_CALL_ROW, ROWS, handled_rows
    from husk.abi.registry.signatures import arguments

    lines = [
        "/* Made by tools/call_table.py from the registry (src/husk/abi/registry): change the rows instead.",
        " *",
        " * For each call that husk answers, the places of its arguments: ARG_openat_flags is an index into args[]. */",
        "#ifndef HUSK_CALL_TABLE_H",
        "#define HUSK_CALL_TABLE_H",
        "",
        f"#define HUSK_CALL {HUSK_CALL_ROW.nr:#x} /* the call that only the loader makes; no Linux uses the number */",
        f"#define CALL_NUMBERS {max(ROWS) + 1} /* every call of Linux that has a row has a smaller number */",
        "#ifndef __ASSEMBLER__",
    ]
    for row in handled_rows():
        if arguments(row):
            words = ", ".join(f"ARG_{row.name}_{name}" for name, _ in arguments(row))
            lines.append(f"enum {{ {words} }};")
    return "\n".join([*lines, "#endif", "", "#endif", ""])


def ready_tables() -> str:
    from husk.abi.registry import eintr_bitmap, handled_rows, mixed_calls
    from husk.abi.registry.rules import IN_C
    from husk.walls.ready_filter import USUAL

    handled = [row for row in handled_rows() if row.family != IN_C]
    lines = [
        "/* Made by tools/call_table.py from the registry (src/husk/abi/registry): change the rows instead. */",
        "/* Number, family, name and way of each call that a handler in Python answers. */",
        "static const char ready_handlers[] =",
        *(f'    "{row.nr} {row.family} {row.name} {row.way}\\n"' for row in handled),
        "    ;",
        f"static const uint16_t ready_mixed[] = {{{_list(sorted(mixed_calls()))}}};",
        f"static const uint8_t ready_eintr[] = {{{_list(eintr_bitmap())}}};",
        "",
        "/* Filters of the usual boxes (walls/ready_filter.py): instructions, with 0 for the halves of a box's cookie;",
        " * the places of its upper and of its lower half; the calls that end the use of gates. */",
    ]
    for at, (walls, gates) in enumerate(USUAL):
        code, upper, lower, closing = _filter(walls, gates=gates)
        lines += [f"static const struct sock_filter ready_code_{at}[] = {{"]
        lines += [f"    {{{a:#x}, {b}, {c}, {k:#x}}}," for a, b, c, k in code] + ["};"]
        for name, numbers in (("upper", upper), ("lower", lower), ("closing", closing)):
            lines.append(f"static const uint16_t ready_{name}_{at}[] = {{{_list([*numbers, NO_MORE])}}};")
    lines += [f"#define READY_NO_MORE {NO_MORE}", "static const struct ready_filter ready_filters[] = {"]
    for at in range(len(USUAL)):
        parts = ", ".join(f"ready_{name}_{at}" for name in ("upper", "lower", "closing"))
        lines.append(f"    {{ready_code_{at}, sizeof ready_code_{at} / sizeof ready_code_{at}[0], {parts}}},")
    return "\n".join([*lines, "};", ""])


NO_MORE = 0xFFFF
Instructions = list[tuple[int, int, int, int]]


def _filter(walls: object, *, gates: bool) -> tuple[Instructions, list[int], list[int], list[int]]:
    """Made with two cookies: they differ where a cookie is, and nowhere else."""
    from husk.walls.closing_calls import closing_calls
    from husk.walls.filter import Walls, compile_filter

    assert isinstance(walls, Walls)
    closing = closing_calls(walls) if gates else {}
    one, other = (list(struct.iter_unpack("<HBBI", compile_filter(walls, cookie, closing))) for cookie in COOKIES)
    upper = [at for at, part in enumerate(one) if part[3] == COOKIES[0] >> 32]
    lower = [at for at, part in enumerate(one) if part[3] == COOKIES[0] & 0xFFFFFFFF]
    for at, (part, others) in enumerate(zip(one, other, strict=True)):
        shift = 32 if at in upper else 0 if at in lower else None
        expected = part[3] if shift is None else COOKIES[1] >> shift & 0xFFFFFFFF
        assert (*part[:3], expected) == others, f"the filter depends on the cookie at {at}"
    code: Instructions = [(a, b, c, 0 if at in (*upper, *lower) else k) for at, (a, b, c, k) in enumerate(one)]
    assert len(code) < NO_MORE
    return code, upper, lower, list(closing)


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(call_table())
    Path(sys.argv[2]).write_text(ready_tables())

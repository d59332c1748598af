"""Write call_table.h: what the C core has to know of system calls, from the registry.

    python tools/call_table.py OUTPUT

Called by the build (src/husk/native/meson.build), and by tests that compile a C file of the core by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"


def call_table() -> str:
    sys.path.insert(0, str(SOURCES))
    sys.dont_write_bytecode = True  # a build leaves the sources as they are
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


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(call_table())

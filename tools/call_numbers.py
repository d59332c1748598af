"""Write call_numbers.h for husk-probe: numbers of calls, names of errnos and signals.

    python tools/call_numbers.py OUTPUT

The numbers come from the registry, because the system's own headers may be older than that. Called by the build
(src/husk/compat/probe/meson.build).
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"


def call_numbers() -> str:
    sys.path.insert(0, str(SOURCES))
    sys.dont_write_bytecode = True  # a build leaves the sources as they are
    from husk.abi.registry import ROWS
    from husk.abi.registry.flags import SIGNALS

    errnos = {**errno.errorcode, errno.EOPNOTSUPP: "EOPNOTSUPP"}  # the number has two names
    lines = [
        "/* Made by tools/call_numbers.py from the registry (src/husk/abi/registry): change the rows instead. */",
        "#ifndef HUSK_CALL_NUMBERS_H",
        "#define HUSK_CALL_NUMBERS_H",
        "",
        *(f"#define NR_{row.name} {row.nr}" for row in sorted(ROWS.values(), key=lambda row: row.nr)),
        "",
        "#define PROBE_ERRNO_NAMES \\",
        *(f'    [{number}] = "{name}", \\' for number, name in sorted(errnos.items())),
        "",
        "#define PROBE_SIGNAL_NAMES \\",
        *(f'    [{number}] = "{name}", \\' for name, number in SIGNALS.items()),
        "",
        "#endif",
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(call_numbers())

"""The headers that the build makes from the registry, for tests that compile a C file of husk by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "call_table.py"


def write_call_table(folder: Path) -> Path:
    """The folder that the compiler then has to search for headers."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [str(folder / name) for name in ("call_table.h", "ready_tables.h")]
    subprocess.run([sys.executable, str(TOOL), *made], check=True)
    return folder

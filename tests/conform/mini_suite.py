"""A suite of stand-ins for GoogleTest programs (mini_gtest.c), and what its cases are known to do."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("mini_gtest.c")
TIMEOUT = 4
# What each case does wherever it runs; Box.* depend on where.
KNOWN = {
    "All/Params.Works/0": "pass",
    "All/Params.Works/1": "pass",
    "All/Params.Works/named": "pass",
    "Bad.AfterTheCrash": "pass",
    "Bad.Crashes": "crash",
    "Bad.Exits": "crash",
    "Bad.Hangs": "hang",
    "Bad.LeavesAProcess": "pass",
    "Bad.Naps": "pass",
    "Bad.PrintsGarbage": "pass",
    "Bad.PrintsMuch": "fail",
    "Basics.DISABLED_Off": "skip",
    "Basics.Fails": "fail",
    "Basics.Passes": "pass",
    "Basics.Skips": "skip",
    "Typed/0.Works": "pass",
}


@functools.cache
def program() -> Path:
    """Compiled once, statically: it runs in any sandbox."""
    target = Path(tempfile.mkdtemp(prefix="husk-mini-")) / "mini_test"
    subprocess.run(["gcc", "-O1", "-static", "-o", str(target), str(SOURCE)], check=True)
    return target


def mini_suite(place: Path, files: Mapping[str, str] | None = None, name: str = "mini") -> Path:
    """A suite in the directory `place`. `files`: names of programs, with the MINI_MODE of each."""
    place.mkdir(parents=True, exist_ok=True)
    lines = ["format = 1", f'name = "{name}"', 'kind = "googletest"', f"timeout = {TIMEOUT}"]
    for file, mode in (files or {"mini_test": ""}).items():
        target = place / file
        target.unlink(missing_ok=True)
        target.write_bytes(program().read_bytes())
        target.chmod(0o755)
        variables = f'MINI_MODE = "{mode}", MINI_HOST_FILE = "{host_file(place)}", MINI_MARK = "{mark(place)}"'
        lines += ["[[files]]", f'path = "{file}"', f'family = "{mode or "plain"}"', f"environment = {{ {variables} }}"]
    (place / "suite.toml").write_text("\n".join(lines) + "\n")
    host_file(place).touch(0o600)
    return place


def host_file(place: Path) -> Path:
    """Beside the suite's directory: natively it is there, a sandbox does not show it."""
    return place.with_name(f"{place.name}-host-file")


def mark(place: Path) -> str:
    """The name of the process that a case leaves behind: at most 15 letters."""
    return f"hc{abs(hash(str(place))) % 10**10}"


def processes_named(name: str) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", pid, "comm").read_text().strip() == name:
                found.append(int(pid))
        except OSError:
            continue
    return found

"""Compiles the programs with known answers (tests/compat/programs), once for a test session."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "programs"
FREESTANDING = [
    "-static", "-nostdlib", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fcf-protection=none",
]  # fmt: skip
# Program: its source and the flags that make it. The address of `block` is the one of the program that began all this.
BUILDS = {
    "exact": ("exact.c", [*FREESTANDING, "-no-pie"]),
    "exact-stripped": ("exact.c", [*FREESTANDING, "-no-pie", "-s"]),
    "exact-pie": ("exact.c", [*FREESTANDING, "-static-pie", "-fPIE"]),
    "through-libc": ("through_libc.c", []),
    "through-static-libc": ("through_libc.c", ["-static"]),
    "raw-stub": ("raw_stub.S", [*FREESTANDING, "-no-pie"]),
    "computed": ("computed.c", [*FREESTANDING, "-no-pie"]),
    "touches-gs": ("touches_gs.c", [*FREESTANDING, "-no-pie", "-Wl,--section-start=.gsblock=0x66ae00"]),
}


@functools.cache
def folder() -> Path:
    # Readable by every user: husk run as root runs its guests as another one.
    place = Path(tempfile.mkdtemp(prefix="husk-known-"))
    place.chmod(0o755)
    return place


@functools.cache
def program(name: str) -> str:
    source, flags = BUILDS[name]
    target = folder() / name
    command = ["gcc", "-O1", "-Wall", "-Wextra", "-o", str(target), str(SOURCES / source), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return str(target)

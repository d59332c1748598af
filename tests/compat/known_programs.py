"""Compiles the programs with known answers (tests/compat/programs), once for a test session."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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


def _temporary(prefix: str) -> Path:
    """Removed when the tests end. Readable by every user: husk run as root runs its guests as another one."""
    place = Path(tempfile.mkdtemp(prefix=prefix))
    place.chmod(0o755)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


@functools.cache
def folder() -> Path:
    return _temporary("husk-known-")


@contextmanager
def own_cache() -> Iterator[None]:
    """libc is disassembled once for all these tests, and the user's own cache is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(_cache()))
        yield


@functools.cache
def _cache() -> Path:
    return _temporary("husk-looks-")


@functools.cache
def program(name: str) -> str:
    source, flags = BUILDS[name]
    target = folder() / name
    command = ["gcc", "-O1", "-Wall", "-Wextra", "-o", str(target), str(SOURCES / source), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return str(target)

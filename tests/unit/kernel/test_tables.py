"""husk finds the descriptors of a process in all its descriptor tables."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from husk.kernel.fd_tables import tables_of
from husk.sandbox.limits.memory_use import held_in_memory

# Many threads. argv says how many descriptor tables there are, and which thread still lives.
PROGRAM = """
import ctypes, os, sys, threading
call = ctypes.CDLL(None).syscall
EXIT, UNSHARE, CLONE_FILES = 60, 272, 0x400

def hold():
    if sys.argv[1] != "shared":
        assert call(UNSHARE, CLONE_FILES) == 0
    file = os.memfd_create("hidden")
    os.write(file, bytes(1 << 20))
    held.release()
    os.read(0, 1)  # until we are let go
    os._exit(0)

held = threading.Semaphore(0)
for _ in range(3):
    threading.Thread(target=hold, daemon=True).start()
for _ in range(3):
    held.acquire()
os.write(1, b"held\\n")
if sys.argv[1] == "first ends":
    call(EXIT, 0)
os.read(0, 1)
"""


@pytest.mark.parametrize(("case", "count"), [("shared", 1), ("apart", 4), ("first ends", 4)])
def test_tables_of_threads(case: str, count: int) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, case], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        while case == "first ends" and b"Z" not in _state(process.pid):
            pass
        assert len(tables_of(process.pid)) == count
        assert sorted(held_in_memory([process.pid]).values()) == [1 << 20] * 3
        process.communicate(b"")


def test_one_thread_and_none() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as process:
        assert tables_of(process.pid) == [b"/proc/%d/fd/" % process.pid]
        process.communicate(b"\n")
    with pytest.raises(FileNotFoundError):
        tables_of(process.pid)
    assert held_in_memory([process.pid]) == {}


def _state(pid: int) -> bytes:
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return stat.read().rpartition(b")")[2].split()[0]


def test_our_own() -> None:
    file = os.memfd_create("ours")
    assert any(os.readlink(table + b"%d" % file).startswith(b"/memfd:ours") for table in tables_of(os.getpid()))
    os.close(file)

"""sandbox, doctor: probes of what husk does to guests from outside: tracing, memory, descriptors, control groups."""

from __future__ import annotations

import os
import struct
import time

from husk.sandbox import cgroups
from husk.sandbox.doctor import Missing
from husk.sandbox.doctor.calls import PIDFD_GETFD, PIDFD_OPEN, PROCESS_VM_READV, PTRACE, call
from husk.sandbox.limits import Limits

SEIZE, INTERRUPT = 0x4206, 0x4207


def sleeper() -> int:
    """A descendant that is no child, as a guest is none of husk's: Yama may tell the two apart."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child == 0:
            _sleep()
        os.write(writing, struct.pack("<i", child))
        _sleep()
    found: int = struct.unpack("<i", os.read(reading, 4))[0]
    return found


def _sleep() -> None:
    """Until the probe's process group is killed."""
    try:
        time.sleep(60)
    finally:
        os._exit(0)


def ptrace() -> str:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            yama = f"Yama's ptrace_scope is {file.read().strip()}"
    except OSError:
        yama = "no Yama"
    child = sleeper()
    try:
        call(PTRACE, SEIZE, child, 0, 0)
        call(PTRACE, INTERRUPT, child, 0, 0)
        os.waitpid(child, 0x40000000)  # __WALL
    except OSError as error:
        raise Missing(f"{error.strerror}; {yama}") from None
    return f"a descendant was stopped; {yama}"


def memory() -> str:
    """Reads a string of ours at the same address in a descendant, which is a copy of us."""
    import ctypes

    text, copy = ctypes.create_string_buffer(b"husk"), ctypes.create_string_buffer(4)
    child = sleeper()
    here = struct.pack("<QQ", ctypes.addressof(copy), 4)
    there = struct.pack("<QQ", ctypes.addressof(text), 4)
    call(PROCESS_VM_READV, child, here, 1, there, 1, 0)
    if copy.raw != b"husk":
        raise Missing("something else was read")
    return "read"


def pidfd_getfd() -> str:
    pidfd = call(PIDFD_OPEN, sleeper(), 0)
    os.close(call(PIDFD_GETFD, pidfd, 0, 0))
    return "taken"


def control_group() -> str:
    limits = Limits()
    limits.read("memory=1G")
    group = cgroups.make_group(limits)
    if group is None:
        raise Missing("no group can be made")
    try:
        if not group.add(sleeper()):
            raise Missing("no process can be moved into a group")
        if group.enforces != {"memory", "processes"}:
            raise Missing("a group can be made, but without the controllers memory and pids; it counts processor time")
    finally:
        group.remove()
    return "made, with memory and pids limited"

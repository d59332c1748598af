"""sandbox, doctor: probes of what husk does to guests from outside: tracing, memory, descriptors, control groups."""

from __future__ import annotations

import os
import struct
import time

from husk.sandbox.doctor.calls import (
    MMAP,
    MPROTECT,
    PIDFD_GETFD,
    PIDFD_OPEN,
    PRCTL,
    PROCESS_VM_READV,
    PTRACE,
    UNSHARE,
    call,
)
from husk.sandbox.doctor.probe_child import Missing
from husk.sandbox.limits import cgroups
from husk.sandbox.limits.limits import Limits
from husk.walls.namespaces import CLONE_NEWUSER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SEIZE, INTERRUPT = 0x4206, 0x4207
ONLY_APART = "only in a user namespace"


def sleeper(*, apart: bool = False) -> int:
    """A descendant that is no child, as guests are for husk: Yama may treat the two differently. `apart`: in a user
    namespace of its own, in which we have every capability; OSError where there are none."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child == 0:
            os.write(writing, struct.pack("<ii", os.getpid(), _go_apart() if apart else 0))
            _sleep()
        _sleep()
    found, error = struct.unpack("<ii", os.read(reading, 8))
    if error:
        raise OSError(error, os.strerror(error))
    return int(found)


def _go_apart() -> int:
    try:
        call(UNSHARE, CLONE_NEWUSER)
        call(PRCTL, 4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: lost with the change of credentials, but a guest is dumpable
    except OSError as error:
        return error.errno or 1
    return 0


def of_a_guest(attempt: Callable[[int], object]) -> str:
    """Try it on a descendant, and where that is denied, on one in a user namespace, where guests mostly are: Yama's
    scope 2 denies the former and allows the latter. Returns what to add to the finding."""
    try:
        attempt(sleeper())
    except OSError as denied:
        try:
            attempt(sleeper(apart=True))
        except OSError:
            raise denied from None
        return f", but {ONLY_APART}"
    return ""


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

    def stop(child: int) -> None:
        call(PTRACE, SEIZE, child, 0, 0)
        call(PTRACE, INTERRUPT, child, 0, 0)
        os.waitpid(child, 0x40000000)  # __WALL

    try:
        return f"a descendant was stopped{of_a_guest(stop)}; {yama}"
    except OSError as error:
        raise Missing(f"{error.strerror}; {yama}") from None


def memory() -> str:
    """Reads a string of ours at the same address in a descendant, which is a copy of us."""
    import ctypes

    text, copy = ctypes.create_string_buffer(b"husk"), ctypes.create_string_buffer(4)
    here = struct.pack("<QQ", ctypes.addressof(copy), 4)
    there = struct.pack("<QQ", ctypes.addressof(text), 4)
    added = of_a_guest(lambda child: call(PROCESS_VM_READV, child, here, 1, there, 1, 0))
    if copy.raw != b"husk":
        raise Missing("something else was read")
    return f"read{added}"


def new_code() -> str:
    page = call(MMAP, 0, 4096, 3, 0x22, -1, 0)  # readable and writable; private and anonymous
    call(MPROTECT, page, 4096, 5)  # readable and executable
    return "a page that was written became executable"


def pidfd_getfd() -> str:
    added = of_a_guest(lambda child: os.close(call(PIDFD_GETFD, call(PIDFD_OPEN, child, 0), 0, 0)))
    return f"taken{added}"


def pidfd_of_a_thread() -> str:
    try:
        os.close(call(PIDFD_OPEN, os.getpid(), os.O_EXCL))  # PIDFD_THREAD
    except OSError:
        raise Missing("a pidfd stands for a whole process here, with its first thread's descriptors") from None
    return "a pidfd can stand for a thread"


def diagnosis() -> str:
    import _socket

    from husk.kernel.net import port_owners

    server = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    server.bind(("127.0.0.1", 0))
    server.listen()
    if not any(inode for _, inode in port_owners.find(_socket.SOCK_STREAM, [b"\x7f\0\0\1"], server.getsockname()[1])):
        raise Missing("it does not know of a socket that listens")
    return "a socket that listens was found"


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

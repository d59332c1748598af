"""Calls on a process by pid, without a pid namespace: calls on the box's own are passed on, all others do not exist.

For these tests the box is the descendants of this process; the process itself, like a reaper, is not in it.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from husk.abi import numbers
from husk.abi.registry import ROWS
from husk.abi.registry.rules import Walls
from tests.unit.kernel.fakes import Guest

FIRST = (
    "getpgid", "getsid", "get_robust_list", "prlimit64", "sched_getaffinity", "sched_setaffinity", "sched_getattr",
    "sched_setattr", "sched_getparam", "sched_setparam", "sched_getscheduler", "sched_setscheduler",
    "sched_rr_get_interval", "setpgid",
)
# call -> the arguments before the process's number
BY_PID: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(FIRST, ()), "getpriority": (0,), "setpriority": (0,), "ioprio_get": (1,), "ioprio_set": (1,),
}
# What a guest may ask about the parent of its first program: group, session, and how it is scheduled
SHOWN = {"getpgid", "getsid", "getpriority", "ioprio_get"} | {
    name for name in FIRST if name.startswith(("sched_get", "sched_rr_get"))
}
# Two threads and a child of its own: prints their numbers, then waits.
PARENT = """
import os, signal, subprocess, threading
thread = threading.Thread(target=signal.pause, daemon=True)
thread.start()
child = subprocess.Popen(["sleep", "60"])
print(thread.native_id, child.pid, flush=True)
signal.sigwait([signal.SIGTERM])
child.kill()
child.wait()
os._exit(0)
"""


@pytest.fixture(scope="module")
def family() -> Iterator[tuple[int, int, int]]:
    """A process of the box, a thread of it, and its child."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        thread, child = map(int, process.stdout.readline().split())
        yield process.pid, thread, child
        process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("name", BY_PID)
def test_own_processes_are_passed_on(guest: Guest, family: tuple[int, int, int], name: str) -> None:
    for pid in (*family, 0):
        assert guest.answer(guest.make(name, *BY_PID[name], pid)) == ("proceed", 0), pid


@pytest.mark.parametrize("name", BY_PID)
def test_others_do_not_exist(guest: Guest, name: str) -> None:
    reaper = os.getpid()  # the first program's parent
    for pid in (1, *(() if name in SHOWN else (reaper,)), os.getppid(), 2**22 + 1, 2**31 - 1):
        assert guest.answer(guest.make(name, *BY_PID[name], pid)) == ("error", errno.ESRCH), pid
        # Linux reads 32 bits: with higher bits set, a pid outside must not look like a pid of no process.
        assert guest.answer(guest.make(name, *BY_PID[name], pid | 1 << 32)) == ("error", errno.ESRCH), pid


@pytest.mark.parametrize("name", ["getpriority", "setpriority", "ioprio_get", "ioprio_set"])
def test_groups_and_users_are_out_of_reach(guest: Guest, name: str) -> None:
    """They may contain host processes. So may the caller's own group or user, which 0 means."""
    (process,) = BY_PID[name]
    for who in (0, os.getpgid(0), os.getuid()):
        for which in (process + 1, process + 2):
            if name != "getpriority":
                assert guest.answer(guest.make(name, which, who)) == ("error", errno.EPERM)
        for which in (process - 1, process + 3, 1 << 31):  # no such kind: the host says EINVAL
            assert guest.answer(guest.make(name, which, who)) == ("proceed", 0)


def test_the_priority_of_groups_and_users_is_the_boxs(guest: Guest, family: tuple[int, int, int]) -> None:
    """Host processes of the same group or user do not count."""
    group, user = 1, 2
    nice = os.getpriority(os.PRIO_PROCESS, family[0])
    for who in (0, os.getpgid(0)):
        assert guest.answer(guest.make("getpriority", group, who)) == ("value", 20 - nice)
    assert guest.answer(guest.make("getpriority", user, 0)) == ("value", 20 - nice)
    for which, who in ((group, os.getsid(0) + 2**21), (group, -1), (user, os.getuid() + 1), (user, -1)):
        assert guest.answer(guest.make("getpriority", which, who)) == ("error", errno.ESRCH)


def test_the_reapers_group_cannot_be_joined(guest: Guest, family: tuple[int, int, int]) -> None:
    reaper = os.getpid()
    for pid in (*family, 0):
        for group in (reaper, reaper | 1 << 32, reaper | 0xFFFFFFFF << 32):
            assert guest.answer(guest.make("setpgid", pid, group)) == ("error", errno.EPERM)
        for group in (pid, reaper + 1, -reaper & 0xFFFFFFFF):
            assert guest.answer(guest.make("setpgid", pid, group)) == ("proceed", 0)


LOCKS, UNLIMITED = 10, b"\xff" * 16


def test_the_limit_that_marks_a_process(guest: Guest) -> None:
    """Reads as unlimited; setting it does nothing, for another process of the box too."""
    memory = guest.memory
    place, new = memory.put(bytes(16)), memory.put(b"\1" * 16)
    assert guest.answer(guest.make("getrlimit", LOCKS, place)) == ("value", 0)
    assert memory.read(place, 16) == UNLIMITED
    memory.write(place, bytes(16))
    assert guest.answer(guest.make("prlimit64", 0, LOCKS, new, place)) == ("value", 0)
    assert memory.read(place, 16) == UNLIMITED
    assert guest.answer(guest.make("prlimit64", 0, LOCKS, 8, 0)) == ("error", errno.EFAULT)


def test_every_such_call_is_here() -> None:
    """The tests above cover every call that the registry hands to husk only without a pid namespace."""
    some, walled, bare = (1,) * 6, Walls(pid=True, landlock=6), Walls(landlock=6)
    depends = {
        row.name for row in ROWS.values()
        if (row.verdict(some, bare).way, row.verdict(some, walled).way) == ("virtual", "native")
    }
    assert depends == BY_PID.keys()


def test_the_parent_of_the_first_program_is_shown_but_not_changed(guest: Guest) -> None:
    reaper = os.getpid()
    for name, first in BY_PID.items():
        wanted = ("proceed", 0) if name in SHOWN else ("error", errno.ESRCH)
        assert guest.answer(guest.make(name, *first, reaper)) == wanted, name


# flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls
@pytest.mark.parametrize(
    ("given", "cloned"),
    [
        ((0, 1, 2, 3, 17, 0, 0, 0), (17, 0, 3, 2, 0, 0, False)),
        ((0x1001, 0, 0, 0, 0, 0, 0, 0), errno.EINVAL),  # the signal has a field
        ((0x1000, 1, 2, 3, 17, 0x10000, 0x100, 5), (0x1011, 0x10100, 1, 2, 5, 0, False)),
        ((0x101000, 1, 2, 3, 10, 0, 0, 0), (0x100A, 0, 1, 2, 0, 3, False)),  # a pidfd, and husk writes the number
        ((1 << 32, 0, 0, 0, 17, 0, 0, 0), (17, 0, 0, 0, 0, 0, True)),
        ((0x800000, 0, 0, 0, 17, 0, 0, 0), (17, 0, 0, 0, 0, 0, False)),  # CLONE_UNTRACED
        ((0x100, 0, 0, 0, 17, 0, 0, 0), errno.ENOSYS),
        ((0x80, 0, 0, 0, 17, 0, 0, 0), errno.EPERM),  # CLONE_NEWTIME must not become part of the signal
        ((0x2000, 0, 0, 0, 17, 0, 0, 0), errno.EPERM),  # CLONE_PTRACE
        *(((flag, 0, 0, 0, 17, 0, 0, 0), errno.EPERM) for flag in numbers.CLONE_NAMESPACES.values()),
    ],
)
def test_clone3_becomes_a_clone(guest: Guest, given: tuple[int, ...], cloned: tuple[int, ...] | int) -> None:
    call = guest.make("clone3", guest.memory.put(struct.pack("<8Q", *given)), 64)
    answer = guest.answer(call)
    if isinstance(cloned, int):
        assert (answer, call.cloned) == (("error", cloned), ())
    else:
        assert call.cloned == cloned

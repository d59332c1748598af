"""Processes, threads and signals: transcripts, and what becomes husk's own exit code."""

from __future__ import annotations

import signal

import pytest

from tests.lib.harness import differential
from tests.lib.running import husk


@pytest.mark.fast
@pytest.mark.both_settings
@pytest.mark.parametrize(
    "name",
    [
        "io_moving", "io_owner", "io_wait", "ipc_shared", "keys_rings", "proc_attributes", "proc_basics", "proc_clone3",
        "proc_corners", "proc_details", "proc_files", "proc_limits", "proc_mapping", "proc_pidfd", "proc_threads",
        "proc_trace", "sig_actions", "sig_eintr", "sig_interrupt", "sig_query", "sig_queue", "sig_shared",
        "time_timers",
    ],
)
def test_transcript(name: str) -> None:
    differential(["{guests}/" + name], case=name)


@pytest.mark.both_settings
@pytest.mark.parametrize("name", ["pty_sides", "pty_session"])
def test_terminals(name: str) -> None:
    differential(["{guests}/" + name], case=name)


@pytest.mark.both_settings
def test_shared_memory_by_key() -> None:
    differential(["{guests}/ipc_sysv", "memory"], case="ipc_sysv memory")


@pytest.mark.both_settings
@pytest.mark.parametrize("name", ["ipc_queue", "ipc_sysv"])
def test_ipc_by_number_or_name(name: str) -> None:
    differential(["{guests}/" + name], case=name)


@pytest.mark.parametrize("code", [0, 1, 2, 42, 123, 128, 255])
def test_exit_code(code: int) -> None:
    differential(["/bin/sh", "-c", f"exit {code}"], status=code)


@pytest.mark.both_settings
@pytest.mark.parametrize("name", ["HUP", "INT", "KILL", "SEGV", "TERM", "ABRT", "PIPE", "USR1"])
def test_death_by_signal(name: str) -> None:
    differential(["/bin/sh", "-c", f"kill -{name} $$"], status=128 + signal.Signals[f"SIG{name}"])


def test_streams() -> None:
    differential(["/bin/sh", "-c", "cat; echo err >&2; echo out"], stdin=b"given\0input\n")


def test_large_input_and_output() -> None:
    differential(["/bin/sh", "-c", "md5sum; head -c 3000000 /dev/zero | tr '\\0' x"], stdin=b"0123456789" * 300_000)


def test_environment() -> None:
    differential(["/usr/bin/env", "-i", "A=1", "/usr/bin/env"], env={"B": "2"})
    differential(["/bin/sh", "-c", 'echo "$B|$PATH|$HOME"'], env={"B": "two words = x"})


SITES = r"""
import re, threading
site = re.compile(rb"\x49\x89\xc8\xb8(..)\x00\x00\x0f\x05\x48\x85\xc0", re.DOTALL)
for _ in range(3):
    thread = threading.Thread(target=str)
    thread.start()
    thread.join()
found = set()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
    for line in maps:
        where, mode, _, _, _, *name = line.split()
        if mode[2] == "x" and name and "libc.so" in name[0]:
            start, end = (int(text, 16) for text in where.split("-"))
            memory.seek(start)
            found.update(site.findall(memory.read(end - start)))
print(*(int.from_bytes(number, "little") for number in found))
"""


@pytest.mark.both_settings
@pytest.mark.needs("python3")
def test_glibc_goes_on_asking_for_clone3() -> None:
    """A program's own filter knows that number; at another one it would end the program, as Firefox's does."""
    numbers = husk(["run", "--", "/usr/bin/python3", "-c", SITES]).out.split()
    if not numbers:
        pytest.skip("the C library has no clone3 of this shape")
    assert numbers == ["435"]


@pytest.mark.both_settings
@pytest.mark.needs("python3")
@pytest.mark.parametrize("leads", [True, False], ids=["husk leads a session", "husk leads none"])
def test_the_first_program_leads_a_session_where_husk_does(leads: bool) -> None:
    """So that it can take a terminal of its own, as it can without husk."""
    # A shell that waits has it as a child, in the shell's own session.
    wrapper = ["setsid", "--wait"] if leads else ["/bin/sh", "-c", '"$@"; exit $?', "sh"]
    program = "import os; print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid())"
    result = husk(["run", "--", "/usr/bin/python3", "-c", program], wrapper=wrapper)
    assert result.out == f"{leads} True\n", result.err

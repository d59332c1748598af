"""After thousands of executions husk holds as many descriptors, threads and bytes as before, seen from outside."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.guest.build import guest_programs
from tests.guest.harness import GUESTS, NATIVE_ONLY
from tests.guest.running import Running, husk_process

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


def status_field(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise AssertionError(f"no {name} in /proc/{pid}/status")


def holdings(running: Running) -> tuple[Counter[str], int, int, int]:
    pid = running.process.pid
    kinds = Counter(_kind(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    files = sum(1 for _ in running.state.rglob("*"))
    return kinds, status_field(pid, "Threads"), status_field(pid, "VmRSS"), files


def _kind(path: str) -> str:
    try:
        return os.readlink(path).split(":")[0].rstrip("0123456789")
    except OSError:
        return "gone"


@pytest.mark.parametrize(
    "count", [pytest.param(500), pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
@pytest.mark.timeout(300)
def test_nothing_grows_with_executions(count: int) -> None:
    """Phase one warms up (caches, thread pool); phases two and three must not differ."""
    pipe = subprocess.PIPE
    program = [f"{GUESTS}/spawn", "phases", str(count), "/bin/true"]
    with husk_process(
        ["run", "--mount", f"{guest_programs()}:{GUESTS}:ro", "--", *program], stdin=pipe, stdout=pipe
    ) as running:
        stdin, stdout = running.process.stdin, running.process.stdout
        assert stdin is not None and stdout is not None
        seen = []
        for _ in range(3):
            assert stdout.readline() == b"phase\n"
            seen.append(holdings(running))
            stdin.write(b"x")
            stdin.flush()
        assert stdout.readline() == b"phase\n"
        stdin.close()
        assert stdout.readline() == b"phases: wrong 0\n"
        assert running.process.wait(timeout=30) == 0
    (_, (kinds, threads, memory, files), (kinds_later, threads_later, memory_later, files_later)) = seen
    assert kinds_later.total() == kinds.total(), f"descriptors: {kinds_later - kinds} came, {kinds - kinds_later} went"
    assert threads_later == threads
    assert abs(memory_later - memory) <= memory * 0.05, f"resident: {memory} kB, later {memory_later} kB"
    assert files_later == files, "files in the state directory"


def test_queues_that_come_and_go_leave_nothing() -> None:
    """Nobody tells husk that a queue is closed; it holds nothing that would have to be given back."""
    pipe = subprocess.PIPE
    program = [f"{GUESTS}/inotify_load", "instances", "350"]
    with husk_process(
        ["run", "--mount", f"{guest_programs()}:{GUESTS}:ro", "--", *program], stdin=pipe, stdout=pipe
    ) as running:
        stdin, stdout = running.process.stdin, running.process.stdout
        assert stdin is not None and stdout is not None
        seen = []
        for _ in range(3):
            assert stdout.readline() == b"phase\n"
            seen.append(holdings(running))
            stdin.write(b"x")
            stdin.flush()
        assert running.process.wait(timeout=30) == 0
    (kinds, threads, _, files), *later = seen
    for kinds_later, threads_later, memory_later, files_later in later:
        assert kinds_later.total() == kinds.total(), f"{kinds_later - kinds} came, {kinds - kinds_later} went"
        assert (threads_later, files_later) == (threads, files)
        assert abs(memory_later - seen[1][2]) <= seen[1][2] * 0.05

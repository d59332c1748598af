"""After thousands of executions husk holds as many descriptors, threads and bytes as before, seen from outside."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.lib.build_guests import guest_programs
from tests.lib.harness import GUESTS, NATIVE_ONLY
from tests.lib.running import PATIENCE, Running, husk_process

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


MOST_PHASES = 6


def status_field(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise AssertionError(f"no {name} in /proc/{pid}/status")


Holdings = tuple[Counter[str], int, int, int]


def holdings(running: Running) -> Holdings:
    """Descriptors, threads, kilobytes and files. The least of several samples: what a call in progress holds, or one
    that just ended, does not count."""
    pid = running.process.pid
    looks: list[Holdings] = []
    for _ in range(5):
        kinds = Counter(_kind(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
        files = sum(1 for _ in running.state.rglob("*"))
        looks.append((kinds, status_field(pid, "Threads"), status_field(pid, "VmRSS"), files))
        time.sleep(0.02)
    fewest = min((look[0] for look in looks), key=lambda kinds: kinds.total())
    return fewest, min(look[1] for look in looks), min(look[2] for look in looks), min(look[3] for look in looks)


def growth(before: Holdings, later: Holdings) -> str:
    """What is there more of; empty: nothing."""
    (kinds, threads, memory, files), (kinds_later, threads_later, memory_later, files_later) = before, later
    found = []
    if kinds_later.total() != kinds.total():
        found.append(f"descriptors: {kinds_later - kinds} came, {kinds - kinds_later} went")
    if threads_later != threads:
        found.append(f"threads: {threads}, later {threads_later}")
    if memory_later - memory > memory * 0.05:
        found.append(f"memory: {memory} kB, later {memory_later} kB")
    if files_later != files:
        found.append(f"files in the state directory: {files}, later {files_later}")
    return "; ".join(found)


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
    """Phase one warms up (caches, thread pool); two phases after it must not differ. The host chooses which of husk's
    threads does the work, and so whose memory is warm: a few more phases are allowed. A leak grows in each."""
    pipe = subprocess.PIPE
    program = [f"{GUESTS}/spawn", "phases", str(count), "/bin/true"]
    with husk_process(
        ["run", "--mount", f"{guest_programs()}:{GUESTS}:ro", "--", *program], stdin=pipe, stdout=pipe
    ) as running:
        stdin, stdout = running.process.stdin, running.process.stdout
        assert stdin is not None and stdout is not None
        seen: list[Holdings] = []
        grown: list[str] = []
        while len(seen) < 3 or (grown[-1] and len(seen) < MOST_PHASES):
            if seen:
                stdin.write(b"x")
                stdin.flush()
            assert stdout.readline() == b"phase\n"
            seen.append(holdings(running))
            grown.append(growth(seen[-2], seen[-1]) if len(seen) > 1 else "")
        stdin.close()
        assert stdout.readline() == b"phases: wrong 0\n"
        assert running.process.wait(timeout=PATIENCE) == 0
    assert not grown[-1], "\n".join(grown)


def test_queues_that_come_and_go_leave_nothing() -> None:
    """husk is not told that a queue is closed, and holds nothing for it that would have to be released."""
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
        assert running.process.wait(timeout=PATIENCE) == 0
    # Memory from the second phase on: the first warms up.
    first = (*seen[0][:2], seen[1][2], seen[0][3])
    assert [growth(first, later) for later in seen[1:]] == ["", ""]

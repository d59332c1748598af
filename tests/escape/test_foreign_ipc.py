"""Semaphores and message queues: a guest reaches none of the host's, and leaves none of its own there.

Without an ipc namespace the host's are within reach of a native call: their ids are small numbers.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.escape.test_escape import ESCAPE, boxed, unprotected
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk_command, setting, until

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

IPC_CREAT, IPC_EXCL, IPC_RMID = 0o1000, 0o2000, 0
REACHES = ["semget", "semop", "semtimedop", "GETVAL", "SETVAL", "IPC_RMID", "msgget", "msgsnd", "msgrcv", "IPC_RMID",
           "mq_open", "mq_unlink"]  # fmt: skip
CLONE_NEWIPC = 0x08000000
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(autouse=True)
def own_host() -> Iterator[None]:
    """For root, a namespace of sets and queues that no other test shares: it is the host of these tests."""
    if os.getuid() != 0:
        yield
        return
    before = os.open("/proc/thread-self/ns/ipc", os.O_RDONLY)
    try:
        assert libc.unshare(CLONE_NEWIPC) == 0
        yield
    finally:
        assert libc.setns(before, CLONE_NEWIPC) == 0
        os.close(before)


def lists() -> tuple[set[str], set[str]]:
    """The ids of all sets and queues of the host."""
    files = (Path(f"/proc/sysvipc/{name}").read_text().splitlines()[1:] for name in ("sem", "msg"))
    sets, queues = ({line.split()[1] for line in lines} for lines in files)
    return sets, queues


@pytest.fixture
def foreign() -> Iterator[list[str]]:
    """Key, ids and name of the host's own, for every user."""
    key = int.from_bytes(os.urandom(3), "little") | 1
    made = IPC_CREAT | IPC_EXCL | 0o666
    semaphores, queue, name = libc.semget(key, 1, made), libc.msgget(key, made), f"/test-{key}"
    named = libc.mq_open(name.encode(), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666, None)
    assert semaphores >= 0 and queue >= 0 and named >= 0
    libc.fchmod(named, 0o666)
    try:
        yield [str(key), str(semaphores), str(queue), name]
    finally:
        libc.semctl(semaphores, 0, IPC_RMID)
        libc.msgctl(queue, IPC_RMID, None)
        libc.mq_unlink(name.encode())
        os.close(named)


def test_none_of_the_host_is_reached(programs: Path, place: Path, foreign: list[str]) -> None:
    before = lists()
    found = boxed(programs, ["foreign_ipc", *foreign]).out.splitlines()
    results = [line.rsplit(None, 1)[1] for line in found[: len(REACHES)]]
    assert results == ["0", *["EINVAL"] * 5, "0", *["EINVAL"] * 3, "1", "ENOENT"], found
    assert found[len(REACHES) :] == ["by index 0 0", "own 1 1", "own by index 1 1"]
    assert lists() == before
    reached = unprotected(programs, ["foreign_ipc", *foreign], place).out
    assert "by index 0 0" not in reached and "ENOENT" not in reached.splitlines()[0], "the attempts would fail anywhere"


def test_a_killed_husk_leaves_none_for_long(programs: Path, foreign: list[str], tmp_path: Path) -> None:
    """The next husk removes what the killed one left."""
    before = lists()
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    environment = {**os.environ, "HUSK_STATE": str(state)}
    options = [] if setting() != "bare" else ["--no-namespaces"]
    words = [*husk_command(), "run", *options, "--mount", f"{programs}:{ESCAPE}:ro", "--"]
    guest = [f"{ESCAPE}/foreign_ipc", *foreign, "stay"]
    with subprocess.Popen([*words, *guest], stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        assert any(line.startswith("own by index") for line in running.stdout)
        if setting() == "bare":
            assert lists() != before
        running.send_signal(signal.SIGKILL)
    subprocess.run([*words, "/bin/true"], env=environment, check=True, timeout=100)
    assert until(lambda: lists() == before), (lists(), before)

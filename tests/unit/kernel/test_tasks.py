"""Guest numbers and host numbers of tasks in a pid namespace: from one to the other by one question to the host."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from husk.kernel.tasks import Tasks

CHILDREN = 30
SCRIPT = f"""
import os, signal, threading
threading.Thread(target=signal.pause, daemon=True).start()
for _ in range({CHILDREN}):
    if not os.fork():
        signal.pause()
print(flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def reaper() -> Iterator[int]:
    """A process that is the first of a pid namespace, with children and a thread."""
    command = ["unshare", *([] if os.getuid() == 0 else ["--user"]), "--pid", "--fork", "--kill-child", "python3", "-c"]
    with subprocess.Popen([*command, SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            pytest.skip("no pid namespace here")
        yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        process.kill()


@pytest.fixture(params=["by one question", "before Linux 6.12"])
def tasks(request: pytest.FixtureRequest, reaper: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tasks]:
    if request.param == "before Linux 6.12":
        def unknown(*_: Any) -> int:
            raise OSError(errno.ENOTTY, "unknown")

        monkeypatch.setattr(fcntl, "ioctl", unknown)
    made = Tasks(None, reaper, own_namespace=True)  # type: ignore[arg-type]  # no question here is about files
    yield made
    made.close()


def test_numbers_there_and_back(tasks: Tasks, reaper: int) -> None:
    hosts = tasks.host_pids()
    guests = tasks.guest_pids()
    assert len(hosts) == len(guests) == CHILDREN and 1 not in guests
    for host in hosts:
        assert tasks.host_of(tasks.guest_of(host)) == host
    thread = next(int(name) for name in os.listdir(f"/proc/{hosts[0]}/task"))
    assert tasks.guest_of(thread) in guests


def test_what_is_not_of_the_box_has_no_number(tasks: Tasks, reaper: int) -> None:
    assert not tasks.guest_of(reaper) and tasks.host_of(1) is None, "the reaper is no guest"
    assert not tasks.guest_of(os.getpid()) and not tasks.guest_of(1) and not tasks.guest_of(0)
    for number in (0, -1, 4_000_000):
        assert tasks.host_of(number) is None


def test_after_the_run_there_is_none(tasks: Tasks) -> None:
    host = tasks.host_pids()[0]
    guest = tasks.guest_of(host)
    tasks.close()
    assert not tasks.guest_of(host) and tasks.host_of(guest) is None


def test_one_question_per_number(reaper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many processes there are."""
    tasks = Tasks(None, reaper, own_namespace=True)  # type: ignore[arg-type]
    numbers = tasks.guest_pids()
    tasks.host_of(numbers[0])
    if tasks._hosts:
        pytest.skip("this host is older than Linux 6.12")
    opened: list[object] = []
    real = os.open

    def opening(*words: Any, **named: Any) -> int:
        opened.append(words)
        return real(*words, **named)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "listdir", lambda *words: pytest.fail("looks for all"))
    assert all(tasks.host_of(number) for number in numbers)
    assert not opened
    tasks.close()

"""kernel/locks/private_locks.py by itself: this process is the guest that holds the files."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from husk.kernel.locks import private_locks
from husk.kernel.locks.private_locks import PrivateLocks
from husk.kernel.tasks import LiveRuns
from tests.unit.kernel.fakes import new_descriptors, open_descriptors

SHARED, EXCLUSIVE, NOW = 1, 2, 4


class Runs:
    def __init__(self) -> None:
        self.pids = [os.getpid()]

    def host_pids(self) -> list[int]:
        return self.pids


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def locks(runs: Runs) -> Iterator[PrivateLocks]:
    before = open_descriptors()
    made = PrivateLocks(cast(LiveRuns, runs))
    yield made
    made.close()
    assert not new_descriptors(before)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    (tmp_path / "file").touch()
    opened = [os.open(tmp_path / "file", os.O_RDONLY) for _ in range(3)]
    yield opened
    for fd in opened:
        os.close(fd)


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:
        act()
    return errno.errorcode[caught.value.errno or 0]


def test_the_last_descriptor_ends_a_lock(locks: PrivateLocks, runs: Runs, files: list[int]) -> None:
    assert locks.lock(b"f", files[0], EXCLUSIVE) is None
    assert locks.lock(b"f", files[0], EXCLUSIVE) is None, "it has it already"
    assert refused(lambda: locks.lock(b"f", files[1], SHARED | NOW)) == "EAGAIN"
    assert locks.lock(b"g", files[1], EXCLUSIVE) is None, "another file"
    # husk's own duplicates are in the table of this process, too, which plays the guest: it must not be looked at.
    runs.pids = []
    assert locks.lock(b"f", files[1], SHARED | NOW) is None


def test_waiting_ends_with_the_lock(locks: PrivateLocks, files: list[int]) -> None:
    locks.lock(b"f", files[0], EXCLUSIVE)
    wait = locks.lock(b"f", files[1], EXCLUSIVE)
    assert wait is not None
    waiting = threading.Thread(target=wait, args=(lambda act: act(),))
    waiting.start()
    locks.unlock(b"f", files[0])
    waiting.join(60)
    assert not waiting.is_alive()
    assert refused(lambda: locks.lock(b"f", files[0], SHARED | NOW)) == "EAGAIN"


def test_a_wait_that_is_given_up_leaves_no_lock(locks: PrivateLocks, files: list[int]) -> None:
    locks.lock(b"f", files[0], EXCLUSIVE)
    wait = locks.lock(b"f", files[1], EXCLUSIVE)
    assert wait is not None

    def interrupted(_: object) -> None:
        raise InterruptedError(errno.EINTR, "a signal")

    assert refused(lambda: wait(interrupted)) == "EINTR"
    locks.unlock(b"f", files[0])
    assert locks.lock(b"f", files[2], EXCLUSIVE | NOW) is None


def test_there_are_only_so_many(
    locks: PrivateLocks, runs: Runs, files: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_locks, "MOST", 2)
    for number, file in enumerate(files[:2]):
        locks.lock(b"%d" % number, file, EXCLUSIVE)
    assert refused(lambda: locks.lock(b"2", files[2], EXCLUSIVE)) == "ENOLCK"
    runs.pids = []
    assert locks.lock(b"2", files[2], EXCLUSIVE) is None, "those that are gone make room"


def test_husk_keeps_descriptors_for_other_boxes(
    locks: PrivateLocks, files: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_descriptors()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files[0] + 1, files[0] + 1))
    assert refused(lambda: locks.lock(b"f", files[0], EXCLUSIVE)) == "ENOLCK"
    assert not new_descriptors(before)

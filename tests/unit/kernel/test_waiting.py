"""Calls that wait in the host: each is answered once, by its own thread, and husk leaves nothing behind."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from husk.kernel import blocking as waiting
from husk.kernel.blocking import later
from husk.kernel.call import LATER, Call, GiveFd, Reply
from husk.native._core import Listener, open_interruptible
from tests.lib.running import until
from tests.unit.kernel.fakes import FakeCall, Guest, new_descriptors, open_descriptors


def wait_for(guest: Guest, operate: Callable[[], Reply], held: int) -> tuple[FakeCall, Reply]:
    raw = guest.make("open")
    return raw, later(Call(cast(Any, raw), guest.kernel), operate, held)


@pytest.fixture
def held() -> int:
    return os.open("/dev/null", os.O_RDONLY)


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    # Only for its side effect: husk's wake-up signal gets a handler. Without one it would end this process.
    Listener(os.open("/dev/null", os.O_RDONLY), 0, -1, False)
    before = len(os.listdir("/proc/self/task"))
    yield
    assert until(lambda: len(os.listdir("/proc/self/task")) <= before), "a thread waits for ever"


def closed(fd: int) -> bool:
    return not os.path.lexists(f"/proc/self/fd/{fd}")


def test_value(guest: Guest, held: int) -> None:
    raw, reply = wait_for(guest, lambda: 0, held)
    assert reply is LATER
    assert until(lambda: raw.answers == [("value", 0)])
    assert until(lambda: closed(held))


def test_descriptor(guest: Guest, held: int) -> None:
    mine = os.open("/dev/zero", os.O_RDONLY)
    raw, _ = wait_for(guest, lambda: GiveFd(mine, cloexec=True), held)
    assert until(lambda: raw.answered)
    assert raw.answers[0][0] == "fd"
    assert until(lambda: closed(mine))  # `held` was closed first; its number is in use again


def test_error(guest: Guest, held: int) -> None:
    def refuse() -> Reply:
        raise OSError(errno.ECONNREFUSED, "no")

    raw, _ = wait_for(guest, refuse, held)
    assert until(lambda: raw.answers == [("error", errno.ECONNREFUSED)])
    assert until(lambda: closed(held))


def test_descriptor_that_cannot_be_given(guest: Guest, held: int) -> None:
    mine = os.open("/dev/zero", os.O_RDONLY)
    raw = guest.make("open")
    raw.fails_with = errno.EMFILE
    later(Call(cast(Any, raw), guest.kernel), lambda: GiveFd(mine, cloexec=True), held)
    assert until(lambda: raw.answers == [("error", errno.EMFILE)])
    assert until(lambda: closed(held) and closed(mine))


def test_fault(guest: Guest, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the waiting thread is husk's error, too: EIO and an event, not a guest that waits for ever."""
    waits: list[waiting._Wait] = []

    class Known(waiting._Wait):
        def __init__(self, *what: Any) -> None:
            super().__init__(*what)
            waits.append(self)

    def fault() -> Reply:
        raise ZeroDivisionError("injected")

    monkeypatch.setattr(waiting, "_Wait", Known)
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    raw, _ = wait_for(guest, fault, held)
    try:
        assert until(lambda: raw.answers == [("error", errno.EIO)])
        assert until(lambda: any("ZeroDivisionError" in text for text in guest.events.faults))  # told after the answer
        assert until(lambda: closed(held))
    finally:
        waits[0].done = True  # else the watching thread stays


def test_a_guest_that_died_frees_the_thread(guest: Guest, lower: Path) -> None:
    """No process will ever open the other end. The call is no longer valid, and husk stops waiting."""
    held = os.open(lower / "fifo", os.O_PATH)
    name = b"/proc/self/fd/%d" % held
    raw, _ = wait_for(guest, lambda: GiveFd(open_interruptible(name, os.O_RDONLY), cloexec=True), held)
    assert not until(lambda: closed(held), 0.1), "it did not wait at all"
    raw.answers.append(("died", 0))  # valid() says no from now on
    assert until(lambda: closed(held))
    assert raw.answers == [("died", 0)]


def test_fifo(guest: Guest) -> None:
    """Both ends are opened by guests; neither holds up the dispatcher, each gets its own descriptor."""
    guest.vfs.state.need_files()
    before = open_descriptors()
    name = guest.text(b"fifo")
    reading, writing = guest.make("open", name, os.O_RDONLY), guest.make("open", name, os.O_WRONLY)
    guest.kernel.answer(cast(Any, reading))
    time.sleep(0.05)
    assert not reading.answered
    guest.kernel.answer(cast(Any, writing))
    assert until(lambda: reading.answered and writing.answered)
    read_end, write_end = reading.answers[0][1], writing.answers[0][1]
    os.write(write_end, b"through")
    assert os.read(read_end, 100) == b"through"
    guest.fds.remove(write_end)
    os.close(write_end)
    assert os.read(read_end, 100) == b"", "husk still holds the writing end"
    assert until(lambda: len(new_descriptors(before)) == 1), new_descriptors(before)


def test_connect_waits_without_holding_up_others(guest: Guest) -> None:
    """A listener whose queue is full: connecting waits until there is room."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    address = guest.memory.put(b"\1\0sock\0")
    guest.call("bind", guest.hold(os.dup(listening.fileno())), address, 7)
    listening.listen(0)
    calls = []
    for _ in range(3):
        client = guest.hold(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach())
        calls.append(guest.make("connect", client, address, 7))
        guest.kernel.answer(cast(Any, calls[-1]))
    assert until(lambda: any(call.answered for call in calls))
    time.sleep(0.05)
    assert not all(call.answered for call in calls), "the queue was never full"
    accepted = [listening.accept()[0] for _ in range(3)]
    assert until(lambda: all(call.answers == [("value", 0)] for call in calls))
    for each in (*accepted, listening):
        each.close()


def test_there_is_an_end_to_waiting(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait beyond the limit is refused with an event and leaves nothing. When others end, there is room again."""
    monkeypatch.setattr(waiting, "MOST_WAITING", 3)
    guest.vfs.state.need_files()
    before, threads = open_descriptors(), len(os.listdir("/proc/self/task"))
    name = guest.text(b"fifo")
    readers = [guest.make("open", name, os.O_RDONLY) for _ in range(5)]
    for reader in readers:
        guest.kernel.answer(cast(Any, reader))
    assert [reader.answers for reader in readers] == [[], [], [], [("error", errno.ENOMEM)], [("error", errno.ENOMEM)]]
    (refusal,) = guest.events.refusals.values()
    assert "3 calls of this box wait already" in str(refusal["reason"])
    now = len(os.listdir("/proc/self/task"))
    assert now <= threads + 3 + 1, "one thread for each, and one that watches them all"
    for reader in readers[:3]:
        reader.answers.append(("died", 0))
    assert until(lambda: not new_descriptors(before)), new_descriptors(before)
    again = guest.make("open", name, os.O_RDONLY)
    guest.kernel.answer(cast(Any, again))
    assert not again.answered
    again.answers.append(("died", 0))


def test_a_refused_connect_leaves_nothing(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    address = guest.memory.put(b"\1\0sock\0")
    guest.call("bind", guest.hold(os.dup(listening.fileno())), address, 7)
    client = guest.hold(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach())
    before = open_descriptors()
    monkeypatch.setattr(waiting, "MOST_WAITING", 0)
    assert guest.errno("connect", client, address, 7) == "ENOMEM"
    assert not new_descriptors(before)
    listening.close()


def test_a_host_without_more_threads(guest: Guest, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    raw = guest.make("open")
    monkeypatch.setattr(waiting._thread, "start_new_thread", no_thread)  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="no more threads") as refused:
        later(Call(cast(Any, raw), guest.kernel), lambda: 0, held)
    assert refused.value.errno == errno.ENOMEM
    assert closed(held)
    assert not waiting._watching, "nobody watches, and nobody would ever again"


def test_a_wait_that_nobody_meant_to_break(guest: Guest) -> None:
    """husk was stopped and continued, or another thread took the signal: the guest must not notice."""
    answers = [InterruptedError(errno.EINTR, "not by the guest"), InterruptedError(errno.EINTR, "again"), 7]

    def operate() -> int:
        found = answers.pop(0)
        if isinstance(found, OSError):
            raise found
        return cast(int, found)

    assert waiting.patiently(Call(cast(Any, guest.make("open")), guest.kernel), operate) == 7
    assert not answers


@pytest.mark.parametrize("lives", [True, False])
def test_a_wait_that_is_to_be_broken(guest: Guest, monkeypatch: pytest.MonkeyPatch, lives: bool) -> None:
    """By a signal that is pending for the guest, or because the waiting guest has ended."""
    raw = guest.make("open")
    if lives:
        monkeypatch.setattr(waiting, "_handled_signals", lambda tid: 1 << (signal.SIGUSR1 - 1))
    else:
        raw.fail(errno.ESRCH)

    def operate() -> int:
        raise InterruptedError(errno.EINTR, "by the guest")

    with pytest.raises(InterruptedError):
        waiting.patiently(Call(cast(Any, raw), guest.kernel), operate)


def test_threads_are_counted() -> None:
    """The check for threads left behind sees threads."""
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    assert str(thread.native_id) in os.listdir("/proc/self/task")
    go.set()
    thread.join()
    assert until(lambda: str(thread.native_id) not in os.listdir("/proc/self/task"))


def test_what_waits_to_be_sent_has_a_bound(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST_HELD", 100)
    go = threading.Event()

    def one(weight: int) -> FakeCall:
        raw = guest.make("open")
        held = os.open("/dev/null", os.O_RDONLY)
        later(Call(cast(Any, raw), guest.kernel), lambda: int(not go.wait(60)), held, weight=weight)
        return raw

    first = one(200)  # alone, any size may wait
    with pytest.raises(OSError, match="too much to send") as refused:
        one(1)
    assert refused.value.errno == errno.ENOMEM
    go.set()
    assert until(lambda: first.answers == [("value", 0)])
    go.clear()
    several = [one(50), one(50)]
    with pytest.raises(OSError, match="too much to send"):
        one(1)
    one(0)
    go.set()
    assert until(lambda: all(raw.answered for raw in several))

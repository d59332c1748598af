"""The vfs's lock (native/layer/vfs_lock.c): reentrant, exclusive, interruptible while it is waited for, free in a
forked child. What C makes under it is in tests/api/test_interrupts.py."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from husk.native._core import VfsLock


def taken_elsewhere(lock: VfsLock) -> tuple[threading.Thread, threading.Event]:
    """A thread that has it until the event is set."""
    has, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            has.set()
            release.wait(60)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert has.wait(60)
    return thread, release


def test_reentrant_and_exclusive() -> None:
    lock, count = VfsLock(), [0]

    def work() -> None:
        for _ in range(200):
            with lock, lock:
                before = count[0]
                time.sleep(0)
                count[0] = before + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count == [800]


def test_only_its_holder_gives_it_back() -> None:
    lock = VfsLock()
    with pytest.raises(RuntimeError):
        lock.release()
    thread, release = taken_elsewhere(lock)
    with pytest.raises(RuntimeError):
        lock.release()
    release.set()
    thread.join()
    assert lock.acquire() and lock.acquire()
    lock.release()
    lock.release()
    with pytest.raises(RuntimeError):
        lock.__exit__(None, None, None)


def test_waiting_for_some_time() -> None:
    lock = VfsLock()
    thread, release = taken_elsewhere(lock)
    began = time.monotonic()
    assert not lock.acquire(timeout=0.05) and not lock.acquire(timeout=0)
    assert time.monotonic() - began > 0.04
    release.set()
    assert lock.acquire(timeout=60) and lock.acquire(timeout=0)
    lock.release()
    lock.release()
    thread.join()


def test_an_exception_in_the_body_gives_it_back() -> None:
    lock = VfsLock()
    with pytest.raises(KeyError), lock, lock:
        raise KeyError
    thread, release = taken_elsewhere(lock)
    release.set()
    thread.join()


def test_who_waits_can_be_interrupted() -> None:
    """And has not got it then."""
    lock = VfsLock()
    thread, release = taken_elsewhere(lock)

    def interrupted(*_: object) -> None:
        raise InterruptedError

    was = signal.signal(signal.SIGUSR1, interrupted)
    main = threading.get_ident()
    sender = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGUSR1))
    try:
        sender.start()
        with pytest.raises(InterruptedError):
            lock.acquire()
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, was)
    with pytest.raises(RuntimeError):
        lock.release()
    release.set()
    thread.join()
    with lock:
        pass


def test_free_in_a_forked_child() -> None:
    lock = VfsLock()
    thread, release = taken_elsewhere(lock)
    child = os.fork()
    if not child:
        signal.alarm(30)
        lock.after_fork()
        with lock, lock:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    release.set()
    thread.join()


def test_room() -> None:
    lock = VfsLock()
    assert lock.room > 1 << 60
    lock.room = 5
    lock.room -= 7
    assert lock.room == -2 and lock.numbers_left == 0
    lock.set_aside(10, 14)
    assert lock.numbers_left == 4
    lock.close()
    with lock:
        pass

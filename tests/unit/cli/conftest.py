"""The commands run in the tests' own process and must leave it unchanged."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def same_process() -> Iterator[None]:
    """`husk run` sets signal handlers, which suits only a process of its own."""
    ends = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
    before = {
        number: signal.getsignal(number) for number in (*ends, signal.SIGCONT, signal.SIGTSTP, signal.SIGWINCH)
    }
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)

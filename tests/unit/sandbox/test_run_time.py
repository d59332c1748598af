"""The moment a run ended decides whether it was late, not when husk learned of it: husk may have been stopped."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from typing import cast

import pytest

from husk.kernel.events import Events
from husk.sandbox.box import Box
from husk.sandbox.launch import Stop
from husk.sandbox.plan import Plan
from husk.sandbox.policy import Policy
from husk.sandbox.result import Result
from husk.sandbox.run import Run
from husk.sandbox.serve import Served
from husk.walls.init_plan import ENDED, REPORT
from husk.walls.namespaces import walls_here

CODE = 7


class FakeLaunch:
    """The control socket on which husk-init reports."""

    def __init__(self) -> None:
        self.control, self.reaper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def ends(self, when: float) -> None:
        self.reaper_end.send(REPORT.pack(ENDED, CODE << 8, 0, 0, 0, 0, 0, round(when * 1e9)))

    def close(self) -> None:
        self.control.close()
        self.reaper_end.close()


class FakeServed:
    """A guest that another test would launch."""

    pid = 0

    def __init__(self) -> None:
        self.launch = FakeLaunch()

    def final(self, result: Result) -> None:
        pass


@pytest.fixture
def box(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    monkeypatch.setenv("HUSK_STATE", f"{tmp_path}/state")
    policy = Policy(["true"])
    policy.timeout = 10.0
    box = Box(Plan(policy, walls_here(namespaces=False)))
    try:
        yield box
    finally:
        box.close()


def heard_late(box: Box, ended: float, *, wakes: bool) -> Result:
    """The run began 100 seconds ago, ended that many seconds after its beginning, and husk looks only now."""
    served, started = FakeServed(), time.monotonic() - 100
    run = Run(box, cast(Served, served), box.policy, Events(None, None), Stop(), b"true", started)
    read_end = write_end = -1
    if wakes:
        read_end, write_end = os.pipe()
    served.launch.ends(started + ended)
    result = run.wait(read_end)
    run.collect(result)
    for fd in (read_end, write_end):
        if fd >= 0:
            os.close(fd)
    served.launch.close()
    return result


@pytest.mark.parametrize("wakes", [True, False])
def test_it_ended_in_time(box: Box, wakes: bool) -> None:
    result = heard_late(box, 9.5, wakes=wakes)
    assert (result.exit_code, result.timed_out, result.limits) == (CODE, False, [])
    assert result.seconds == pytest.approx(9.5)


@pytest.mark.parametrize("wakes", [True, False])
def test_it_ended_by_itself_but_too_late(box: Box, wakes: bool) -> None:
    result = heard_late(box, 10.5, wakes=wakes)
    assert (result.exit_code, result.timed_out) == (124, True)
    assert [str(limit) for limit in result.limits] == ["limit: time 10s exceeded (seen: 10.5s)"]

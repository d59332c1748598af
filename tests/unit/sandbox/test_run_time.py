"""Whether a run took too long is told by when it ended: husk may be stopped, and hear of it late."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest

from husk.kernel.events import Events
from husk.sandbox.ground import Ground
from husk.sandbox.policy import Policy
from husk.sandbox.result import Result
from husk.sandbox.run import Run
from husk.walls.init_plan import ENDED, REPORT
from husk.walls.namespaces import walls_here

CODE = 7


class Launched:
    """What a run hears of husk-init by."""

    def __init__(self) -> None:
        self.control, self.reaper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def ends(self, when: float) -> None:
        self.reaper_end.send(REPORT.pack(ENDED, CODE << 8, 0, 0, 0, 0, 0, round(when * 1e9)))


@pytest.fixture
def run(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("HUSK_STATE", f"{tmp_path}/state")
    policy = Policy(["true"])
    policy.timeout = 10.0
    ground = Ground(policy, walls_here(namespaces=False))
    try:
        yield Run(ground, policy, Events(None, None))
    finally:
        ground.close()


def heard_late(run: Run, ended: float, *, wakes: bool) -> Result:
    """The run began 100 seconds ago, ended that many seconds after its beginning, and husk looks only now."""
    launched = Launched()
    run._launch = launched  # type: ignore[assignment]
    run._started = time.monotonic() - 100
    read_end = write_end = -1
    if wakes:
        read_end, write_end = os.pipe()
        run.wakes = read_end
    launched.ends(run._started + ended)
    result = run.wait()
    run._launch = None
    run.collect(result)
    for fd in (read_end, write_end):
        if fd >= 0:
            os.close(fd)
    launched.control.close()
    launched.reaper_end.close()
    return result


@pytest.mark.parametrize("wakes", [True, False])
def test_it_ended_in_time(run: Run, wakes: bool) -> None:
    result = heard_late(run, 9.5, wakes=wakes)
    assert (result.exit_code, result.timed_out, result.limits) == (CODE, False, [])
    assert result.seconds == pytest.approx(9.5)


@pytest.mark.parametrize("wakes", [True, False])
def test_it_ended_by_itself_but_too_late(run: Run, wakes: bool) -> None:
    result = heard_late(run, 10.5, wakes=wakes)
    assert (result.exit_code, result.timed_out) == (124, True)
    assert [str(limit) for limit in result.limits] == ["limit: time 10s exceeded (seen: 10.5s)"]

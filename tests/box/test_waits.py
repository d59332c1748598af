"""`husk doctor --box`: which call a running box has waited in for longest, and where husk is with it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import Result, husk, husk_process, scratch

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]
ENOUGH = 60.0  # seconds until a box must have come to its wait


class Place:
    """A state directory of its own, for all the husks of a test."""

    def __init__(self, state: Path) -> None:
        self.env = {"HUSK_STATE": str(state)}

    def husk(self, *words: str) -> Result:
        return husk(list(words), env=self.env)

    @contextmanager
    def running(self, name: str, script: str) -> Iterator[None]:
        words = ["run", "--keep", name, "--", "/bin/sh", "-c", script]
        with husk_process(words, env=self.env, stdin=subprocess.DEVNULL) as started:
            try:
                yield
            finally:
                started.process.terminate()
                started.process.wait()

    def waits(self, name: str, call: str) -> list[dict[str, Any]]:
        """What the doctor says, as soon as the box waits in `call`."""
        until = time.monotonic() + ENOUGH
        while time.monotonic() < until:
            told = self.husk("doctor", "--box", name, "--json")
            found: list[dict[str, Any]] = json.loads(told.out)["waits"] if told.status == 0 else []
            if any(wait["call"].startswith(call) for wait in found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"never in {call}: {told}")


@pytest.fixture
def place() -> Iterator[Place]:
    with scratch() as state:
        yield Place(state)


def test_a_fifo_without_a_writer(place: Place) -> None:
    with place.running("fifo", "mkfifo /tmp/fifo; exec cat /tmp/fifo"):
        (wait,) = place.waits("fifo", "openat(AT_FDCWD, \"/tmp/fifo\"")
        assert wait["call"] == 'openat(AT_FDCWD, "/tmp/fifo", O_RDONLY, 0)'
        assert wait["program"] == "cat" and wait["pid"] == wait["tid"] > 0
        assert wait["where"].startswith("husk waits for it in a thread of its own: ")
        assert wait["where"].endswith("open_fifo")
        time.sleep(0.3)
        (later,) = place.waits("fifo", "openat(")
        assert later["seconds"] >= wait["seconds"] + 0.3
        said = place.husk("doctor", "--box", "fifo")
        assert said.status == 0 and wait["call"] in said.out and wait["where"] in said.out
    assert not list(Path(place.env["HUSK_STATE"], "kept", "fifo").glob("doctor-*"))


def test_an_ordinary_sleep(place: Place) -> None:
    with place.running("sleeps", "sleep 1000 & exec sleep 2000"):
        found = place.waits("sleeps", "clock_nanosleep(")
        assert all("husk" not in wait["where"] for wait in found if wait["call"].startswith("clock_nanosleep("))
        assert [wait["seconds"] for wait in found] == sorted((wait["seconds"] for wait in found), reverse=True)


def test_a_box_that_does_not_run(place: Place) -> None:
    told = place.husk("doctor", "--box", "never-made")
    assert told.status == 2 and "there is no box 'never-made'" in told.err
    assert place.husk("run", "--keep", "has-ended", "--", "/bin/true").status == 0
    told = place.husk("doctor", "--box", "has-ended")
    assert told.status == 2 and "does not run" in told.err
    told = place.husk("doctor", "--box", "../outside")
    assert told.status == 2 and "Traceback" not in told.err

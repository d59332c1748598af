"""The reaper is killed or stopped from outside: husk ends the box without it, and no guest is left."""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.sandbox.orphans import RUN_BITS, box_mark
from tests.lib.harness import NATIVE_ONLY
from tests.lib.ordinary_user import NOBODY, as_ordinary_user
from tests.lib.running import PATIENCE, PIPE, Running, husk, husk_command, husk_process, leftovers, setting, until

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]

ESCAPE = "/escape"
GONE = b"husk: husk-init died; the box is gone.\n"


def marked(name: str) -> list[int]:
    """Processes of the box with this state directory, by their limit on file locks: no guest can change that one."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines = Path("/proc", entry, "limits").read_text().splitlines()
            state = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        (hard,) = [line.split()[4] for line in lines if line.startswith("Max file locks")]
        if hard.isdigit() and int(hard) >> RUN_BITS == box_mark(name) >> RUN_BITS and state not in "ZX":
            found.append(int(entry))
    return found


class Started:
    """husk as root or as an ordinary user, with guests that want to stay."""

    def __init__(self, place: Path, programs: Path, *, root: bool) -> None:
        given, self.state = place / "given", place / "state"
        given.mkdir()
        self.count = given / "count"
        self.count.write_bytes(bytes(16))
        self.count.chmod(0o666)
        self.state.mkdir(mode=0o700)
        self.wrapper: list[str] = []
        if not root:
            os.chown(self.state, NOBODY, NOBODY)
            self.wrapper = as_ordinary_user()
        self.env = {"HUSK_STATE": str(self.state)}
        self.command = ["run", "--mount", f"{programs}:{ESCAPE}:ro", "--mount", f"{given}:/given:rw", "--",
                        f"{ESCAPE}/outlive", "/given/count", "0"]  # fmt: skip
        self.slower = [*self.command[:-1], "2000"]  # for a stopped parent, which reaps none of them

    def box(self) -> str:
        (name,) = [path.name for path in self.state.iterdir() if path.name.startswith("box-")]
        return name

    def is_silent(self) -> bool:
        before = self.count.read_bytes()
        time.sleep(0.1)  # surviving processes would go on counting
        return self.count.read_bytes() == before

    def stop(self) -> None:
        """Whatever a failed test left."""
        with self.count.open("r+b") as opened, mmap.mmap(opened.fileno(), 16) as shared:
            shared[:8] = bytes([1] * 8)


@pytest.fixture(params=["root", "nobody"])
def started(request: pytest.FixtureRequest, place: Path, programs: Path) -> Iterator[Started]:
    root: bool = request.param == "root"
    if os.getuid() != 0:
        pytest.skip(f"only root can try both users: {request.param}")
    made = Started(place, programs, root=root)
    yield made
    made.stop()


def reaper_of(running: Running) -> int:
    def found() -> list[int]:
        pid = running.process.pid
        children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return [child for child in children if Path(f"/proc/{child}/comm").read_text() == "husk-reaper\n"]

    assert until(found)
    return found()[0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_box_ends_without_its_reaper(started: Started, number: signal.Signals) -> None:
    command = started.command if number == signal.SIGKILL else started.slower
    with husk_process(command, wrapper=started.wrapper, env=started.env, stdout=PIPE, stderr=PIPE) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"up\n"
        box = started.box()
        if setting() == "bare":
            assert len(marked(box)) >= 4, "guests without a mark: the check below would say nothing"
        os.kill(reaper_of(running), number)
        _, err = running.process.communicate(timeout=PATIENCE)
        assert (running.process.returncode, err) == (125, GONE)
        assert marked(box) == []
        assert leftovers(running.mark, 0) == {}
        assert started.is_silent()
        assert list(started.state.iterdir()) == []


@pytest.mark.parametrize("seed", range(2))
def test_stopped_at_any_moment(started: Started, seed: int) -> None:
    """husk-init, while it builds the box, hands over to the reaper, or reaps."""
    pause = random.Random(seed).uniform(0, 0.06)
    with husk_process(started.slower, wrapper=started.wrapper, env=started.env, stdout=PIPE, stderr=PIPE) as running:
        process = Path(f"/proc/{running.process.pid}")
        below = process / f"task/{running.process.pid}/children"
        # The wrapper has children, too, before it executes husk.
        name = os.fsencode(husk_command()[0])  # husk, which becomes husk-python
        assert until(lambda: any(word.startswith(name) for word in (process / "cmdline").read_bytes().split(b"\0")[:2]))
        assert until(lambda: bool(below.read_text())), "husk started nothing"
        time.sleep(pause)
        for pid in below.read_text().split():
            os.kill(int(pid), signal.SIGSTOP)
        # It may have been the builder, at its end, and the reaper goes on.
        if not until(lambda: running.process.poll() is not None, 4):
            running.process.terminate()
        _, err = running.process.communicate(timeout=PATIENCE)
        assert b"Traceback" not in err, err
        assert running.process.returncode in (125, 143), (running.process.returncode, err)
        assert leftovers(running.mark, 0) == {} and started.is_silent()
        assert list(started.state.iterdir()) == []


def test_a_reaper_that_is_soon_continued(started: Started) -> None:
    """Who stops and continues every process of a box may continue husk first."""
    with husk_process(started.slower, wrapper=started.wrapper, env=started.env, stdout=PIPE, stderr=PIPE) as running:
        assert running.process.stdout is not None
        running.process.stdout.readline()
        reaper = reaper_of(running)
        for _ in range(3):
            os.kill(reaper, signal.SIGSTOP)
            time.sleep(0.02)
            os.kill(reaper, signal.SIGCONT)
        started.stop()  # the first program ends by itself
        _, err = running.process.communicate(timeout=PATIENCE)
        assert (running.process.returncode, err) == (0, b"")


def test_the_next_husk_ends_what_two_kills_left(started: Started) -> None:
    """husk and its reaper are killed at once. In a pid namespace the kernel ends the guests. Without one the next husk
    with this state directory does."""
    with husk_process(started.command, wrapper=started.wrapper, env=started.env, stdout=PIPE) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"up\n"
        box, reaper = started.box(), reaper_of(running)
        running.process.send_signal(signal.SIGSTOP)
        os.kill(reaper, signal.SIGKILL)
        running.process.kill()
        running.process.wait()
        if setting() == "bare":
            assert marked(box), "they did not stay: this proves nothing"
        after = husk(["run", "--", "true"], wrapper=started.wrapper, env=started.env)
        assert (after.status, after.err) == (0, "")
        assert marked(box) == [] and until(lambda: not leftovers(running.mark, 0))
        assert started.is_silent() and list(started.state.iterdir()) == []


def test_the_reapers_group_is_out_of_reach(started: Started, place: Path, programs: Path) -> None:
    """Without a pid namespace the calls are refused. With one the reaper is process 1, which no signal from inside
    kills."""
    events = place / "given" / "events"
    events.parent.chmod(0o777)
    options = ["--mount", f"{programs}:{ESCAPE}:ro", "--events", str(events)]
    done = husk(["run", *options, "--", f"{ESCAPE}/join_group"], wrapper=started.wrapper, env=started.env)
    assert (done.status, done.err) == (0, "")
    told = dict(line.split(": ") for line in done.out.splitlines())
    assert (told.pop("a group of its own"), told.pop("the first one's")) == ("done", "done")
    assert len(told) == 7
    if setting() == "bare":
        assert set(told.values()) == {"EPERM"}, told
        refused = [json.loads(line) for line in events.read_text().splitlines()]
        reasons = {one["call"].partition("(")[0]: one["reason"] for one in refused if one.get("reason")}
        assert "reaper" in reasons["setpgid"] and "group" in reasons["fcntl"] and "group" in reasons["ioctl"]

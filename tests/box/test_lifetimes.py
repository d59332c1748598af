"""When husk ends, everything in it ends: by itself, by a signal, by a time-out, and by kill -9."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lib.build_guests import guest_programs
from tests.lib.harness import GUESTS, NATIVE_ONLY, WORK
from tests.lib.running import PATIENCE, Running, husk, husk_process, leftovers, scratch, shell_status, until

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]

# A daemon that double-forks, closes everything and ignores polite signals; its beat shows whether it lives.
DAEMON = f"{GUESTS}/daemon {WORK}/beat"


@pytest.fixture
def work() -> Iterator[Path]:
    with scratch() as place:
        yield place


def run(work: Path, script: str, *options: str) -> list[str]:
    mounts = ["--mount", f"{work}:{WORK}:rw", "--mount", f"{guest_programs()}:{GUESTS}:ro"]
    return ["run", *mounts, *options, "--", "/bin/sh", "-c", script]


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    assert until(condition, seconds), f"{what} did not happen within {seconds} s"


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def wait_for_beat(work: Path, running: Running | None = None) -> None:
    def beating() -> bool:
        assert running is None or running.process.poll() is None, "husk ended by itself"
        return size(work / "beat") > 3

    wait_until(beating, "the daemon's beat")


def assert_silent(work: Path) -> None:
    before = size(work / "beat")
    time.sleep(0.2)
    assert size(work / "beat") == before, "a daemon of the guest is still alive"


def test_background_processes_end_with_the_run(work: Path) -> None:
    beats = f'while [ "$(wc -c <{WORK}/beat)" -lt 5 ]; do sleep 0.02; done'
    result = husk(run(work, f"{DAEMON}; sleep 300 & {beats}; echo done"))
    assert (result.status, result.out, result.err) == (0, "done\n", "")
    assert size(work / "beat") > 3
    assert_silent(work)


@pytest.mark.parametrize(
    "busy",
    [
        "sleep 300",
        "while :; do :; done",
        "while :; do test -e /usr/bin/env; done",
        "while :; do /bin/true; done",
        "mkfifo p; cat p",
        "sleep 300 | sleep 300 | sleep 300",
    ],
)
def test_kill_nine(work: Path, busy: str) -> None:
    with husk_process(run(work, f"{DAEMON}; {busy}")) as running:
        wait_for_beat(work, running)
        running.process.kill()
        running.process.wait()
        wait_until(lambda: not leftovers(running.mark, 0), "the end of all guests")
        assert_silent(work)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_to_husk(work: Path, number: signal.Signals) -> None:
    """A polite signal ends husk and everything in it, and husk cleans up behind itself."""
    with husk_process(run(work, f"{DAEMON}; trap '' TERM; sleep 300"), stderr=subprocess.PIPE) as running:
        wait_for_beat(work, running)
        running.process.send_signal(number)
        _, err = running.process.communicate(timeout=PATIENCE)
        assert shell_status(running.process.returncode) == 128 + number
        assert b"Traceback" not in err
        assert_silent(work)


def test_signals_in_a_row(work: Path) -> None:
    """As timeout(1) sends them. The host may deliver one to a thread of husk that answers guests and never runs
    handlers: the main thread must still learn of it. Before the guest exists, and while those threads are busy."""
    for tries in range(5):
        script = "echo up; while :; do test -e /usr/bin/env; done"
        with husk_process(run(work, script), stdout=subprocess.PIPE) as running:
            assert running.process.stdout is not None
            if tries:
                assert running.process.stdout.readline() == b"up\n"
            else:
                wait_until(lambda: bool(list(running.state.iterdir())), "the start of the box")
            for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGCONT):
                running.process.send_signal(number)
            assert shell_status(running.process.wait(timeout=PATIENCE)) == 128 + signal.SIGTERM


def test_timeout(work: Path) -> None:
    begin = time.monotonic()
    result = husk(run(work, f"{DAEMON}; trap '' TERM INT HUP; sleep 300; sleep 300", "--timeout", "1"))
    assert result.status == 124
    assert 0.9 < time.monotonic() - begin < 60
    assert "Traceback" not in result.err
    assert_silent(work)


def test_timeout_not_reached(work: Path) -> None:
    result = husk(run(work, "exit 3", "--timeout", "60"))
    assert (result.status, result.out, result.err) == (3, "", "")


def on_a_terminal(arguments: list[str], react: Callable[[int], None], collected: list[bytes]) -> int:
    """husk as foreground process of a terminal of its own. `react` gets the master side."""
    master, slave = pty.openpty()
    with husk_process(
        ["run", *arguments[1:]],
        wrapper=["setsid", "--ctty", "--wait"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
    ) as running:
        os.close(slave)
        try:
            react(master)
            while True:
                collected.append(os.read(master, 4096))
                if not collected[-1]:
                    break
        except OSError:
            pass  # EIO: no process has the terminal open any more
        finally:
            status = running.process.wait(timeout=PATIENCE)
            os.close(master)
    return shell_status(status)


def press_ctrl_c(master: int, collected: list[bytes]) -> None:
    while b"ready" not in b"".join(collected):
        collected.append(os.read(master, 4096))
    time.sleep(0.2)
    os.write(master, b"\x03")


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done", 5),
        ("echo ready; exec sleep 300", 130),
        ("echo ready; sleep 300 | sleep 300", 130),
    ],
)
def test_ctrl_c_reaches_the_guest(work: Path, script: str, status: int) -> None:
    collected: list[bytes] = []
    ended = on_a_terminal(run(work, script), lambda master: press_ctrl_c(master, collected), collected)
    text = b"".join(collected).decode()
    assert ended == status, text
    assert "Traceback" not in text
    assert ("caught" in text) == (status == 5)


def test_state_lies_where_the_harness_looks(work: Path) -> None:
    """Every run is checked for state left behind. Without this test that check would prove nothing."""
    with husk_process(run(work, "echo up; sleep 300"), stdout=subprocess.PIPE) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"up\n"
        assert list(running.state.iterdir()), "husk keeps its state outside $HUSK_STATE"
        running.process.terminate()
        running.process.wait(timeout=PATIENCE)


def test_killed_state_is_collected(work: Path) -> None:
    """The next run with the same state directory removes what a killed husk left there."""
    with husk_process(run(work, "echo up; sleep 300"), stdout=subprocess.PIPE) as running:
        assert running.process.stdout is not None
        running.process.stdout.readline()
        running.process.kill()
        running.process.wait()
        wait_until(lambda: not leftovers(running.mark, 0), "the end of all guests")
        assert husk(run(work, "true"), env={"HUSK_STATE": str(running.state)}).status == 0
        assert not list(running.state.iterdir())


def test_closed_streams(work: Path) -> None:
    """husk whose reader goes away, and husk without standard streams at all."""
    with husk_process(run(work, "while echo x; do :; done"), stdout=subprocess.PIPE) as running:
        assert running.process.stdout is not None
        running.process.stdout.readline()
        running.process.stdout.close()
        # The shell dies of SIGPIPE, as it does natively.
        assert shell_status(running.process.wait(timeout=PATIENCE)) == 141
    with husk_process(run(work, "exit 9"), wrapper=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]) as running:
        assert running.process.wait(timeout=PATIENCE) == 9

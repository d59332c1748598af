"""A guest's own means against husk: its own filters and loaders, set-user-id programs, crashes, fleeing processes,
using up husk's descriptors, and attacks of one run of a box on another."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import husk as api
from tests.escape.test_doors import stranger
from tests.escape.test_escape import ESCAPE, boxed, unprotected
from tests.lib.harness import NATIVE_ONLY, guest_ids
from tests.lib.running import PIPE, husk, husk_process, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]


@pytest.fixture
def secret(place: Path) -> Path:
    file = place / "secret"
    file.write_text("ORIGINAL, and so it stays\n")
    return file


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    process = stranger()
    yield process
    process.kill()
    process.wait()


def lines(text: str) -> dict[str, str]:
    return dict(line.rsplit(": ", 1) for line in text.splitlines())


def test_filters_of_the_guests_own(programs: Path, place: Path, secret: Path) -> None:
    """Linux takes the strictest answer of several filters, runs the filters again on a call that a tracer changed, and
    allows one listener per tree of processes."""
    found = lines(boxed(programs, ["own_filter", str(secret)]).out)
    natively = lines(unprotected(programs, ["own_filter", str(secret)], place).out)
    reads = ["lets pass", "logs", "another call by a tracer"]
    assert {way: natively[way] for way in reads} == dict.fromkeys(reads, "read")
    assert natively["listeners"] == "3"
    assert set(found) == set(natively) and "read" not in found.values()
    assert {found[way] for way in (*reads, "asks no tracer")} == {"ENOENT"}
    assert (found["listeners"], found["found"]) == ("0", "0")


def test_lies_in_a_gate(programs: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a guest writes into the memory that it shares with husk is copied once, and judged like any question."""
    monkeypatch.setenv("HUSK_GATE", "eager")
    monkeypatch.setenv("HUSK_DIRECT", "0")  # the program looks for its gate where call sites lead
    answered, before = 0, secret.stat()
    for _ in range(5):  # on a busy machine the poller may hardly run
        result = boxed(programs, ["gate_lies", str(secret)])
        assert secret.stat() == before
        assert lines(result.out) == {"at first wrong": "0", "seen of what is not there": "0", "a child afterwards": "0"}
        answered += int(result.err.rsplit(maxsplit=1)[1])
        if answered > 100:
            return
    pytest.fail(f"only {answered} lies came through the gate")


def test_the_channel_of_a_gate(programs: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the socket that brings a guest descriptors it gets what it may open, and husk gets nothing."""
    monkeypatch.setenv("HUSK_GATE", "eager")
    for _ in range(5):  # on a busy machine the poller may hardly run
        result = boxed(programs, ["gate_channel", str(secret)])
        found = lines(result.out)
        assert set(found.values()) == {"0"}, result.out
        if result.err == "no gate\n":
            assert setting() == "bare"  # without direct names nothing of it is there
            return
        assert len(found) == 6
        if int(result.err.rsplit(maxsplit=1)[1]) > 100:
            return
    pytest.fail("hardly any request came through the gate")


def test_a_loader_of_the_guests_own(programs: Path, place: Path, secret: Path, other: subprocess.Popen[bytes]) -> None:
    """The executed program has the same filter, and husk answers no loader that it did not start."""
    words = ["own_loader", str(secret), str(other.pid)]
    found = lines(boxed(programs, words).out)
    assert found.pop("number") == "learned", "the attempt itself no longer works, so this test says nothing"
    signal = "EPERM" if setting() == "bare" else "ESRCH"
    assert found == {"file": "ENOENT", "signal": signal, "answers": "0", "more descriptors": "0"}
    natively = lines(unprotected(programs, words, place).out)
    assert (natively["file"], natively["signal"]) == ("read", "sent")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a set-user-id program of root's")
def test_a_set_user_id_program_changes_nobody(programs: Path, place: Path) -> None:
    program = place / "ids"
    shutil.copy(programs / "ids", program)
    program.chmod(0o6755)
    same = "one user 1, one group 1, root 0, capabilities 0\n"
    assert boxed(programs, ["ids", "/given/ids"], f"{place}:/given:ro").out == same * 3
    uid = str(guest_ids()[0])
    natively = subprocess.run(
        ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", str(programs / "ids"), str(program)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    root = "one user 0, one group 0, root 1, capabilities 1\n"
    assert natively.stdout == same + root * 2


def test_no_core_of_a_crash(programs: Path, place: Path) -> None:
    """A guest cannot change its limit of one byte. Whether this host can prove it depends on its core_pattern."""
    work = place / "work"
    work.mkdir(mode=0o777)
    work.chmod(0o777)
    options = ["--mount", f"{programs}:{ESCAPE}:ro", "--mount", f"{work}:/work:rw", "--workdir", "/work"]
    unlimited = ["sh", "-c", 'ulimit -c unlimited 2>/dev/null; exec "$@"', "sh"]
    done = husk(["run", *options, "--", f"{ESCAPE}/crash"], wrapper=unlimited)
    assert (done.status, done.out) == (0, "signal 6, core 0\n"), done.err
    assert not list(work.iterdir())
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern and "/" not in pattern and pattern[0] not in "|@":
        command = [*unlimited, str(programs / "crash")]
        natively = subprocess.run(command, cwd=work, capture_output=True, text=True, check=True)
        if "core 1" in natively.stdout:  # else the tests themselves run below a limit
            assert list(work.iterdir()), "the host writes none either"


def test_processes_that_flee(programs: Path, place: Path) -> None:
    """They fork and end faster than a supervisor can list them. With a pid namespace the kernel ends them. Without one
    they become the reaper's children, and it ends them."""
    file = place / "count"
    file.write_bytes(bytes(16))
    file.chmod(0o666)
    done = husk(["run", "--mount", f"{programs}:{ESCAPE}:ro", "--mount", f"{place}:/given:rw", "--",
                 f"{ESCAPE}/comet", "/given/count", "4"])  # fmt: skip
    try:
        assert (done.status, done.out) == (0, "on their way\n"), done.err
        before = file.read_bytes()
        time.sleep(0.2)  # surviving processes would go on counting
        assert file.read_bytes() == before
        file.write_bytes(bytes(16))
        subprocess.run([programs / "comet", file, "4"], check=True, stdout=subprocess.DEVNULL)
        before, deadline = file.read_bytes(), time.monotonic() + 60
        while file.read_bytes() == before:  # natively they are not ended
            assert time.monotonic() < deadline
    finally:
        with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 16) as shared:
            shared[:8] = bytes([1] * 8)


def test_a_segments_size_is_not_the_guests_to_change(programs: Path) -> None:
    """How often it gets hold of the descriptor is a matter of chance: a few times in five seconds at least."""
    done = husk(["run", "--mount", f"{programs}:{ESCAPE}:ro", "--", f"{ESCAPE}/steal_segment"])
    assert (done.status, done.out) == (0, "changed 0\n"), done.err


def test_husks_descriptors_are_not_used_up(programs: Path) -> None:
    """A guest makes husk wait in as many calls as it can. husk, which may serve other boxes too, goes on."""
    script = (
        "import os, threading, time\n"
        "os.mkfifo('/tmp/fifo')\n"
        "refused = []\n"
        "def wait():\n"
        "    try: os.open('/tmp/fifo', os.O_RDONLY)\n"
        "    except OSError as error: refused.append(error.errno)\n"
        "threads = [threading.Thread(target=wait, daemon=True) for _ in range(200)]\n"
        "for thread in threads: thread.start()\n"
        "while len(refused) < 50: time.sleep(0.01)\n"
        "print(set(refused), os.system('cat /etc/passwd > /tmp/copy'), os.path.getsize('/tmp/copy') > 0, flush=True)\n"
        "os._exit(0)\n"
    )
    done = husk(["run", "--", "/usr/bin/python3", "-c", script], wrapper=["prlimit", "--nofile=200:200"])
    assert (done.status, done.out) == (0, "{12} 0 True\n"), done.err


@pytest.mark.parametrize("way", ["pair", "named"])
def test_descriptors_in_flight_are_bounded_and_the_boxs_own(programs: Path, place: Path, way: str) -> None:
    """husk does not send them as root. Else they would have no bound, and processes with root's uid but without its
    capabilities could send none."""
    few, most = ["prlimit", "--nofile=1024:1024"], "5000"
    command = ["run", "--mount", f"{programs}:{ESCAPE}:ro", "--", f"{ESCAPE}/in_flight", way, most]
    with husk_process(command, wrapper=few, stdin=PIPE, stdout=PIPE) as running:
        said = running.process.stdout
        assert said is not None and said.readline() == b"ETOOMANYREFS after 1100\n"
        assert husk(["run", "--", "echo", "another box starts"], wrapper=few).out == "another box starts\n"
        running.process.communicate(timeout=60)
        assert running.process.returncode == 0
    if os.geteuid() == 0:
        attack = [*few, str(programs / "in_flight"), way, most]
        done = subprocess.run(attack, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        assert done.stdout == f"stopped after {most}\n"


def test_one_run_of_a_box_reaches_no_process_of_another(programs: Path) -> None:
    """Runs share files and loopback. Each has its own pid namespace or, without namespaces, its own Landlock domain."""
    with api.Sandbox(mounts=[f"{programs}:{ESCAPE}:ro"], namespaces=setting() == "walled") as box:
        victim = box.popen([f"{ESCAPE}/signal_out", "wait"], stdout=api.PIPE, text=True)
        said = victim.stdout
        assert said is not None and said.readline() == "waits\n"
        reached = box.run([f"{ESCAPE}/reach", str(victim.pid)], capture_output=True, text=True, check=True)
        strangers = [line for line in reached.stdout.splitlines() if " stranger: " in line]
        assert len(strangers) == 7 and {line.rsplit(": ", 1)[1] for line in strangers} <= {"EPERM", "ESRCH"}, strangers
        assert "reached by number: 0\n" in reached.stdout
        box.run([f"{ESCAPE}/signal_out", str(victim.pid), "all"], capture_output=True, check=True)
        assert victim.poll() is None, "it got the signal"
        victim.send_signal(23)  # SIGURG, from outside
        with said:
            assert said.readline() == "got it\n"
        assert victim.wait(timeout=60) == 0

"""Questions that come through a gate (native/gate) get the answers that they get by notification.

HUSK_GATE=eager opens gates early and polls on a busy machine too, which is slow, and what these tests want. How often a
gate was used is asked of husk itself: a test that never went through one would prove nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lib import running
from tests.lib.build_guests import guest_programs
from tests.lib.harness import NATIVE_ONLY, differential
from tests.lib.running import husk, scratch, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

# The `husk` command, which says at its end what went through gates.
COUNTING = """
import sys
from husk.cli import main
from husk.sandbox import box
made, make = [], box.Listener
box.Listener = lambda *args, **kwargs: made.append(make(*args, **kwargs)) or made[-1]
status = main()
sys.stdout.flush()
print("through gates:", sum(each.gate_use()[0] for each in made), file=sys.stderr)
sys.exit(status)
"""


def counted(
    arguments: list[str], work: Path, gate: str, monkeypatch: pytest.MonkeyPatch, direct: str = "0"
) -> tuple[str, int]:
    """What a guest program wrote, and how many of its questions came through a gate. With direct names those of /usr
    need none."""
    monkeypatch.setenv("HUSK_GATE", gate)
    monkeypatch.setenv("HUSK_DIRECT", direct)
    mounts = ["--mount", f"{guest_programs()}:/guests:ro", "--mount", f"{work}:/workspace:rw"]
    command = [sys.executable, "-c", COUNTING]
    monkeypatch.setattr(running, "husk_command", lambda: command)
    found = husk(["run", *mounts, "--workdir", "/workspace", "--", *arguments])
    assert found.status == 0, found.err
    return found.out, int(re.findall(r"through gates: (\d+)", found.err)[0])


@pytest.mark.parametrize("gate", ["eager", "0"])
@pytest.mark.parametrize(
    "name",
    [
        "gate_torture",
        "gate_opens",
        "gate_changes",
        "gate_lists",
        "gate_closes",
        "gate_signals",
        "files_dirfds",
    ],
)
def test_transcript(name: str, gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_GATE", gate)
    differential(["{guests}/" + name], case=name)


@pytest.mark.parametrize("gate", ["eager", "0"])
def test_gates_are_used_and_can_be_switched_off(gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    through = 0
    for _ in range(5):  # on a busy machine the poller may hardly run
        with scratch() as place:
            place.chmod(0o777)
            through += counted(["/guests/gate_torture"], place, gate, monkeypatch)[1]
        if gate == "0" or through > 500:
            break
    assert through > 500 if gate == "eager" else through == 0


@pytest.mark.parametrize("gate", ["eager", "0"])
def test_descriptors_come_through_gates(gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where guests have direct names: a gate receives by that instruction."""
    through = 0
    for _ in range(5):  # on a busy machine the poller may hardly run
        with scratch() as place:
            place.chmod(0o777)
            through += counted(["/guests/gate_opens"], place, gate, monkeypatch, direct="1")[1]
        if gate == "0" or setting() == "bare" or through > 3000:
            break
    if setting() == "walled":
        assert through > 3000 if gate == "eager" else through == 0


OPENS = """
import os
open("own", "w").close()
for _ in range(3000):
    os.close(os.open("own", os.O_RDONLY))
there = os.stat("/proc/self/fd").st_size
listed = [sorted(os.listdir("/proc/self/" + name)) for name in ("fd", "fdinfo")]
print(*listed, there, os.path.lexists("/proc/self/fd/1024"))
"""


def test_the_channel_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    with scratch() as place:
        place.chmod(0o777)
        monkeypatch.setenv("HUSK_GATE", "eager")
        options = ["--mount", f"{place}:/workspace:rw", "--workdir", "/workspace"]
        found = husk(["run", *options, "--", "/usr/bin/python3", "-c", OPENS])
    assert found.out == "['0', '1', '2', '3'] ['0', '1', '2', '3'] 3 False\n", found.err


# The guest: does its C library's call of rt_sigaction lead away, now that it has started some programs?
LED = """
import ctypes, os
for _ in range(4):
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {{}}), 0)
print(ctypes.string_at({place}, 8) != bytes(8))
"""


@pytest.mark.parametrize(("gate", "processors"), [("1", 2), ("1", 1), ("0", 2)])
def test_a_program_that_starts_others_is_led_away_from_rt_sigaction(
    gate: str, processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = (Path(__file__).parents[2] / "src/husk/native/loader/resident.h").read_text()
    known = {name: int(value, 16) for name, value in re.findall(r"#define (HUSK_RES\w+) (0x[0-9a-f]+)", header)}
    place = known["HUSK_RESIDENT"] + known["HUSK_RESIDENT_CODE_BYTES"] + known["HUSK_RES_SIGACTION"]
    monkeypatch.setenv("HUSK_GATE", gate)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:processors])
    try:
        found = husk(["run", "--", "/usr/bin/python3", "-c", LED.format(place=place)])
    finally:
        os.sched_setaffinity(0, before)
    assert (found.status, found.out.strip()) == (0, str(gate == "1")), found.err


LATER_THREAD = """
import os, threading, time
def ask(times):
    for _ in range(times):
        os.stat("/usr/lib")
def later():
    time.sleep(0.1)  # nobody polls any more
    ask(1500)
ask(200)
thread = threading.Thread(target=later)
thread.start()
thread.join()
"""


def test_a_thread_uses_the_gate_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was started after the gate was opened, and asks alone."""
    through = [0]
    while len(through) < 6 and through[-1] < 1200:  # on a busy machine the poller may hardly run
        with scratch() as place:
            place.chmod(0o777)
            through.append(counted(["python3", "-c", LATER_THREAD], place, "eager", monkeypatch)[1])
    assert through[-1] >= 1200, through  # the first thread and the start of Python ask some hundred


def test_a_guest_with_a_full_table_gets_no_new_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a gate needs a descriptor for a moment."""
    script = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
try:
    while True:
        os.dup(0)
except OSError:
    pass
for _ in range(300):
    os.stat("/usr/bin")
os.write(1, b"all right")
"""
    with scratch() as place:
        place.chmod(0o777)
        out, _ = counted(["/usr/bin/python3", "-c", script], place, "eager", monkeypatch)
    assert out == "all right"


# The guest: each child makes calls at sites that none before it used. After each line it waits.
ONE_AFTER_THE_OTHER = """
import os
os.dup2(os.open("/usr/bin", os.O_RDONLY), 3)
def ask(how):
    for _ in range(60):
        try:
            how()
        except OSError:
            pass
def in_child(how):
    child = os.fork()
    if child == 0:
        ask(how)
        os._exit(0)
    os.write(1, b"%d\\n" % os.waitpid(child, 0)[1])
    os.read(0, 1)
ask(lambda: os.stat("/usr/bin/env"))
os.write(1, b"begun\\n")
os.read(0, 1)
in_child(lambda: os.access("/usr/bin/env", os.R_OK))
in_child(lambda: os.readlink("/usr/bin/env", dir_fd=3))
"""

# Around it, in a pid namespace where both children get the same number.
SAME_NUMBER = """
import subprocess, sys
guest = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for _ in range(3):
    print(guest.stdout.readline().decode().strip())
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write("20000")
    guest.stdin.write(b"x")
    guest.stdin.flush()
sys.exit(guest.wait())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can choose the next process id")
def test_a_process_id_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate of a process that has ended is not that of the next process with its number."""
    alone = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*alone, "test", "-w", "/proc/sys/kernel/ns_last_pid"], check=False).returncode:
        pytest.skip("no pid namespace with a choice of process ids")
    monkeypatch.setenv("HUSK_GATE", "eager")
    command = [*running.husk_command(), "run", "--", "/usr/bin/python3", "-c", ONE_AFTER_THE_OTHER]
    ended = subprocess.run(
        [*alone, sys.executable, "-c", SAME_NUMBER, *command], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout.split()) == (0, ["begun", "0", "0"]), ended.stderr

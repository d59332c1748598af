"""husk stopped in the midst of work, and continued: its guests wait and go on where they were, and see nothing of it.

What a stop does to limits is in tests/unit/sandbox/test_run_time.py.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.box.test_faults import ALL
from tests.lib import stopped_husk
from tests.lib.harness import NATIVE_ONLY, differential
from tests.lib.running import PIPE, husk_process, scratch, until

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]

FEW = ("sig_shared", "sock_dgram")
# Not among them: sig_queue, which stops children of its own (what continues husk is passed on to its guests, as by a
# shell's `fg`), and proc_trace, which counts stops of a traced call: one that husk has not received may begin twice.
MANY = (
    *FEW, "exec_full", "exec_threads", "files_fifo", "files_moves", "files_names", "files_open", "files_stat",
    "io_moving", "io_wait", "proc_basics", "proc_files", "proc_threads", "sig_actions", "sig_eintr", "sig_query",
    "sock_passing", "sock_peers", "sock_stream", "time_timers",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(5 if ALL else 1))
@pytest.mark.parametrize("name", MANY if ALL else FEW)
def test_over_and_over(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any moment: in a call, in C and in Python, in a wait, between attaching to a thread and letting it go."""
    monkeypatch.setenv("HUSK_CMD", f"env HUSK_STOP_SEED={seed} {sys.executable} {stopped_husk.__file__}")
    differential(["{guests}/" + name], case=name, timeout=300)


RECEIVER = r"""
import socket, struct, threading
one, two = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
one.bind("one"), two.bind("two")
# With a time limit: of these waits the host says EINTR when whoever waits was stopped and continued.
one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 300, 0))
threading.Thread(target=lambda: (input(), two.sendto(b"hello", "one"))).start()
print("up", flush=True)
print(one.recvfrom(100))
"""


@pytest.mark.needs("python3")
def test_a_wait_goes_on() -> None:
    with scratch() as work:
        work.chmod(0o777)
        arguments = ["run", "--mount", f"{work}:/work:rw", "--workdir", "/work", "--", "python3", "-c", RECEIVER]
        with husk_process(arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
            assert running.process.stdout is not None
            assert running.process.stdout.readline() == b"up\n"
            pid = running.process.pid
            assert until(lambda: waits_in(pid, 47), 60), "husk does not wait in recvmsg"
            running.process.send_signal(signal.SIGSTOP)
            assert until(lambda: b") T " in Path(f"/proc/{pid}/stat").read_bytes(), 60)
            running.process.send_signal(signal.SIGCONT)
            out, err = running.process.communicate(b"\n", timeout=60)
        assert (running.process.returncode, out, err) == (0, b"(b'hello', 'two')\n", b"")


def waits_in(pid: int, call: int) -> bool:
    """Is a thread of this process in that system call?"""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
            if Path(f"/proc/{pid}/task/{tid}/syscall").read_text().split()[0] == str(call):
                return True
    return False

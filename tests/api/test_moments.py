"""A signal that comes while husk works on a call takes effect when Linux would let it: when the call is over."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import husk


def fields(pid: int) -> list[str]:
    """State, parent and group: what follows the name in /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def stopped(pids: list[int]) -> bool:
    return bool(pids) and all(fields(pid)[0] == "T" for pid in pids)


def stop_at(box: husk.Sandbox, call: str, path: str, send: Callable[[int], list[int]], script: str) -> str:
    """Run `script`. When one of its processes makes `call`, and husk is working on it, `send` stops some of them. They
    must be seen stopped, and are then continued. Returns the script's output."""
    sent: list[int] = []

    @box.on(call)
    def meanwhile(seen: husk.Seen) -> None:
        if seen.path == path and not sent:
            sent.extend(send(seen.pid))

    said: list[str] = []
    run = threading.Thread(
        target=lambda: said.append(box.run(["sh", "-c", script], capture_output=True, text=True).stdout)
    )
    run.start()
    try:
        deadline = time.monotonic() + 60
        while not stopped(sent):
            assert time.monotonic() < deadline, f"not stopped: {[fields(pid)[:3] for pid in sent]}"
            time.sleep(0.01)
    finally:
        for pid in sent:
            os.kill(pid, signal.SIGCONT)
        run.join()
    return said[0]


def stop_group(pid: int) -> list[int]:
    """As ^Z does."""
    _, parent, group, *_ = fields(pid)
    os.killpg(int(group), signal.SIGTSTP)
    return [int(parent), pid]


def stop_one(pid: int) -> list[int]:
    os.kill(pid, signal.SIGSTOP)
    return [pid]


def test_a_program_is_executed_before_it_stops(box: husk.Sandbox) -> None:
    """If a vfork child stopped earlier, its parent would stay asleep and the shell that waits for it would not know."""
    assert stop_at(box, "execve", "/bin/true", stop_group, "/bin/true; echo $?") == "0\n"


def test_a_stop_is_not_lost_while_the_directory_changes(box: husk.Sandbox) -> None:
    assert stop_at(box, "chdir", "/tmp", stop_one, "cd /tmp; pwd") == "/tmp\n"

"""How much memory sandboxes take besides the programs in them: one idle guest, and many."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from measure import ENVIRONMENT
from subjects import Subject

IDLE = ["/bin/sleep", "600"]
READY = 30.0  # seconds until all must be up


def memory_rows(subjects: list[Subject], count: int) -> list[dict[str, Any]]:
    """Of husk one box and `count`; of the others one."""
    rows = []
    for subject in subjects:
        if subject.name == "native":
            continue
        for boxes in (1, count) if subject.name == "husk cow" else (1,):
            if (taken := taken_by(subject, boxes)) is not None:
                rows.append({"subject": subject.name, "boxes": boxes, "mib": round(taken / 2**20, 1)})
    return rows


def taken_by(subject: Subject, boxes: int) -> int | None:
    """Proportional set size of everything but the idle programs; None if they did not all start."""
    started = [
        subprocess.Popen(
            subject.wrap(IDLE), env=ENVIRONMENT, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for _ in range(boxes)
    ]  # fmt: skip
    try:
        deadline = time.monotonic() + READY
        while time.monotonic() < deadline:
            found = descendants({process.pid for process in started})
            idle = {pid for pid in found if is_idle_program(pid)}
            if len(idle) >= boxes or (subject.name == "runsc" and time.monotonic() > deadline - READY + 3):
                time.sleep(0.5)  # what a start still does is not idle
                found = descendants({process.pid for process in started})
                return sum(size_of(pid) for pid in found if not is_idle_program(pid))
            time.sleep(0.1)
        return None
    finally:
        everything = descendants({process.pid for process in started})
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in everything:
            if is_idle_program(pid):  # a sandbox that does not take its program with it
                os.kill(pid, signal.SIGKILL)


def descendants(roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = set(), list(roots)
    while waiting:
        pid = waiting.pop()
        found.add(pid)
        waiting += children.get(pid, [])
    return found


def is_idle_program(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2] == [word.encode() for word in IDLE]
    except OSError:
        return False


def size_of(pid: int) -> int:
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0

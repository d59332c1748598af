"""sandbox: end guests whose reaper was killed. Without a pid namespace they live on, as children of the process that
adopts orphans. The `husk` command does that: it has one box, and no other children. The process of an application does
not: its orphans may be its own children.
"""

from __future__ import annotations

import os
import time

from husk.native import LOADER
from husk.native._core import adopt_orphans

SIGKILL = 9
ROUNDS = 1000  # a guest that forks as fast as it can needs many


_adopted = False


def adopt() -> None:
    global _adopted
    adopt_orphans()
    _adopted = True


def end() -> None:
    """Kill every descendant of this process that runs husk's loader, as every guest does, until none is left. To be
    called while husk still answers: no guest is to see its calls fail."""
    if not _adopted:
        return
    loader = os.stat(LOADER)
    for _ in range(ROUNDS):
        guests = [pid for pid in _descendants(os.getpid()) if _runs(pid, loader)]
        if not guests:
            return
        for pid in guests:
            try:
                os.kill(pid, SIGKILL)
            except ProcessLookupError:
                pass
        for pid in guests:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass  # a grandchild: ours in the next round
        time.sleep(0.001)


def _descendants(parent: int) -> list[int]:
    found, todo = [], [parent]
    while todo:
        one = todo.pop()
        try:
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children", "rb") as children:
                    todo += [int(word) for word in children.read().split()]
        except OSError:
            continue  # it ended meanwhile
        found.append(one)
    return found[1:]


def _runs(pid: int, program: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/exe"), program)
    except OSError:
        return _is_dead(pid)  # a dead one has no program, and may be ours to reap


def _is_dead(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        return False

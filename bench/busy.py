"""Two busy boxes beside each other, against two native processes beside each other."""

from __future__ import annotations

import statistics
import subprocess
from typing import Any

from measure import ENVIRONMENT, TIME_LIMIT, Command
from subjects import Subject

# On one processor two processes take twice as long; on two, two boxes need up to four: the guests, and husk for each.
OPERATIONS = (("stat", "8000"), ("open", "5000"), ("getppid", "1000000"), ("spawn", "60"))


def slow_down(subjects: list[Subject], calls: str, file: str, *, quick: bool, rounds: int = 3) -> list[dict[str, Any]]:
    """How much slower one is while another does the same: median over rounds, alone and together in turn."""
    rows = []
    for what, count in OPERATIONS:
        many = str(max(1, int(count) // (50 if quick else 1)))
        command = [calls, what, "3", many, "/bin/true" if what == "spawn" else file]
        for subject in subjects:
            alone, together = [], []
            for _ in range(1 if quick else rounds):
                alone += beside(subject, command, 1)
                together += beside(subject, command, 2)
            if alone and together:
                one, two = statistics.median(alone), statistics.median(together)
                rows.append({"what": what, "subject": subject.name, "alone": one, "together": two, "ratio": two / one})
    return rows


def beside(subject: Subject, command: Command, count: int) -> list[float]:
    """What each of `count` runs at the same time measured; empty if one failed."""
    started = [
        subprocess.Popen(subject.wrap(command), env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for _ in range(count)
    ]
    values = []
    for process in started:
        text, _ = process.communicate(timeout=TIME_LIMIT)
        values += [float(word) for word in text.decode().partition("cpu")[0].split()]
    return [] if any(process.returncode for process in started) else values

"""Two busy boxes beside each other, against two native processes beside each other.

Each is measured alone and together, and all of that in turn, round after round. The two of a pair begin at one moment
and go on for the same time: a pair that does not overlap would slow nothing down. Once each has a processor of its own,
for guest and husk together: what they slow each other down then is husk's doing. And once all share all processors:
there two boxes need up to four where two native processes need two.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from typing import Any

from measure import ENVIRONMENT, TIME_LIMIT, Command
from subjects import Subject

OPERATIONS = (("stat", 500), ("open", 200), ("getppid", 20_000), ("spawn", 5))
OWN, SHARED = "a processor each", "all processors"
TENTHS = 4  # of a second
LEAD = 0.8  # seconds in which both must be ready; doubled for one that came late


def slow_down(subjects: list[Subject], calls: str, file: str, rounds: int, until: float) -> list[dict[str, Any]]:
    """How much slower one is while another does the same. No second round begins after `until`."""
    manners = (OWN, SHARED) if len(os.sched_getaffinity(0)) > 1 else (SHARED,)
    rows = []
    for what, count in OPERATIONS:
        argument = "/bin/true" if what == "spawn" else file
        samples: dict[tuple[str, str, int], list[float]] = {}
        for turn in range(rounds):
            if turn and time.monotonic() > until:
                break
            for manner in manners:
                for subject in subjects:
                    for many in (1, 2):
                        got = beside(subject, [calls, what, str(TENTHS)], count, argument, many, manner)
                        samples.setdefault((manner, subject.name, many), []).extend(got)
        for manner in manners:
            for subject in subjects:
                alone, together = (samples[manner, subject.name, many] for many in (1, 2))
                if alone and together:
                    one, two = statistics.median(alone), statistics.median(together)
                    row = {"what": what, "subject": subject.name, "manner": manner, "alone": one, "together": two}
                    rows.append(row | {"ratio": two / one})
    return rows


def beside(subject: Subject, start: Command, count: int, argument: str, many: int, manner: str) -> list[float]:
    """What each of `many` runs at the same time measured; empty if one failed, or came late again and again."""
    processors = sorted(os.sched_getaffinity(0))
    for lead in (LEAD, 2 * LEAD, 4 * LEAD):
        begin = time.monotonic_ns() + int(lead * 1e9)
        started = []
        for number in range(many):
            pinned = ["/usr/bin/taskset", "-c", str(processors[number])] if manner == OWN else []
            command = [*pinned, *subject.wrap([*start, f"{count}@{begin}", argument])]
            quiet, out = subprocess.DEVNULL, subprocess.PIPE
            started.append(subprocess.Popen(command, env=ENVIRONMENT, stdin=quiet, stdout=out, stderr=quiet))
        texts = [process.communicate(timeout=TIME_LIMIT)[0].decode() for process in started]
        figures = [[float(word) for word in text.partition("cpu")[0].split()] for text in texts]
        if all(process.returncode == 0 for process in started) and all(figures):
            return [figure for mine in figures for figure in mine]
    return []

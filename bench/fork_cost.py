"""Prints what `husk fork` costs husk itself, in nanoseconds, one line each: fork_cost.py STATE NAME TIMES.

In one process: another row measures what a Python start and its imports cost.
"""

from __future__ import annotations

import sys
import time

from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.operations import drop, fork


def main() -> None:
    place, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
    kept = KeptBoxes(place)
    fork(kept, name, "warm")  # loads what is loaded on first use
    drop(kept, "warm")
    for number in range(times):
        start = time.perf_counter_ns()
        fork(kept, name, f"fork{number}")
        print(time.perf_counter_ns() - start)
        drop(kept, f"fork{number}")


main()

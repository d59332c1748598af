"""Prints what `pool.run(["true"])` takes in a warm box, in nanoseconds, one figure per line. For run.py."""

from __future__ import annotations

import sys
import time

import husk

with husk.Pool(1) as pool:
    for _ in range(int(sys.argv[1])):
        pool.wait_ready()
        time.sleep(0.05)  # the box before it is being closed in the background
        begin = time.perf_counter_ns()
        pool.run(["true"])
        print(time.perf_counter_ns() - begin)

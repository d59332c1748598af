"""husk that is stopped over and over: `python stopped_husk.py run …` is husk, stopped (SIGSTOP) and continued at
moments drawn with the seed HUSK_STOP_SEED, until it ends.

A program of its own, as failing_host.py is. Its exit code is husk's.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys

LONGEST_MS = 60.0  # of running, and of being stopped: long against a call, short against a program


def main() -> int:
    husk = os.fork()
    if husk == 0:
        from husk.cli import main as run

        sys.exit(run())
    chance = random.Random(int(os.environ["HUSK_STOP_SEED"]))
    ended = select.poll()
    ended.register(os.pidfd_open(husk), select.POLLIN)
    while not ended.poll(chance.uniform(0, LONGEST_MS)):
        os.kill(husk, signal.SIGSTOP)
        ended.poll(chance.uniform(0, LONGEST_MS))
        os.kill(husk, signal.SIGCONT)
    code = os.waitstatus_to_exitcode(os.waitpid(husk, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

"""`make bombs`: every bomb at full size, in both settings. Prints a table; exit code 1 when something went wrong.

It takes up to an hour and some gigabytes of disk and memory. Arguments: only the bombs whose names hold one of them.
"""

from __future__ import annotations

import sys

from tests.bombs.bombs import BOMBS
from tests.bombs.harness import MIB, explode
from tests.lib import running


def main(names: list[str]) -> int:
    failed = False
    print(f"{'bomb':36} {'size':>9}  setting  {'seconds':>8} {'husk, MiB':>10} {'bound':>6}")
    for bomb in BOMBS:
        if names and not any(name in bomb.name for name in names):
            continue
        for setting, options in (("walled", []), ("bare", [running.BARE])):
            running.OPTIONS = options
            outcome = explode(bomb, bomb.full)
            figures = f"{outcome.seconds:8.1f} {outcome.peak // MIB:10} {outcome.bound // MIB:6}"
            print(f"{bomb.name:36} {bomb.full:9}  {setting:7}  {figures}", *outcome.wrong, sep="\n    ", flush=True)
            failed |= bool(outcome.wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

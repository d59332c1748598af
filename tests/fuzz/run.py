"""`make fuzz SEED=… CALLS=… OPTIONS=…`: the long run. Prints a table of all calls, and figures; exit code 1 when husk
met an internal fault, or holds more than its caches may."""

from __future__ import annotations

import sys

from tests.fuzz.harness import MOST_DESCRIPTORS, fuzz, show, table


def main(arguments: list[str]) -> int:
    seed, calls = int(arguments[0]), int(arguments[1])
    report = fuzz(seed, calls, options=arguments[2:])
    print(table(report))
    print(show(report))
    for fault, times in report.faults.most_common():
        print(f"{times} times:{fault}")
    leaks = max(report.descriptors, default=0) > MOST_DESCRIPTORS
    return 1 if report.faults or report.calls < calls or leaks else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a box, a unit of a suite, and a piece of work through Dask cost in processor time: figures of docs/scale.md.

    .venv/bin/python bench/cluster_cost.py [--boxes N] [--pieces N] [--suite DIR --file PATH …]

Processor time and not seconds by the clock: it adds up over machines, and says how many fit on a processor.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import husk
from husk.cluster.dask_workers import DaskWorkers
from husk.cluster.work import Stop
from husk.conform.execute.one_unit import run_unit
from husk.conform.execute.where import Where, in_husk, native
from husk.conform.suite_file import read_suite
from husk.conform.suites import kind
from husk.conform.units import Ended, Unit, own_environment

TICK = os.sysconf("SC_CLK_TCK")
WORKERS = 2
THREADS = (1, 32)  # of each worker: many make the scheduler busy, as many machines would


def empty(item: bytes, stop: Stop) -> bytes:
    """Work that is nothing but its way through Dask."""
    return item


def own_seconds() -> float:
    """Of this process, and of all its children that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def seconds_of(pid: int) -> float:
    """Of another process and its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


def cost(title: str, count: int, run: Callable[[], object]) -> None:
    run()  # what only the first one does
    before = own_seconds()
    for _ in range(count):
        run()
    print(f"{title:<56} {1000 * (own_seconds() - before) / count:8.1f} ms")


def boxes(count: int) -> None:
    for setting, namespaces in (("walled", True), ("bare", False)):
        for words in (["true"], ["python3", "-c", "pass"]):

            def run(words: list[str] = words, namespaces: bool = namespaces) -> None:
                with husk.Sandbox(namespaces=namespaces) as box:
                    box.run(words, check=True)

            cost(f"a box of the API, {setting}, {words[0]}", count, run)
    places: list[tuple[str, Where]] = [("natively", native()), ("walled", in_husk()), ("bare", in_husk("bare"))]
    for title, where in places:
        unit = Unit("bench", "commands", "true", ("true",), environment=own_environment())
        cost(f"a unit of a suite, {title}, true", count, lambda unit=unit, where=where: run_unit(unit, where))  # type: ignore[misc]


@contextmanager
def cluster(threads: int) -> Iterator[tuple[str, list[int]]]:
    """The scheduler's address, and the processes: scheduler first. Ended and waited for in the end."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    command = Path(sys.prefix, "bin", "dask")
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "scheduler.json")
        started = [subprocess.Popen(
            [command, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--dashboard-address",
             "127.0.0.1:0", "--scheduler-file", file],
            stderr=subprocess.DEVNULL, env=environment,
        )]  # fmt: skip
        try:
            while not file.exists() or not (address := re.search(r"tcp://[\d.:]+", file.read_text())):
                time.sleep(0.1)
            for _ in range(WORKERS):
                started.append(subprocess.Popen(
                    [command, "worker", address[0], "--nthreads", str(threads), "--no-nanny", "--no-dashboard",
                     "--local-directory", place],
                    stderr=subprocess.DEVNULL, env=environment,
                ))  # fmt: skip
            yield address[0], [process.pid for process in started]
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(60)


def through_dask(count: int, threads: int) -> None:
    with cluster(threads) as (address, pids):
        workers = DaskWorkers(address)
        while len(workers._client.nthreads()) < WORKERS:
            time.sleep(0.1)
        try:
            for size in (1 << 10, 64 << 10):
                list(workers.stream(empty, [b"x" * size] * 200))
                before, mine, began = [seconds_of(pid) for pid in pids], own_seconds(), time.monotonic()
                assert len(list(workers.stream(empty, [b"x" * size] * count))) == count
                took, mine = time.monotonic() - began, own_seconds() - mine
                spent = [seconds_of(pid) - then for pid, then in zip(pids, before, strict=True)]
                print(f"a piece through Dask, {WORKERS} workers of {threads} threads, {size >> 10} KiB each way")
                parts = {"scheduler": spent[0], "worker": sum(spent[1:]), "who asks": mine, "by the clock": took}
                for part, seconds in parts.items():
                    print(f"  {part:<54} {1000 * seconds / count:8.2f} ms")
            print(f"  a worker's memory afterwards {'':<26} {memory_of(pids[1]) >> 20:7} MiB")
        finally:
            workers.close()


def memory_of(pid: int) -> int:
    """Bytes: its own, and its share of what it has in common with others."""
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    return int(found[1]) << 10 if found else 0


def suite(place: Path, wanted: list[str]) -> None:
    """What a case costs: the cases of the files that are named, each file as one unit."""
    found = read_suite(place)

    def ask(unit: Unit) -> Ended:
        return run_unit(unit, native())

    chosen = tuple(one for one in found.files if one.path in wanted or not wanted)
    found = replace(found, files=chosen)
    units = kind(found.kind).units(found, ask)
    cases = sum(len(unit.cases) for unit in units)
    for title, where in (("natively", native()), ("walled", in_husk()), ("bare", in_husk("bare"))):
        before, began = own_seconds(), time.monotonic()
        for unit in units:
            run_unit(unit, where)
        spent, took = own_seconds() - before, time.monotonic() - began
        title = f"{cases} cases in {len(units)} units, {title}"
        print(f"{title:<56} {1000 * spent / cases:8.1f} ms a case, {1000 * took / cases:.1f} by the clock")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--boxes", type=int, default=40)
    parser.add_argument("--pieces", type=int, default=2000)
    parser.add_argument("--suite", type=Path)
    parser.add_argument("--file", action="append", default=[])
    options = parser.parse_args()
    if options.boxes:
        boxes(options.boxes)
    if options.pieces:
        for threads in THREADS:
            through_dask(options.pieces, threads)
    if options.suite:
        suite(options.suite, options.file)


if __name__ == "__main__":
    main()

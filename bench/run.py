"""`make bench`: what husk costs, against the host in the same run. One table; all samples go to bench/results/.

Beside other sandboxes: peers.py. As numbers grow: scale.py.
Never fails: a figure over its target is a verdict to read, and one that cannot be measured says why.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import BUILD, HERE, Command, Meter, Samples, build, in_turn, printed, whole
from report import as_json, human, machine, save, stamp
from snapshots import FEW, SnapshotBench
from store import PYTHON, StoreBench
from subjects import Place, Subject, bubblewrap, husk_subjects
from trees import Trees
from workloads import table

IMAGE_FILE = "/usr/lib/os-release"
MISSING = "/usr/lib/husk-bench-no-such-name"
SCRATCH = BUILD / "scratch"
PROGRAMS = ("python", "node", "gcc", "sh", "subprocess", "spawn")


class Row:
    """One comparison: a subject against a base, and how many times the base it may cost."""

    def __init__(self, name: str, base: str, subject: str, target: float | None = None) -> None:
        self.name, self.base, self.subject, self.target = name, base, subject, target


class Group:
    """Rows that are measured in turn with each other."""

    def __init__(self, title: str, rounds: int) -> None:
        self.title, self.rounds = title, rounds
        self.meters: dict[str, Meter] = {}
        self.rows: list[Row] = []
        self.samples: dict[str, Samples] = {}
        self.prepare: Callable[[], None] = lambda: None
        self.clear: Callable[[], None] = lambda: None

    def compare(self, name: str, base: Meter, subject: Meter, target: float | None = None) -> None:
        self.meters[f"{name}/base"] = base
        self.meters[f"{name}/subject"] = subject
        self.rows.append(Row(name, f"{name}/base", f"{name}/subject", target))


class Plan:
    """Everything that is measured, built from the command that runs husk."""

    def __init__(self, husk: Command, *, quick: bool) -> None:
        self.husk, self.rounds, self.scale = husk, 2 if quick else 5, 10 if quick else 1
        self.place = Place(Path(f"/tmp/husk-bench.{os.getpid()}"))
        self.store = StoreBench(husk, BUILD / "store", self.scale)
        self.snapshots = SnapshotBench(husk, BUILD / "snapshots", self.scale)
        self.groups = [
            self.native_calls(), self.virtual_calls(), self.programs(), self.start(), self.ingests(),
            self.image_starts(), self.forks(), *self.warm(),
        ]  # fmt: skip

    def outside(self, what: str, count: int, *arguments: str) -> Meter:
        return printed([str(BUILD / "calls"), what, "5", str(max(1, count // self.scale)), *arguments])

    def inside(self, what: str, count: int, *arguments: str) -> Meter:
        inner = ["/bench/calls", what, "5", str(max(1, count // self.scale)), *arguments]
        return printed([*self.husk, "run", "--mount", f"{BUILD}:/bench:ro", "--", *inner])

    def native_calls(self) -> Group:
        group = Group("native calls, against the same call outside", self.rounds)
        for what in ("getppid", "read"):
            group.compare(what, self.outside(what, 500_000), self.inside(what, 500_000), 1.1)
        return group

    def virtual_calls(self) -> Group:
        group = Group("virtual calls, against a bare notification round trip", self.rounds)
        echo = printed([str(BUILD / "echo_supervisor"), "5", str(20_000 // self.scale)])
        group.meters["round trip"] = echo
        for name, what, path in (
            ("stat, unchanged image file", "stat", IMAGE_FILE),
            ("stat, missing name", "stat-missing", MISSING),
            ("stat, file in /workspace", "stat-new", "/workspace/bench-stat"),
            ("open+close, unchanged image file", "open", IMAGE_FILE),
            ("open, missing name", "open-missing", MISSING),
            ("open+close, file in /workspace", "open-new", "/workspace/bench-open"),
        ):
            group.meters[name] = self.inside(what, 5_000, path)
            group.rows.append(Row(name, "round trip", name, 3.0))
            # The host's own time has no target; it is in the results for reference.
            host_path = str(SCRATCH / "file") if what.endswith("-new") else path
            group.meters[f"{name}/host"] = self.outside(what, 5_000, host_path)
        return group

    def programs(self) -> Group:
        """Rows of the comparison with other sandboxes: the same commands, with the same bars."""
        group = Group("starting programs inside one box, against outside", self.rounds)
        native = Subject("native", "", list)
        _, cow = husk_subjects(self.husk, self.place)
        trees = Trees(self.place.root, self.scale)
        group.prepare, group.clear = trees.make_small, self.place.remove
        for workload in table(trees, self.place, self.scale):
            if workload.key in PROGRAMS:
                bar = workload.bars[1]
                group.compare(workload.title, workload.meter(native, trees), workload.meter(cow, trees), bar)
        return group

    def start(self) -> Group:
        group = Group("a cold start, against an empty run of the same Python", self.rounds)
        python = whole([f"{sys.prefix}/bin/python3", "-c", "pass"], 5)
        group.compare("husk run -- true", python, whole([*self.husk, "run", "--", "true"], 5), 4.0)
        return group

    def ingests(self) -> Group:
        group = Group(f"the store: a tree of {self.store.files} small files", min(self.rounds, 3))
        group.prepare, group.clear = self.store.prepare, self.store.remove
        group.compare("ingest, against cp -a", self.store.copy(), self.store.ingest(), 1.5)
        group.meters["copy and sync"] = self.store.copy_and_sync()
        group.rows.append(Row("the same, against cp -a and sync", "copy and sync", group.rows[0].subject))
        group.compare("ingest again, against find", self.store.find(), self.store.again(), 3.0)
        return group

    def image_starts(self) -> Group:
        title = f"a cold start from an image of {self.store.image_files} files, against the host's tree"
        group = Group(title, self.rounds)
        group.prepare = self.store.prepare_image  # `clear` of the group above takes this away too
        for name, command in (("true", ["/usr/bin/true"]), ("python3 -S -c pass", [PYTHON, "-S", "-c", "pass"])):
            if os.path.exists(command[0]):
                group.compare(name, self.store.start(*command), self.store.start_image(*command), 1.0)
        return group

    def forks(self) -> Group:
        group = Group("husk fork of a kept box, against 5 ms", min(self.rounds, 3))
        group.prepare, group.clear = self.snapshots.prepare, self.snapshots.remove
        for name, count in (("few", FEW), ("many", self.snapshots.many)):
            group.compare(f"with {count} changed files", self.snapshots.allowed(), self.snapshots.fork(name), 1.0)
        group.compare("started from an image", self.snapshots.allowed(), self.snapshots.fork("image"), 1.0)
        return group

    def warm(self) -> list[Group]:
        bwrap = bubblewrap()
        if bwrap.missing:
            return []
        group = Group("a start in a box kept ready (husk.Pool), against a start of bubblewrap", self.rounds)
        warm = printed([f"{sys.prefix}/bin/python3", str(HERE / "warm_start.py"), "5"])
        group.compare("pool.run true", whole(bwrap.wrap(["/bin/true"]), 5), warm, 2.0)
        return [group]


def lines(group: Group) -> list[str]:
    made = [group.title]
    for row in group.rows:
        base, subject = group.samples[row.base], group.samples[row.subject]
        costs = f"  {row.name:<36}{human(base.median):>12}{human(subject.median):>12}"
        target = f"≤ {row.target:g}×" if row.target else ""
        if base.median and subject.median:
            ratio = subject.median / base.median
            verdict = "" if row.target is None else "ok" if ratio <= row.target else "MISSED"
            made.append(f"{costs}{ratio:>9.2f}×{target:>9}  {verdict}".rstrip())
        else:
            made.append(f"{costs}{'-':>10}{target:>9}  not measured: {subject.failure or base.failure}")
    return made


def record(plan: Plan, when: str) -> dict[str, Any]:
    return {
        "when": when,
        "machine": machine(),
        "groups": [
            {
                "title": group.title,
                "rows": [
                    {"name": row.name, "base": row.base, "subject": row.subject, "target": row.target}
                    for row in group.rows
                ],
                "nanoseconds": {name: as_json(samples) for name, samples in group.samples.items()},
            }
            for group in plan.groups
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure husk against the host.")
    parser.add_argument("--husk", default=f"{sys.prefix}/bin/husk", help="the command that runs husk")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: whether it runs, not how fast")
    options = parser.parse_args()

    build()
    SCRATCH.mkdir(exist_ok=True)
    plan = Plan(shlex.split(options.husk), quick=options.quick)
    print(f"{'median cost of one':<38}{'base':>12}{'here':>12}{'ratio':>10}{'target':>9}  verdict", flush=True)
    for group in plan.groups:
        group.prepare()
        group.samples = in_turn(group.meters, group.rounds)
        print("\n".join(lines(group)), flush=True)
    # Not before: ext4 looks at every inode that was freed in the last minutes before it gives out a new one, which
    # would slow down whatever is measured next.
    for group in plan.groups:
        group.clear()
    when = stamp()
    print(f"all samples: {save(when, record(plan, when))}")


if __name__ == "__main__":
    main()

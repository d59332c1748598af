"""`make bench`: what husk costs, against the host in the same run. One table; all samples go to bench/results/.

Never fails: a figure over its target is a verdict to read, and one that cannot be measured says why.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from measure import BUILD, HERE, Command, Meter, Samples, build, in_turn, printed, whole
from snapshots import FEW, SnapshotBench
from store import PYTHON, StoreBench

IMAGE_FILE = "/usr/lib/os-release"
MISSING = "/usr/lib/husk-bench-no-such-name"
SCRATCH = BUILD / "scratch"
PEERS: dict[str, Command] = {
    # Both show the host's tree as it is, which is the least work for them.
    "bwrap": ["--unshare-all", "--dev-bind", "/", "/", "--"],
    "proot": [],
}


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
        self.store = StoreBench(husk, BUILD / "store", self.scale)
        self.snapshots = SnapshotBench(husk, BUILD / "snapshots", self.scale)
        self.groups = [
            self.native_calls(), self.virtual_calls(), self.programs(), self.start(), self.ingests(),
            self.image_starts(), self.forks(), *self.warm(), *self.peers(),
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
        group = Group("starting programs inside one box, against outside", self.rounds)
        group.compare("posix_spawn+wait /bin/true", self.spawn(200, "/bin/true"), self.spawn_in(200, "/bin/true"), 2.0)
        for path, *arguments in (("/usr/bin/python3", "-c", "pass"), ("/usr/bin/node", "-e", "0")):
            if os.path.exists(path):
                command = [path, *arguments]
                count = 10 if "python" in path else 3
                group.compare(
                    " ".join([os.path.basename(path), *arguments]),
                    self.spawn(count, *command),
                    self.spawn_in(count, *command),
                    1.5,
                )
        return group

    def spawn(self, count: int, *command: str) -> Meter:
        return self.outside("spawn", count, *command)

    def spawn_in(self, count: int, *command: str) -> Meter:
        return self.inside("spawn", count, *command)

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
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            return []
        group = Group("a start in a box kept ready (husk.Pool), against a start of bubblewrap", self.rounds)
        warm = printed([f"{sys.prefix}/bin/python3", str(HERE / "warm_start.py"), "5"])
        group.compare("pool.run true", whole([bwrap, *PEERS["bwrap"], "/bin/true"], 5), warm, 2.0)
        return [group]

    def peers(self) -> list[Group]:
        found = [(name, path) for name in PEERS if (path := shutil.which(name))]
        if not found:
            return []
        starts = Group("for comparison: a cold start of other sandboxes, against /bin/true alone", self.rounds)
        calls = Group("for comparison: name calls in other sandboxes, against outside", self.rounds)
        programs = Group("for comparison: programs in other sandboxes, against outside", self.rounds)
        for name, path in found:
            wrap = [path, *PEERS[name]]
            starts.compare(f"{name} true", whole(["/bin/true"], 5), whole([*wrap, "/bin/true"], 5))
            for what in ("stat", "open"):
                count = str(5_000 // self.scale)
                peer = printed([*wrap, str(BUILD / "calls"), what, "5", count, IMAGE_FILE])
                calls.compare(f"{name}, {what}", self.outside(what, 5_000, IMAGE_FILE), peer)
            spawned = printed([*wrap, str(BUILD / "calls"), "spawn", "5", str(200 // self.scale), "/bin/true"])
            programs.compare(f"{name}, posix_spawn+wait", self.spawn(200, "/bin/true"), spawned)
        return [starts, calls, programs]


def human(nanoseconds: float | None) -> str:
    if nanoseconds is None:
        return "-"
    for unit, size in (("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.2f} {unit}"
    return f"{nanoseconds:.0f} ns"


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


def save(plan: Plan, when: str) -> Path:
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    target = results / f"{when}.json"
    document = {
        "when": when,
        "machine": {"kernel": platform.release(), "python": platform.python_version(), "cores": os.cpu_count()},
        "groups": [
            {
                "title": group.title,
                "rows": [
                    {"name": row.name, "base": row.base, "subject": row.subject, "target": row.target}
                    for row in group.rows
                ],
                "nanoseconds": {
                    name: {"median": samples.median, "failure": samples.failure, "samples": samples.values}
                    for name, samples in group.samples.items()
                },
            }
            for group in plan.groups
        ],
    }
    target.write_text(json.dumps(document, indent=1))
    return target


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
    print(f"all samples: {save(plan, time.strftime('%Y%m%d-%H%M%S'))}")


if __name__ == "__main__":
    main()

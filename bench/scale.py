"""`make bench-scale`: what a call and a box cost as boxes, processes, descriptors, directory entries, files of an image
and changed files grow from ten to a hundred thousand, natively and in husk.

A curve ends where the machine or a limit ends it, or where a point takes too long, and says so. The growth of each is
fitted; "n log n" for all together means that one costs as much as the logarithm of how many there are.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chart
from as_user import Document, Share, arguments, measured
from busy import OPERATIONS, slow_down
from measure import BUILD, ENVIRONMENT, Command, Failed, run, whole
from report import heading, human, publish, sentence
from store import add_program
from subjects import Place, Subject, husk_command, husk_subjects

SIZES = (10, 100, 1_000, 10_000, 100_000)
BOXES = (1, 10, 30, 100, 300)
LONGEST = 10.0  # seconds for a point; the curve ends there
AGAIN = 1.0  # a point that took fewer seconds is measured three times, and the least of each cost counts
SLACK = 2.0  # a single curve on a busy machine moves that much by itself

TITLES = {
    "boxes": "idle boxes in one process", "processes": "processes in a box", "descriptors": "open descriptors",
    "entries": "entries of a directory", "image": "files of an image", "changed": "changed files",
}  # fmt: skip
BUSY = [what for what, _ in OPERATIONS]

Curve = dict[str, Any]


class Growth:
    """All curves: axis, operation, subject, points, and why it ends where it ends."""

    def __init__(self, place: Place, quick: bool) -> None:
        self.place, self.quick = place, quick
        self.until = 0.0  # no further point of this axis begins after that, on the monotonic clock
        self.native, (self.rw, self.cow) = Subject("native", "", list), husk_subjects(husk_command(), place)
        self.curves: dict[tuple[str, str, str], Curve] = {}
        self.program = shutil.copy2(BUILD / "growth", place.root)
        self.calls = shutil.copy2(BUILD / "calls", place.root)

    def add(self, axis: str, operation: str, subject: str, size: int, cost: float) -> None:
        key = (axis, operation, subject)
        fresh: Curve = {"axis": axis, "operation": operation, "subject": subject, "points": [], "ends": ""}
        self.curves.setdefault(key, fresh)["points"].append([size, cost])

    def sizes(self, sizes: tuple[int, ...] = SIZES) -> tuple[int, ...]:
        return sizes[:2] if self.quick else sizes

    def grow(
        self, axis: str, subjects: list[Subject], directory: Callable[[Subject, int], str], most: int = SIZES[-1]
    ) -> None:
        """Run growth.c at every size up to `most`, all subjects in turn, until one has enough."""
        ended: dict[str, str] = {}
        for size in self.sizes():
            if size > most:
                ended |= {subject.name: f"{size:,}: too many for this machine" for subject in subjects}
                break
            for subject in subjects:
                if subject.name in ended:
                    continue
                begin = time.monotonic()
                if begin > self.until:
                    ended[subject.name] = f"{size:,}: out of time"
                    continue
                try:
                    found, used = self.point(subject, axis, size, directory)
                except Failed as failure:
                    ended[subject.name] = f"{size:,}: {failure}"
                    continue
                for operation, cost in found.items():
                    self.add(axis, operation, subject.name, size, cost)
                if axis == "changed":  # all of it is work on each file; other machines' load does not show in it
                    self.add(axis, "processor time", subject.name, size, used / size)
                if time.monotonic() - begin > LONGEST:
                    ended[subject.name] = f"{size:,} took {time.monotonic() - begin:.0f} s"
        for name, why in ended.items():
            self.end(axis, name, why)

    def point(
        self, subject: Subject, axis: str, size: int, directory: Callable[[Subject, int], str]
    ) -> tuple[dict[str, float], float]:
        """What growth.c says of one size, and the processor time it took."""
        found: dict[str, float] = {}
        used = math.inf
        for _ in range(1 if self.quick else 3):
            begin = time.monotonic()
            command = [str(self.program), axis, str(size), directory(subject, size)]
            again, its = figures(subject.wrap(command))
            found = {operation: min(cost, found.get(operation, cost)) for operation, cost in again.items()}
            used = min(used, its)
            if time.monotonic() - begin > AGAIN:
                break
        return found, used

    def end(self, axis: str, subject: str, why: str) -> None:
        print(f"{axis}, {subject}: ends at {why}", flush=True)
        for (its_axis, _, its_subject), curve in self.curves.items():
            if (its_axis, its_subject) == (axis, subject):
                curve["ends"] = why

    # -- axes ------------------------------------------------------------------------------------------------------
    def descriptors(self) -> None:
        self.grow("descriptors", [self.native, self.cow], lambda subject, size: self.directory())

    def processes(self) -> None:
        # The machine is not ours alone: others want to start programs while we do this.
        most = int(Path("/proc/sys/kernel/pid_max").read_text()) // 8
        self.grow("processes", [self.native, self.cow], lambda subject, size: self.directory(), most)

    def changed(self) -> None:
        self.grow("changed", [self.native, self.rw, self.cow], lambda subject, size: self.directory())

    def entries(self) -> None:
        full: dict[int, str] = {}

        def directory(subject: Subject, size: int) -> str:
            if size not in full:
                full[size] = self.directory()
                fill(Path(full[size]), size)
            return full[size]

        self.grow("entries", [self.native, self.rw, self.cow], directory)

    def image(self) -> None:
        """Images of as many files: a start, and what is done with the files."""
        for size in self.sizes():
            begin = time.monotonic()
            if begin > self.until:
                self.end("image", "husk", f"{size:,}: out of time")
                return
            root, store = self.place.home / f"root{size}", str(self.place.home / "store")
            (root / "srv").mkdir(parents=True)
            fill(root / "srv", size)
            add_program(root, str(self.program))
            add_program(root, "/bin/true")
            husk, name = husk_command(), f"files{size}"
            subprocess.run([*husk, "store", "ingest", str(root), "--name", name, "--store", store],
                           env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=False)  # fmt: skip
            start = [*husk, "run", "--store", store, "--image", name, "--"]
            try:
                self.add("image", "start", "husk", size, min(whole([*start, "/bin/true"], 3)()))
                found, _ = figures([*start, str(self.program), "entries", str(size), "/srv"])
                for operation, cost in found.items():
                    self.add("image", operation, "husk", size, cost)
            except Failed as failure:
                self.end("image", "husk", f"{size:,}: {failure}")
                return
            if time.monotonic() - begin > 3 * LONGEST:
                self.end("image", "husk", f"{size:,} took {time.monotonic() - begin:.0f} s")
                return

    def kept(self) -> None:
        """A box that is kept with as many changed files, and `husk diff` of it: the cost of one file."""
        for size in self.sizes():
            begin, name = time.monotonic(), f"kept{size}"
            if begin > self.until:
                self.end("changed", "kept", f"{size:,}: out of time")
                return
            fill_command = f"import os\nfor n in range({size}): open(f'/workspace/e{{n}}', 'w').close()"
            husk = husk_command()
            try:
                run([*husk, "run", "--keep", name, "--", "/usr/bin/python3", "-c", fill_command])
                clock = time.perf_counter_ns()
                run([*husk, "diff", name])
                self.add("changed", "husk diff", "kept", size, (time.perf_counter_ns() - clock) / size)
                clock = time.perf_counter_ns()
                run([*husk, "drop", name])
                self.add("changed", "husk drop", "kept", size, (time.perf_counter_ns() - clock) / size)
            except Failed as failure:
                self.end("changed", "kept", f"{size:,}: {failure}")
                return
            if time.monotonic() - begin > 2 * LONGEST:
                self.end("changed", "kept", f"{size:,} took {time.monotonic() - begin:.0f} s")
                return

    def boxes(self) -> None:
        """Idle boxes of one process: what one more costs to start, and what a call costs in it."""
        import husk  # not before the environment is set

        held: list[husk.Sandbox] = []
        begin = time.monotonic()
        try:
            for size in self.sizes(BOXES):
                while len(held) < size:
                    held.append(husk.Sandbox())
                    held[-1].popen(["/bin/sleep", "600"])
                starts = []
                for _ in range(3):
                    clock = time.perf_counter_ns()
                    with husk.Sandbox() as box:
                        box.run(["/bin/true"], check=True)
                    starts.append(time.perf_counter_ns() - clock)
                self.add("boxes", "start and end", "husk", size, min(starts))
                mounts = [f"{self.place.root}:{self.place.root}:ro"]
                with husk.Sandbox(mounts=mounts) as box:
                    command = [str(self.calls), "stat", "3", "1000", str(self.place.root / "calls")]
                    text = box.run(command, capture_output=True, text=True, check=True).stdout
                    self.add("boxes", "stat", "husk", size, min(map(float, text.partition("cpu")[0].split())))
                if time.monotonic() - begin > 4 * LONGEST or time.monotonic() > self.until:
                    self.end("boxes", "husk", f"{size:,} boxes took {time.monotonic() - begin:.0f} s")
                    break
        except OSError as error:
            self.end("boxes", "husk", f"{len(held)}: {error}")
        finally:
            for box in held:
                box.close()

    def directory(self) -> str:
        made = self.place.fresh()
        os.mkdir(made)
        return made


def fill(directory: Path, count: int) -> None:
    for number in range(count):
        os.close(os.open(directory / f"e{number}", os.O_WRONLY | os.O_CREAT, 0o644))


def figures(command: Command) -> tuple[dict[str, float], float]:
    """Each operation with what one cost, and the processor time of all."""
    text, used = run(command)
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines()}, used


def judged(curves: list[Curve]) -> list[Curve]:
    """With the growth of each: the host's own, for the same operation, is nothing that husk could improve."""
    native = {(one["axis"], one["operation"]): one["points"] for one in curves if one["subject"] == "native"}
    return [curve | {"fit": fit(curve["points"], native.get((curve["axis"], curve["operation"])))} for curve in curves]


def fit(points: list[list[float]], native: list[list[float]] | None = None) -> dict[str, Any]:
    """The exponent k of a cost of one that grows as n to the k, by least squares, and whether the last point is within
    what n log n, or the host's own growth, would allow from the first of at least a hundred."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    if len(logs) < 2:
        return {"exponent": None, "within": True}
    mean_x, mean_y = (sum(axis) / len(logs) for axis in zip(*logs, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    exponent = sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread
    first, last = next((p for p in points if p[0] >= 100), points[0]), points[-1]
    growth = math.log(max(2, last[0])) / math.log(max(2, first[0]))
    there = [next((cost for size, cost in native or [] if size == end[0]), None) for end in (first, last)]
    if there[0] and there[1]:
        growth = max(growth, there[1] / there[0])
    return {"exponent": round(exponent, 2), "within": last[1] <= SLACK * first[1] * max(1.0, growth)}


def lines(curves: list[Curve]) -> Iterator[str]:
    for curve in curves:
        costs = "  ".join(f"{size:,}: {human(cost)}" for size, cost in curve["points"])
        verdict = "" if curve["fit"]["within"] else "  WORSE THAN n log n"
        name = f"{curve['axis']}, {curve['operation']}, {curve['subject']}"
        yield f"{name:<34} n^{curve['fit']['exponent']}{verdict}   {costs}"


def markdown(document: dict[str, Any]) -> str:
    """The curves in numbers, as docs/performance.md has them: what one costs at the least and at the most."""
    made = [*heading(document), ""]
    made += ["| of | operation | where | from | to | grows as | within n log n |", "|---|---|---|---|---|---|---|"]
    for curve in document["curves"]:
        (first, cost), (last, final) = curve["points"][0], curve["points"][-1]
        ends = [f"{human(cost)} ({first:,})", f"{human(final)} ({last:,})"]
        grows = f"n^{curve['fit']['exponent']}" if curve["fit"]["exponent"] is not None else "–"
        within = "yes" if curve["fit"]["within"] else "**no**"
        row = [TITLES[curve["axis"]], curve["operation"], curve["subject"], *ends, grows, within]
        made.append("| " + " | ".join(row) + " |")
    reasons = {(TITLES[one["axis"]], one["subject"], one["ends"].partition(":")[0]) for one in document["curves"]}
    ended = sorted(
        f"{axis} ({subject}) before {size}" for axis, subject, size in reasons if size and "took" not in size
    )
    made += (
        ["", "Curves that end early, because a limit or the machine ends them: " + "; ".join(ended) + "."]
        if ended
        else []
    )
    worse = [
        f"{TITLES[one['axis']]}, {one['operation']} ({one['subject']})"
        for one in document["curves"] if not one["fit"]["within"]
    ]  # fmt: skip
    made += ["", f"Worse than n log n: {'; '.join(worse) or 'none'}."]
    made += ["", "| two at the same time, against one alone | each has | " + " | ".join(BUSY) + " |"]
    made += ["|---|---|" + "---|" * len(BUSY)]
    for manner, name in dict.fromkeys((row["manner"], row["subject"]) for row in document["busy"]):
        mine = {
            row["what"]: f"{row['ratio']:.2f} ({human(row['alone'])})"
            for row in document["busy"] if (row["manner"], row["subject"]) == (manner, name)
        }  # fmt: skip
        made.append(f"| {name} | {manner} | " + " | ".join(mine.get(what, "–") for what in BUSY) + " |")
    return "\n".join(made) + "\n"


def draw(document: dict[str, Any]) -> str:
    panels = []
    for axis, title in TITLES.items():
        mine = [curve for curve in document["curves"] if curve["axis"] == axis]
        shown = {f"{curve['operation']}, {curve['subject']}": curve["points"] for curve in mine}
        # Beside six operations native ones would be noise; the table has them.
        kept = {name: points for name, points in shown.items() if not name.endswith((", native", ", husk rw"))}
        panels.append((title, {name: [(n, c) for n, c in points] for name, points in (kept or shown).items()}))
    foot = [sentence(document["machine"], document["when"])]
    return chart.curves("Cost of one as there are more of them", foot, panels)


def measure(place: Place, options: argparse.Namespace) -> Document:
    os.environ |= {name: ENVIRONMENT[name] for name in ("HUSK_STATE", "HOME", "HUSK_RESIDENT")}
    growth, share = Growth(place, options.quick), Share(options.minutes)
    busy: list[dict[str, Any]] = []

    def two_busy() -> None:
        calls, rounds = str(growth.calls), 1 if options.quick else 3
        busy.extend(slow_down([growth.native, growth.rw], calls, calls, rounds, growth.until))

    # What takes longest comes last, and has the time that the others leave.
    axes = {
        "boxes": growth.boxes, "processes": growth.processes, "descriptors": growth.descriptors, "busy": two_busy,
        "entries": growth.entries, "image": growth.image, "kept": growth.kept, "changed": growth.changed,
    }  # fmt: skip
    chosen = [axis for name, axis in axes.items() if not options.only or name in options.only.split(",")]
    for number, axis in enumerate(chosen):
        growth.until = share.until(len(chosen) - number)
        axis()
    curves = judged(list(growth.curves.values()))
    for line in lines(curves):
        print(line, flush=True)
    for row in busy:
        words = f"two busy, {row['manner']}, {row['what']:<8} {row['subject']:<8}"
        print(f"{words} {human(row['alone'])} alone, {row['ratio']:.2f} × that together", flush=True)
    return {"curves": curves, "busy": busy}


def main() -> None:
    parser = arguments("Measure what calls and boxes cost as their numbers grow.", minutes=10)
    options = parser.parse_args()
    if (document := measured(options, measure)) is not None:
        whole = not (options.only or options.quick)
        publish("scale", document, markdown(document), draw(document), options.out, whole=whole)


if __name__ == "__main__":
    main()

"""`make bench-peers`: the same work natively, in husk, and in the sandboxes that people use instead.

Root starts it again as an ordinary user, because that is who uses sandboxes. Prints a table of ratios to native, and
writes bench/results/peers-DATE.json, the same table as Markdown, and a picture for the README.
Never fails: a sandbox that cannot be had, or a row that cannot be measured, says why.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import chart
import install_peers
from as_user import Document, Share, arguments, measured
from measure import ENVIRONMENT, HERE, Failed, Reading, Samples, in_turn, printed
from memory import memory_rows
from report import as_json, heading, human, publish, sentence, times
from subjects import Place, Subject, find_subjects, husk_command
from trees import Trees
from workloads import Workload, table

PATIENCE = 6.0  # seconds; whatever takes longer is measured once
START = "start"
WARM = "husk warm"
POLLED = "husk rw"  # of this column the gate's poller is shown apart


def main() -> None:
    parser = arguments("Measure husk and other sandboxes against the host.", minutes=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--subjects", default="", help="some columns, by name: bwrap,sandlock; husk is always one")
    parser.add_argument("--no-install", action="store_true", help="take the sandboxes that are there")
    options = parser.parse_args()
    if options.report_to is None and not options.no_install:
        install_peers.main()
    if (document := measured(options, compare)) is not None:
        whole = not (options.only or options.subjects or options.quick)  # some rows alone are no table for the page
        publish("peers", document, markdown(document), draw(document), options.out, whole=whole)


def compare(place: Place, options: argparse.Namespace) -> Document:
    scale, rounds = (50, 1) if options.quick else (1, options.rounds)
    only, columns, share = options.only, options.subjects, Share(options.minutes)
    trees = Trees(place.root, scale)
    trees.make()
    subjects = find_subjects(husk_command(), place)
    if columns:
        wanted = ("native", "husk rw", "husk cow", *columns.split(","))
        subjects = [subject for subject in subjects if subject.name in wanted]
    idle = {subject.name: idle_cost(subject, trees) for subject in subjects}
    for subject in subjects:
        print(f"{subject.name:<10} {subject.version:<28} {subject.missing}".rstrip(), flush=True)
    present = [subject for subject in subjects if not subject.missing]
    chosen = [row for row in table(trees, place, scale) if not only or row.key in only.split(",")]
    print(f"\n{'times native':<34}{'native':>10}" + "".join(f"{s.name:>10}" for s in present[1:]), flush=True)
    # Memory first: it is one row, and must not be what the time is too short for.
    memory = [] if only and "memory" not in only.split(",") else memory_rows(present, count=3 if scale > 1 else 50)
    for words in memory:
        print(f"memory, {words['boxes']} idle box(es), {words['subject']}: {words['mib']} MiB", flush=True)
    rows, left_out = [], []
    for number, workload in enumerate(chosen):
        if time.monotonic() > share.end:
            left_out.append(workload.title)
            continue
        samples = one_row(workload, present, trees, min(rounds, workload.rounds), share.until(len(chosen) - number))
        rows.append(row_record(workload, samples, idle))
        rows[-1]["gate"] = gate_use(workload, present, trees)
        print(row_line(rows[-1], [subject.name for subject in present[1:]]), flush=True)
    known = [{"name": s.name, "version": s.version, "missing": s.missing} for s in subjects]
    return {"subjects": known, "rows": rows, "memory": memory, "left_out": left_out}


def gate_use(workload: Workload, present: list[Subject], trees: Trees) -> dict[str, float] | None:
    """One more run in husk: how many calls came through gates, and what the gate's poller used for each second that the
    program computes. None where the program does not say what it used."""
    husk = next(subject for subject in present if subject.name == POLLED)
    with tempfile.NamedTemporaryFile(prefix="husk-gate-use") as file:
        command = [f"{sys.prefix}/bin/python3", str(HERE / "gate_use.py"), file.name]
        counted = Subject(POLLED, "", lambda inner: [*command, *husk.wrap(inner)[len(husk_command()) :]])
        try:
            got = workload.meter(counted, trees)()
            calls, polled = map(int, file.read().split())
        except (Failed, ValueError):
            return None
    return {"calls": calls, "share": polled / got.guest} if isinstance(got, Reading) and got.guest else None


def idle_cost(subject: Subject, trees: Trees) -> float:
    """What the sandbox itself uses up for a program that does nothing, in nanoseconds; notes why it does not start."""
    if subject.missing:
        return 0.0
    meter = printed_idle(subject, trees)
    samples = in_turn({"idle": meter}, 3)["idle"]
    if samples.failure:
        subject.missing = f"does not start here: {samples.failure}"
        return 0.0
    return statistics.median(own for _, own in samples.processor)


def printed_idle(subject: Subject, trees: Trees) -> Any:
    command = [str(trees.place / "calls"), "getppid", "1", "1"]
    return lambda: printed(subject.wrap(command))()


def one_row(
    workload: Workload, present: list[Subject], trees: Trees, rounds: int, until: float
) -> dict[str, Samples]:
    meters = {subject.name: workload.meter(subject, trees) for subject in present}
    if workload.key == START:
        meters[WARM] = warm_start(present[-1], workload, trees)
    return in_turn(meters, rounds, PATIENCE, until)


def warm_start(husk: Subject, workload: Workload, trees: Trees) -> Any:
    """The same start through a resident husk, which the first of them starts."""
    cold = workload.meter(Subject(WARM, "", lambda command: [*husk_command(), "run", "--", *command]), trees)

    def meter() -> list[float]:
        was = ENVIRONMENT.copy()
        with tempfile.TemporaryDirectory(prefix="husk-run-") as runtime:  # mode 0700
            ENVIRONMENT.update(HUSK_RESIDENT="1", XDG_RUNTIME_DIR=runtime)
            resident = [*husk_command(), "resident"]
            try:
                cold()  # starts it
                deadline = time.monotonic() + 10
                while b"process" not in subprocess.check_output([*resident, "status"], env=ENVIRONMENT):
                    if time.monotonic() > deadline:
                        raise Failed("no resident husk came")
                    time.sleep(0.05)
                time.sleep(0.1)  # asking took the worker that waited
                return cold()
            finally:
                subprocess.run([*resident, "stop"], env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=False)
                ENVIRONMENT.clear()
                ENVIRONMENT.update(was)

    return meter


def row_record(workload: Workload, samples: dict[str, Samples], idle: dict[str, float]) -> dict[str, Any]:
    native = samples["native"].median
    cells = {}
    for name, mine in samples.items():
        cells[name] = as_json(mine) | {"ratio": mine.median / native if mine.median and native else None}
        # What the sandbox adds for each second that the program itself computes.
        shares = [max(0.0, own - idle.get(name, 0.0)) / guest for guest, own in mine.processor if guest > 0]
        cells[name]["own_share"] = statistics.median(shares) if shares else None
    bars = dict(zip(("husk rw", "husk cow"), workload.bars, strict=True))
    if workload.key == START:
        bars[WARM] = 8.0
    return {"key": workload.key, "title": workload.title, "bars": bars, "cells": cells}


def row_line(row: dict[str, Any], names: list[str]) -> str:
    cells = row["cells"]
    line = f"{row['title']:<34}{human(cells['native']['median']):>10}"
    line += "".join(f"{times(cells[name]['ratio']):>10}" for name in names)
    if WARM in cells:
        line += f"   warm {times(cells[WARM]['ratio'])}"
    bar = row["bars"]["husk rw"]
    missed = [name for name, limit in row["bars"].items() if limit and (cells[name]["ratio"] or 0) > limit]
    line += "" if bar is None else f"   ≤ {bar:g}" + (f" missed: {', '.join(missed)}" if missed else "")
    failed = [f"{name}: {cell['failure']}" for name, cell in cells.items() if cell["failure"]]
    return "\n    ".join([line, *failed])


def markdown(document: dict[str, Any]) -> str:
    """The table as docs/performance.md has it."""
    names = [one["name"] for one in document["subjects"] if not one["missing"]][1:]
    versions = ", ".join(f"{one['name']} {one['version']}" for one in document["subjects"][1:] if not one["missing"])
    absent = "; ".join(f"{one['name']}: {one['missing']}" for one in document["subjects"] if one["missing"])
    made = [*heading(document), "", f"Versions: {versions}."]
    absent = "; ".join([*([absent] if absent else []), *(f"{row}: out of time" for row in document["left_out"])])
    made += ["", f"Not measured: {absent}."] if absent else []
    made += ["", "**Times native.** The last column is what husk may cost.", ""]
    made += ["| work | native | " + " | ".join(names) + " | bar |", "|---|---|" + "---|" * len(names) + "---|"]
    for row in document["rows"]:
        cells, bar = row["cells"], row["bars"]["husk rw"]
        ratios = [times(cells[name]["ratio"]) for name in names]
        last = "" if bar is None else f"≤ {bar:g}"
        if WARM in cells:
            ratios[-1] += f", warm {times(cells[WARM]['ratio'])}"
            last += f", warm ≤ {row['bars'][WARM]:g}"
        made.append(f"| {row['title']} | {human(cells['native']['median'])} | " + " | ".join(ratios) + f" | {last} |")
    failed = [
        f"{row['title']} in {name}: {text(cell['failure'])}"
        for row in document["rows"] for name, cell in row["cells"].items() if cell["failure"]
    ]  # fmt: skip
    made += ["", "No figure: " + "; ".join(failed) + "."] if failed else []
    made += ["", "**Processor time of the sandbox itself**, for each second that the program computes. The last two"]
    made += [f"columns: what the gate's poller used of it ({POLLED}), and how many calls came through gates.", ""]
    columns = [*names, "poller", "calls"]
    made += ["| work | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row in document["rows"]:
        shares = [row["cells"][name]["own_share"] for name in names]
        if any(share is not None for share in shares):
            shown = ["–" if share is None else f"{share:.2f}" for share in shares]
            shown += [f"{row['gate']['share']:.2f}", f"{row['gate']['calls']:,}"] if row["gate"] else ["–", "–"]
            made.append(f"| {row['title']} | " + " | ".join(shown) + " |")
    made += ["", "**Memory** besides the program's, with idle programs:", "", "| | MiB |", "|---|---|"]
    for one in document["memory"]:
        made.append(f"| {one['subject']}, {one['boxes']} {'box' if one['boxes'] == 1 else 'boxes'} | {one['mib']} |")
    return "\n".join(made).rstrip() + "\n"


def text(failure: str) -> str:
    """Last words of a program, as part of a sentence on a page: no markup, no names of temporary files."""
    return re.sub(r"[^\w ,:()'=-]+", " ", re.sub(r"/\S+", "…", failure)).strip()


def draw(document: dict[str, Any]) -> str:
    names = [one["name"] for one in document["subjects"] if not one["missing"]][1:]
    rows = [row for row in document["rows"] if row["cells"]["native"]["median"]]
    columns = {name: [row["cells"][name]["ratio"] for row in rows] for name in names}
    versions = [f"{one['name']} {one['version']}" for one in document["subjects"][1:] if not one["missing"]]
    foot = [sentence(document["machine"], document["when"]), ", ".join(versions)]
    return chart.points("Times native, by an ordinary user (left is better)", foot, [r["title"] for r in rows], columns)


if __name__ == "__main__":
    main()

"""`make bench-peers`: the same work natively, in husk, and in the sandboxes that people use instead.

Root starts it again as an ordinary user, because that is who uses sandboxes. Prints a table of ratios to native, and
writes bench/results/peers-DATE.json, the same table as Markdown, and a picture for the README.
Never fails: a sandbox that cannot be had, or a row that cannot be measured, says why.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import chart
import install_peers
from as_user import hand_over, measured_again
from measure import ENVIRONMENT, Failed, Samples, build, in_turn, printed
from memory import memory_rows
from report import PICTURES, RESULTS, as_json, human, machine, save, sentence, stamp, times, write_section
from subjects import Place, Subject, find_subjects, husk_command
from trees import Trees
from workloads import Workload, table

PATIENCE = 6.0  # seconds; whatever takes longer is measured once
START = "start"
WARM = "husk warm"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure husk and other sandboxes against the host.")
    parser.add_argument("--quick", action="store_true", help="hardly any work: whether it runs, not how fast")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=6.0, help="after these, a round for each row has to do")
    parser.add_argument("--only", default="", help="some rows, by their keys: stat,find")
    parser.add_argument("--subjects", default="", help="some columns, by name: bwrap,sandlock; husk is always one")
    parser.add_argument("--no-install", action="store_true", help="take the sandboxes that are there")
    parser.add_argument("--out", type=Path, help="write all files there, and no picture for the README")
    parser.add_argument("--report-to", type=Path, help=argparse.SUPPRESS)  # this is the ordinary user's process
    options = parser.parse_args()
    if options.report_to:
        measure(options)
        return
    if not options.no_install:
        install_peers.main()
    build()
    publish(measured_again(), options.out)


def publish(document: dict[str, Any], out: Path | None) -> None:
    target = save(f"peers-{document['when']}", document, out or RESULTS)
    target.with_suffix(".md").write_text(markdown(document))
    picture = (out or PICTURES) / "peers.svg"
    picture.write_text(draw(document))
    if out is None and len(document["rows"]) > 20:  # some rows alone are no table for the page
        write_section("peers", markdown(document))
    print(f"all samples: {target}\npicture: {picture}")


def measure(options: argparse.Namespace) -> None:
    scale, rounds = (50, 1) if options.quick else (1, options.rounds)
    place = Place(Path(f"/tmp/husk-bench.{os.getpid()}"))
    os.chdir(place.root)
    try:
        document = compare(place, options, scale, rounds)
    finally:
        os.chdir("/")
        place.remove()
    hand_over(document, options.report_to)


def compare(place: Place, options: argparse.Namespace, scale: int, rounds: int) -> dict[str, Any]:
    only, columns, deadline = options.only, options.subjects, time.monotonic() + 60 * options.minutes
    when, about = stamp(), machine()
    trees = Trees(place.root, scale)
    trees.make()
    ENVIRONMENT["HUSK_RESIDENT"] = "0"  # a helper's processor time would be nobody's; the warm start has its own column
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
    rows = []
    for workload in chosen:
        left = 1 if time.monotonic() > deadline else min(rounds, workload.rounds)
        samples = one_row(workload, present, trees, left)
        rows.append(row_record(workload, samples, idle))
        print(row_line(rows[-1], [subject.name for subject in present[1:]]), flush=True)
    memory = [] if only else memory_rows(present, count=3 if scale > 1 else 50)
    for words in memory:
        print(f"memory, {words['boxes']} idle box(es), {words['subject']}: {words['mib']} MiB", flush=True)
    known = [{"name": s.name, "version": s.version, "missing": s.missing} for s in subjects]
    return {"when": when, "machine": about, "subjects": known, "rows": rows, "memory": memory}


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


def one_row(workload: Workload, present: list[Subject], trees: Trees, rounds: int) -> dict[str, Samples]:
    meters = {subject.name: workload.meter(subject, trees) for subject in present}
    if workload.key == START:
        meters[WARM] = warm_start(present[-1], workload, trees)
    return in_turn(meters, rounds, PATIENCE)


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
    made = [sentence(document["machine"], document["when"]) + ".", "", f"Versions: {versions}."]
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
    made += ["", "**Processor time of the sandbox itself**, for each second that the program computes:", ""]
    made += ["| work | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for row in document["rows"]:
        shares = [row["cells"][name]["own_share"] for name in names]
        if any(share is not None for share in shares):
            shown = ["–" if share is None else f"{share:.2f}" for share in shares]
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

"""What a benchmark leaves: figures for people, JSON with every sample, and what machine it was."""

from __future__ import annotations

import json
import os
import platform
import resource
import time
from pathlib import Path
from typing import Any

from measure import HERE, Samples

RESULTS = HERE / "results"
PICTURES = HERE.parent / "docs" / "pictures"
PAGE = HERE.parent / "docs" / "performance.md"
BUSY = 0.2  # processors that other programs used


def human(nanoseconds: float | None) -> str:
    if nanoseconds is None:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.2f} {unit}"
    return f"{nanoseconds:.0f} ns"


def times(ratio: float | None) -> str:
    """A ratio with as many digits as it deserves."""
    if ratio is None:
        return "–"
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"


def machine() -> dict[str, Any]:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "begun": [time.monotonic(), *_processor_seconds()],
    }


def machine_afterwards(about: dict[str, Any]) -> dict[str, Any]:
    """The same, when all is measured: with the load now, and how many processors other programs used meanwhile."""
    now = [time.monotonic(), *_processor_seconds()]
    wall, all_of_it, own = (late - early for late, early in zip(now, about["begun"], strict=True))
    return about | {"load_after": os.getloadavg()[0], "others": max(0.0, all_of_it - own) / wall}


def _processor_seconds() -> tuple[float, float]:
    """What all programs of this machine used so far (and other machines on the same hardware took), and what this one
    and all it waited for used."""
    words = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[:8])
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    used = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return used, sum(usage.ru_utime + usage.ru_stime for usage in own)


def sentence(about: dict[str, Any], when: str) -> str:
    """One line below a table or a picture."""
    date = f"{when[:4]}-{when[4:6]}-{when[6:8]}"
    load = f"load {about['load']:.1f} before and {about['load_after']:.1f} after"
    return (
        f"{date}: {about['cores']} processors ({about['processor']}), Linux {about['kernel']}, "
        f"Python {about['python']}, {load}; other programs used {about['others']:.2f} processors meanwhile"
    )


def is_loaded(about: dict[str, Any]) -> bool:
    """The load afterwards is the benchmark's own, too: it says nothing."""
    return bool(about["others"] > BUSY or about["load"] > 0.5 * about["cores"])


def heading(document: dict[str, Any]) -> list[str]:
    """What stands above a table: which machine, and whether it had other work."""
    about = document["machine"]
    made = [sentence(about, document["when"]) + "."]
    if is_loaded(about):
        made += ["", "**The machine was loaded.** Rows that need two processors suffer most: measure on an idle one."]
    return made


def as_json(samples: Samples) -> dict[str, Any]:
    return {
        "median": samples.median,
        "failure": samples.failure,
        "samples": samples.values,
        "processor": samples.processor,
    }


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Put a table between the two comments that name it on the page; what stands around it is people's."""
    before, begin, rest = page.read_text().partition(f"<!-- {name}: written by make bench-{name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->")
    if not (begin and end):
        raise ValueError(f"{page} has no section {name}")
    page.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}")


def publish(name: str, document: dict[str, Any], table: str, picture: str, out: Path | None, *, whole: bool) -> None:
    """Write the samples, the table and the picture; of a `whole` run also those of the documentation."""
    target = save(f"{name}-{document['when']}", document, out or RESULTS)
    target.with_suffix(".md").write_text(table)
    drawing = (out or (PICTURES if whole else RESULTS)) / f"{name}.svg"
    drawing.write_text(picture)
    if out is None and whole:
        write_section(name, table)
    print(f"all samples: {target}\npicture: {drawing}")


def stamp() -> str:
    return time.strftime("%Y%m%d-%H%M%S")


def save(name: str, document: dict[str, Any], results: Path = RESULTS) -> Path:
    results.mkdir(exist_ok=True)
    target = results / f"{name}.json"
    target.write_text(json.dumps(document, indent=1))
    return target

"""What a benchmark leaves: figures for people, JSON with every sample, and what machine it was."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from measure import HERE, Samples

RESULTS = HERE / "results"
PICTURES = HERE.parent / "docs" / "pictures"
PAGE = HERE.parent / "docs" / "performance.md"


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
    }


def sentence(about: dict[str, Any], when: str) -> str:
    """One line below a table or a picture."""
    date = f"{when[:4]}-{when[4:6]}-{when[6:8]}"
    return (
        f"{date}: {about['cores']} processors ({about['processor']}), Linux {about['kernel']}, "
        f"Python {about['python']}, load {about['load']:.1f} at the start"
    )


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


def stamp() -> str:
    return time.strftime("%Y%m%d-%H%M%S")


def save(name: str, document: dict[str, Any], results: Path = RESULTS) -> Path:
    results.mkdir(exist_ok=True)
    target = results / f"{name}.json"
    target.write_text(json.dumps(document, indent=1))
    return target

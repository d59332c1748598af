"""How a benchmark begins and ends: its options, a place to work in, and its files.

Root starts it again as an ordinary user, because that is who uses sandboxes. The second process measures and leaves one
document; the first takes it to where root may write.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import ENVIRONMENT, HERE, build
from reachable import NOBODY, ordinary_user
from report import machine, machine_afterwards, stamp
from subjects import Place

FILE = "document.json"

Document = dict[str, Any]


class Share:
    """How long pieces of work may take, one after the other. What one leaves is for those that follow."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + 60 * minutes

    def until(self, pieces: int) -> float:
        """When the next of so many pieces has to end, on the monotonic clock."""
        now = time.monotonic()
        return now + max(0.0, self.end - now) / pieces


def arguments(description: str, minutes: float) -> argparse.ArgumentParser:
    """The options that all have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="hardly any work: whether it runs, not how fast")
    parser.add_argument("--minutes", type=float, default=minutes, help="what cannot begin by then is left out")
    parser.add_argument("--only", default="", help="some rows or axes, by their names: stat,find")
    parser.add_argument("--out", type=Path, help="write all files there, and none of the documentation's")
    parser.add_argument("--report-to", type=Path, help=argparse.SUPPRESS)  # this is the ordinary user's process
    return parser


def measured(options: argparse.Namespace, measure: Callable[[Place, argparse.Namespace], Document]) -> Document | None:
    """What `measure` found, with date and machine; None in the process that measures, which ends then."""
    if options.report_to is None:
        build()
        return _measured_again()
    when, about = stamp(), machine()
    place = Place(Path(f"/tmp/husk-bench.{os.getpid()}"))
    # A resident's processor time would belong to no run. The warm start has a column of its own.
    ENVIRONMENT["HUSK_RESIDENT"] = "0"
    os.chdir(place.root)
    try:
        found = measure(place, options)
    finally:
        os.chdir("/")
        place.remove()
    document = {"when": when, "machine": machine_afterwards(about), **found}
    (options.report_to / FILE).write_text(json.dumps(document))
    return None


def _measured_again() -> Document:
    """The document of a process that runs this command with --report-to, as an ordinary user where this one is root."""
    with tempfile.TemporaryDirectory(prefix="husk-bench-report") as report:
        command = [sys.executable, *sys.argv, "--report-to", report]
        if os.getuid() == 0:
            os.chown(report, NOBODY, NOBODY)
            command = [*ordinary_user(HERE.parent), f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}", *command]
        if subprocess.run(command, check=False).returncode:
            sys.exit("bench: measuring failed; its last words are above")
        document: Document = json.loads(Path(report, FILE).read_text())
        return document

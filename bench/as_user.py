"""Root starts a benchmark again as an ordinary user, because that is who uses sandboxes.

The second process measures and leaves one document; the first takes it to where root may write.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import HERE
from reachable import NOBODY, ordinary_user

FILE = "document.json"


def measured_again() -> dict[str, Any]:
    """The document of a process that runs this command with --report-to, as an ordinary user where this one is root."""
    with tempfile.TemporaryDirectory(prefix="husk-bench-report") as report:
        command = [sys.executable, *sys.argv, "--report-to", report]
        if os.getuid() == 0:
            os.chown(report, NOBODY, NOBODY)
            command = [*ordinary_user(HERE.parent), f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}", *command]
        if subprocess.run(command, check=False).returncode:
            sys.exit("bench: measuring failed; its last words are above")
        document: dict[str, Any] = json.loads(Path(report, FILE).read_text())
        return document


def hand_over(document: dict[str, Any], report: Path) -> None:
    (report / FILE).write_text(json.dumps(document))

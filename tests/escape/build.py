"""Compiles one of the hostile programs beside this file, by the `build:` line in its head."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.lib.build_guests import BASE_FLAGS, SOURCES


def compile_program(source: Path, target: Path) -> None:
    line = re.search(r"\bbuild: (\S+)(.*)", source.read_text())
    assert line, f"{source} has no build line"
    command = ["gcc", *BASE_FLAGS, f"-I{SOURCES}", "-o", str(target / line[1]), str(source), *line[2].split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode and not done.stderr, done.stderr

"""conform: write the suite file of what was built. docs/formats/suite.md has the format."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from husk.conform.builders.program_families import family_of
from husk.conform.suite_file import FORMAT

# What gVisor's runner tells a program that runs on Linux itself: the machine can do all of this.
_ENVIRONMENT = {
    "GVISOR_PLATFORM_SUPPORT": "32BIT:TRUE,ALIGNMENT_CHECK:TRUE,INT3:TRUE,MULTIPROCESS:TRUE,VSYSCALL:TRUE",
}
# Seconds for a process of a program that its BUILD file calls large; without a word, the suite's.
_SECONDS = {"large": 180, "enormous": 300}
_TIMEOUT = 60


@dataclass(frozen=True)
class SuiteProgram:
    name: str
    size: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    skip: str = ""


def write_suite(path: Path, programs: list[SuiteProgram], version: str) -> None:
    """Wholly or not at all: an interrupted build leaves the file of the one before."""
    title = "gVisor's system call tests"
    lines = [
        "# Written by `husk conform build gvisor`.",
        f"format = {FORMAT}",
        'name = "gvisor"',
        'kind = "googletest"',
        f"title = {_text(title)}",
        f"source = {_text(f'gVisor {version}'.strip())}",
        f"timeout = {_TIMEOUT}",
        f"environment = {_table(_ENVIRONMENT)}",
    ]
    for program in programs:
        lines += ["", "[[files]]", f"path = {_text(program.name)}"]
        lines.append(f"family = {_text(family_of(program.name))}")
        if program.size in _SECONDS:
            lines.append(f"timeout = {_SECONDS[program.size]}")
        if program.environment:
            lines.append(f"environment = {_table(program.environment)}")
        if program.skip:
            lines.append(f"skip = {_text(program.skip)}")
    beside = path.with_name(path.name + ".new")
    beside.write_text("\n".join(lines) + "\n")
    os.replace(beside, path)


def _text(value: str) -> str:
    """A JSON string with nothing but ASCII in it is a basic string of TOML too."""
    return json.dumps(value)


def _table(values: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{_text(key)} = {_text(value)}" for key, value in values.items()) + " }"

"""Take the blocks of a page: what a reader would copy."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from tests.lib.running import husk_command

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"


def blocks(page: str, kind: str = "") -> list[str]:
    """The code blocks of that kind, without their fences."""
    text = (HOWTO / page).read_text()
    found = [block.split("\n", 1) for block in text.split("```")[1::2]]
    return [body for name, body in found if name == kind]


def commands(page: str) -> list[list[str]]:
    """The commands of its plain blocks, as words. `$ ` begins a command where the block shows output, too."""
    lines = [line for block in blocks(page) for line in block.splitlines()]
    shown = any(line.startswith("$ ") for line in lines)
    return [shlex.split(line.removeprefix("$ ")) for line in lines if line.startswith("$ ") or not shown]


def husk(words: list[str], place: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A command of a page, in a project's directory."""
    assert words[0] == "husk"
    return subprocess.run(
        [*husk_command(), *words[1:]],
        cwd=place,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

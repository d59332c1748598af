"""docs/skills.md, typed in: every command of its blocks, in order, in one empty directory.

`…` at the start of a line stands for any lines, or none; at its end, for the rest of the line. `! exit code N` after
the output says how the command ends; without it, with 0.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib import running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "skills.md"


def commands(text: str) -> Iterator[tuple[str, list[str], int]]:
    """(command, lines it prints, exit code)"""
    for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        for piece in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *printed = piece.rstrip("\n").split("\n")
            code = 0
            if printed and (found := re.fullmatch(r"! exit code (\d+)", printed[-1])):
                code = int(found[1])
                printed.pop()
            yield command, printed, code


def pattern(lines: list[str]) -> str:
    parts = []
    for line in lines:
        if line == "…":
            parts.append(r"(?:.*\n)*")
        elif line.endswith("…"):
            parts.append(re.escape(line[:-1]) + r".*\n")
        else:
            parts.append(re.escape(line) + r"\n")
    return "".join(parts)


@pytest.mark.needs("python3")
def test_the_page_tells_what_happens(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    husk = tmp_path / "bin" / "husk"
    husk.write_text(f'#!/bin/sh\nexec {" ".join(running.husk_command())} "$@"\n')
    husk.chmod(0o755)
    place = tmp_path / "page"
    place.mkdir()
    keep = {key: value for key, value in os.environ.items() if key in ("PYTHONPATH", "LANG")}
    env = keep | {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "HUSK_STATE": str(tmp_path / "state")}
    count = 0
    for command, printed, code in commands(PAGE.read_text()):
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1; {command}"], cwd=place, env=env, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == code, f"$ {command}\n{done.stdout}"
        shown = done.stdout if done.stdout.endswith("\n") or not done.stdout else f"{done.stdout}\n"
        assert re.fullmatch(pattern(printed), shown), f"$ {command}\n{shown}\nis not\n" + "\n".join(printed)
        count += 1
    assert count > 12


def test_a_page_that_is_wrong_would_be_noticed() -> None:
    assert list(commands("```\n$ a\nx\n! exit code 3\n$ b\n```\n")) == [("a", ["x"], 3), ("b", [], 0)]
    assert re.fullmatch(pattern(["a…", "…", "c"]), "ab\n\nx\nc\n")
    assert not re.fullmatch(pattern(["a", "…", "c"]), "ab\nc\n")

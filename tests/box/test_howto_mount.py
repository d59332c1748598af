"""docs/howto/add-a-mount-type.md, step by step, in a copy of husk: its files, its edits, its commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import husk
from husk.sandbox.policy import MODES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "howto" / "add-a-mount-type.md").read_text()
BLOCKS = re.findall(r"^```(?:python)?\n(.*?)^```$", PAGE, re.M | re.S)
MODULE, MODE_LINE, IN_MOUNT, COMMANDS, PRINTED = BLOCKS


def insert_after(path: Path, pattern: str, text: str) -> None:
    source = path.read_text()
    (found,) = re.finditer(pattern, source, re.M)
    path.write_text(source[: found.end()] + text + source[found.end() :])


@pytest.fixture
def changed_husk(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH with the steps of the page done."""
    copy = tmp_path / "path" / "husk"
    shutil.copytree(Path(husk.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "vfs" / "ziptree.py").write_text(MODULE)
    policy = copy / "sandbox" / "policy.py"
    policy.write_text(re.sub(r"^MODES = .*\n", MODE_LINE, policy.read_text(), count=1, flags=re.M))
    insert_after(copy / "sandbox" / "filesystem.py", r"^def _mount\((?:.*\n)*?    source, target = .*\n", IN_MOUNT)
    return tmp_path / "path"


def undated(listing: str) -> str:
    return re.sub(r" [A-Z][a-z]{2} +\d+ +[\d:]+ ", " DATE ", listing)


def test_the_steps_of_the_page(tmp_path: Path, changed_husk: Path) -> None:
    setup, pack, run = COMMANDS.splitlines()
    assert setup == "make setup" and re.findall(r'"(\w+)"', MODE_LINE) == [*MODES, "zip"]
    script = f"{pack}\n{run}".replace("/tmp/z.zip", str(tmp_path / "z.zip"))
    script = script.replace("python3", sys.executable).replace(".venv/bin/husk", f"{sys.executable} -m husk.cli")
    env = os.environ | {"PYTHONPATH": str(changed_husk), "HUSK_STATE": str(tmp_path / "state"), "LC_ALL": "C"}
    done = subprocess.run(["sh", "-ec", f"exec 2>&1\n{script}"], cwd=ROOT, env=env, capture_output=True, text=True)
    assert undated(done.stdout) == undated(PRINTED)

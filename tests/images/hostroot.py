"""A small root for images, from the host's own files: programs with the libraries they need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path


def add_file(root: Path, path: str) -> None:
    """A host file at the place the host has it, with all links on the way made plain."""
    target = root / path.lstrip("/")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(path), target)


def add_programs(root: Path, *programs: str) -> None:
    for program in programs:
        found = shutil.which(program)
        assert found, f"{program} is not there"
        add_file(root, found)
        if not found.startswith("/bin/"):
            add_file_as(root, found, f"/bin/{os.path.basename(found)}")
        listed = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", listed):
            add_file(root, library)


def add_file_as(root: Path, path: str, name: str) -> None:
    target = root / name.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(os.path.realpath(path), target)


def add_tree(root: Path, path: str, *left_out: str) -> None:
    """A host directory, links made plain, but for names like those in `left_out`."""
    shutil.copytree(path, root / path.lstrip("/"), symlinks=False, ignore=shutil.ignore_patterns(*left_out))

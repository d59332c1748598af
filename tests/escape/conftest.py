"""Shared by the escape tests: the hostile programs, compiled once for all of them, and a place to play in."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.guest.build import BASE_FLAGS, SOURCES
from tests.guest.running import scratch

HERE = Path(__file__).resolve().parent


def _compile(source: Path, target: Path) -> None:
    line = re.search(r"\bbuild: (\S+)(.*)", source.read_text())
    assert line, f"{source} has no build line"
    command = ["gcc", *BASE_FLAGS, f"-I{SOURCES}", "-o", str(target / line[1]), str(source), *line[2].split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode and not done.stderr, done.stderr


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    with scratch() as place:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda source: _compile(source, place), sorted(HERE.glob("*.c"))))
        yield place


@pytest.fixture
def place() -> Iterator[Path]:
    with scratch() as directory:
        yield directory

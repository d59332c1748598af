"""Shared by the escape tests: the hostile programs, compiled once for all of them, and a place to play in."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.escape.build import compile_program
from tests.lib.running import scratch

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    with scratch() as place:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda source: compile_program(source, place), sorted(HERE.glob("*.c"))))
        yield place


@pytest.fixture
def place() -> Iterator[Path]:
    with scratch() as directory:
        yield directory

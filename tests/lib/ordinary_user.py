"""husk started by an ordinary user, when root runs the tests; tools/reachable.py says how."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pytest

from reachable import NOBODY as NOBODY
from reachable import ordinary_user
from tests.lib.running import husk_command

CHECKOUT = Path(__file__).resolve().parents[2]


def as_ordinary_user(uid: int = NOBODY) -> list[str]:
    """The start of a command that `uid` executes, husk above all. Skips the test where it would not be executed."""
    assert os.getuid() == 0, "only root can become another user"
    start = ordinary_user(CHECKOUT, uid=uid)
    if problem := _problem(tuple(start)):
        pytest.skip(f"an ordinary user cannot execute husk here: {problem}")
    return start


@functools.cache
def _problem(start: tuple[str, ...]) -> str:
    """Why husk cannot be executed so; empty: it can."""
    done = subprocess.run([*start, *husk_command(), "--version"], capture_output=True, text=True, check=False)
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode else ""

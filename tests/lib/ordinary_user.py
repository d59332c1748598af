"""husk started by an ordinary user, when root runs the tests.

The checkout, or the Python that its environment was made with, often lies where only root can enter: /root/.pyenv, for
example. For such a run the closed directory is covered, in a mount namespace of its own, by an open one that holds
nothing but what husk needs. The files stay the same, and husk is executed under its own path.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lib.running import husk_command

NOBODY = 65534
CHECKOUT = Path(__file__).resolve().parents[2]

# Arguments: the closed directory, what is needed below it, "--", the command. A second mount keeps the closed directory
# within reach while it is covered.
_OPEN = """
closed=$1 aside=$(mktemp -d) && shift || exit 125
mount --rbind "$closed" "$aside" && mount -t tmpfs -o mode=755 none "$closed" || exit 125
while [ "$1" != -- ]; do
    mkdir -p "$1" && mount --rbind "$aside/${1#"$closed"/}" "$1" && shift || exit 125
done
umount -l "$aside" && rmdir "$aside" && shift && exec "$@"
"""


def as_ordinary_user(uid: int = NOBODY) -> list[str]:
    """The start of a command that `uid` executes, husk above all. Skips the test where it would not be executed."""
    assert os.getuid() == 0, "only root can become another user"
    # setpriv itself keeps root's capabilities until it has executed something: hence env.
    start = [*_reachable(), "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", "env"]
    if problem := _problem(tuple(start)):
        pytest.skip(f"an ordinary user cannot execute husk here: {problem}")
    return start


@functools.cache
def _problem(start: tuple[str, ...]) -> str:
    """Why husk cannot be executed so; empty: it can."""
    done = subprocess.run([*start, *husk_command(), "--version"], capture_output=True, text=True, check=False)
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode else ""


@functools.cache
def _reachable() -> tuple[str, ...]:
    """A command that makes the checkout, the environment and the Python behind it reachable for what follows it."""
    needed: dict[Path, list[str]] = {}
    for place in (CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)):
        if closed := _closed(place.resolve()):
            needed.setdefault(closed, []).append(str(place.resolve()))
    command: list[str] = []
    for closed, places in needed.items():
        command += ["unshare", "--mount", "--", "sh", "-c", _OPEN, "sh", str(closed), *places, "--"]
    return tuple(command)


def _closed(place: Path) -> Path | None:
    """The topmost directory on the way that others may not search; None: they can reach `place`."""
    way = [*reversed(place.parents), place]
    return next((folder for folder in way if not folder.stat().st_mode & 0o001), None)

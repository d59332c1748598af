"""conform/history: git, as bisecting and publishing use it: without questions and hooks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from husk.sandbox.errors import HuskError

PATIENCE = 600.0  # seconds for one command: a push over a slow line, a clone of a large repository


class CommandFailed(HuskError):
    """git, or another program, ended with an error. `said` is what it printed about it."""

    def __init__(self, words: list[str], said: str) -> None:
        self.said = said.strip()
        super().__init__(f"`{' '.join(words)}` failed: {_short(self.said)}")


def _short(said: str) -> str:
    """The line that tells: git says `fatal:` or `error:` after whatever it had to say before."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:", "remote: error"))]
    return (telling or lines or ["it said nothing"])[0].rstrip(".") + "."


# What `git rev-parse --local-env-vars` lists: variables that lead a git to one repository.
_OF_A_REPOSITORY = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR",
)  # fmt: skip


def environment() -> dict[str, str]:
    """Of the caller, but for what points to a repository: inside a hook, GIT_DIR would lead to another one."""
    ours = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    return ours | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def git(directory: Path, *words: str, more: Mapping[str, str] | None = None) -> str:
    """What it printed, without the end of the last line. CommandFailed: it failed, or took too long."""
    command = ["git", "-C", str(directory), "-c", "core.hooksPath=/dev/null", *words]
    return run_program(command, directory, shown=["git", *words], more=more)


def run_program(
    words: list[str], directory: Path, *, shown: list[str] | None = None, more: Mapping[str, str] | None = None
) -> str:
    shown = shown or words
    try:
        done = subprocess.run(
            words, cwd=directory if directory.is_dir() else None, env=environment() | dict(more or {}),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CommandFailed(shown, f"no end after {PATIENCE:.0f} seconds") from None
    except OSError as error:
        raise CommandFailed(shown, f"{error.strerror}; install {words[0]}") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout).decode(errors="replace")
        raise CommandFailed(shown, said or f"exit code {done.returncode}")
    return done.stdout.decode(errors="replace").rstrip("\n")

"""compat: prefixes, the commands that start a program somewhere else (`bwrap …`, `husk run`): their words, and how
directories and variables are shown inside, for sandboxes that husk knows.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from husk.sandbox.errors import UsageError


def split_prefix(option: str, text: str) -> list[str]:
    """The words, split as a shell would; `option` is where the text was given."""
    try:
        return with_own_husk(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}; quote it as for a shell.") from None


def with_own_husk(words: Sequence[str]) -> list[str]:
    """`husk` as the first word means this husk, also where no shell would find it."""
    beside = os.path.join(sys.prefix, "bin", "husk")
    if words and words[0] == "husk" and shutil.which("husk") is None and os.access(beside, os.X_OK):
        return [beside, *words[1:]]
    return list(words)


def before_dashes(words: Sequence[str], more: Sequence[str]) -> list[str]:
    """Options go before a `--` at the end of a prefix."""
    return [*words[:-1], *more, "--"] if list(words[-1:]) == ["--"] else [*words, *more]


@dataclass(frozen=True)
class Shown:
    """What a program needs to find in a sandbox: host directories at their own paths, where it starts, variables."""

    read_only: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    workdir: str = ""  # one of them; empty: the sandbox's choice
    environment: tuple[tuple[str, str], ...] = ()


def show_paths(option: str, words: Sequence[str], shown: Shown) -> list[str]:
    """The prefix, with options that show all of `shown`, for sandboxes that husk knows. Other programs (strace, nice,
    runsc do) pass files, working directory and variables on. `option` is where the prefix was given."""
    tool = os.path.basename(words[0]) if words else ""
    module = list(words[1:3]) in (["-m", "husk"], ["-m", "husk.cli"])
    if tool == "husk" or module:
        at = 3 if module else 1
        if list(words[at : at + 1]) != ["run"]:
            raise UsageError(f"{option} 'husk …': a command is run by `husk run`; write {option} 'husk run'.")
        more = [
            *_each("--mount", [f"{path}:{path}:ro" for path in shown.read_only]),
            *_each("--mount", [f"{path}:{path}:rw" for path in shown.writable]),
            *(["--workdir", shown.workdir] if shown.workdir else []),
            *_each("--env", [f"{name}={value}" for name, value in shown.environment]),
        ]
        return [*words[: at + 1], *more, *words[at + 1 :], *([] if "--" in words else ["--"])]
    if tool in ("bwrap", "bubblewrap"):
        more = [word for path in shown.read_only for word in ("--ro-bind", path, path)]
        more += [word for path in shown.writable for word in ("--bind", path, path)]
        return before_dashes(words, [*more, *(["--chdir", shown.workdir] if shown.workdir else [])])
    if tool == "proot":
        more = _each("-b", [*shown.read_only, *shown.writable])
        return before_dashes(words, [*more, *(["-w", shown.workdir] if shown.workdir else [])])
    if tool in ("docker", "podman") and "run" in words:
        at = list(words).index("run") + 1
        more = [
            *_each("--volume", [f"{path}:{path}:ro" for path in shown.read_only]),
            *_each("--volume", [f"{path}:{path}" for path in shown.writable]),
            *(["--workdir", shown.workdir] if shown.workdir else []),
            *_each("--env", [f"{name}={value}" for name, value in shown.environment]),
        ]
        return [*words[:at], *more, "--entrypoint", "", *words[at:]]
    return list(words)


def _each(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]

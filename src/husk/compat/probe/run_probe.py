"""compat/probe: runs husk-probe, natively or inside another sandbox, and collects its results.

Here: the command line that shows the program to a sandbox and starts it there. Not here: what its lines mean
(probe_lines.py).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches

from husk.compat.prefixes import Shown, show_paths, split_prefix
from husk.compat.probe.probe_lines import Check, Head, Result, read_check, read_head, read_result
from husk.sandbox.errors import HuskError, UsageError

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(FOLDER, "husk-probe")

PATIENCE = 600.0  # seconds for the whole: only a sandbox that hangs takes as long
MOST_OUTPUT = 8 << 20  # bytes; the program prints a hundredth of it


@dataclass(frozen=True)
class Measurement:
    """One run of the program. `command` is what it was run under; empty: natively."""

    command: str
    head: Head
    results: tuple[Result, ...]

    @property
    def missing(self) -> int:
        """Checks that were asked for and have no result: the program ended early."""
        return max(0, self.head.checks - len(self.results))


def list_checks() -> list[Check]:
    """Every check the program has."""
    lines = subprocess.run([PROGRAM, "--list"], check=True, stdout=subprocess.PIPE).stdout.decode().splitlines()
    return [check for line in lines if (check := read_check(line))]


def check_names(calls: Sequence[str], checks: Sequence[Check]) -> None:
    known = list(dict.fromkeys(check.call for check in checks))
    for call in calls:
        if call not in known:
            near = get_close_matches(call, known, 3)
            hint = f"did you mean {' or '.join(near)}?" if near else "`husk probe --list` lists the checks."
            raise UsageError(f"no check is about {call!r}; {hint}")


def run_probe(prefix: str = "", calls: Sequence[str] = (), *, limit: int = 0) -> Measurement:
    """The results of all checks, or of those about `calls`, under a prefix that is split as a shell would. `limit`:
    seconds for each check, if not the program's own."""
    wanted = list_checks()
    check_names(calls, wanted)
    wanted = [check for check in wanted if not calls or check.call in calls]
    words = split_prefix("--in", prefix)
    seconds = ["--limit", str(limit)] if limit else []
    out, err, status = _run([*show_program(words), PROGRAM, *seconds, *calls])
    lines = out.decode("utf-8", "replace").splitlines()
    head = next((found for line in lines if (found := read_head(line))), None)
    results = tuple(result for line in lines if (result := read_result(line)))
    if head is None:
        raise HuskError(_no_answer(words, err, status))
    return Measurement(prefix, Head(len(wanted), head.system, head.uid), results)


def show_program(words: Sequence[str]) -> list[str]:
    """The prefix, with what its sandbox needs to see the program at its own path, for sandboxes that husk knows."""
    return show_paths("--in", words, Shown(read_only=(FOLDER,)))


def _run(command: list[str]) -> tuple[bytes, bytes, int]:
    """Output, errors and exit code. All of the sandbox's processes that stay in its session end with it."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(f"--in: {command[0]!r} cannot be started: {error.strerror}; is it installed?") from None
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise HuskError(
            f"husk-probe did not end within {PATIENCE:.0f} seconds; try fewer checks with --only."
        ) from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return out[:MOST_OUTPUT], err, process.returncode


def _no_answer(words: Sequence[str], err: bytes, status: int) -> str:
    """Why nothing came back, and what to do."""
    said = err.decode("utf-8", "replace").strip().splitlines()
    last = f" It said: {said[-1]}." if said else ""
    if not words:
        return f"husk-probe cannot run here (exit code {status}).{last}"
    return (
        f"{words[0]} ended with exit code {status}, and husk-probe did not run.{last} Give the prefix an option that "
        f"shows the program inside, at {PROGRAM}."
    )

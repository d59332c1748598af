"""compat/trace: take a census: run a policy with a trace, and put what was seen into husk.compat.census's words.

Not here: how it is shown (`call_log`, `html_page`), and the command line.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from husk import __version__
from husk.abi.registry import row
from husk.abi.text import shown
from husk.compat.census import AddressUse, Asked, Census, FileUse, ProgramRun, spelled
from husk.sandbox.policy import Mount, Policy, Trace
from husk.sandbox.runner import Events, Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from husk.sandbox.result import Result, Seen

LINES = 200_000  # of the log: some 20 MB of memory while the program runs, and as much on disk


@dataclass
class Traced:
    """A finished run: what it asked for, how it ended, and each call on a line, with the time since the start."""

    census: Census
    result: Result
    log: Callable[[], Iterator[tuple[float, str]]]


def run_traced(
    argv: Sequence[str],
    *,
    policy: Policy | None = None,
    mounts: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    namespaces: bool = True,
    timeout: float | None = None,
    stdio: tuple[int, int, int] = (0, 1, 2),
    stdin: bytes | None = None,
    keep: int = 0,
) -> Census:
    """Run `argv` in a box of its own and return what it asked for. `policy` is one to begin with. `keep`: so many bytes
    of its output are read and dropped, instead of going to `stdio`. HuskError: it could not be run."""
    wanted = Policy([]) if policy is None else policy.again()
    wanted.argv = list(argv)
    wanted.mounts = [*wanted.mounts, *map(Mount.parse, mounts)]
    wanted.env = {**wanted.env, **(env or {})}
    wanted.namespaces = wanted.namespaces and namespaces
    wanted.timeout = wanted.timeout if timeout is None else timeout
    return trace(wanted, lambda runner: runner.run(), stdio=stdio, stdin=stdin, keep=keep).census


def trace(
    policy: Policy,
    run: Callable[[Runner], Result],
    *,
    lines: int = 0,
    stdio: tuple[int, int, int] = (0, 1, 2),
    stdin: bytes | None = None,
    keep: int = 0,
) -> Traced:
    """`run` runs the runner that it is given, with what it takes to handle signals. `lines`: the longest log."""
    policy = policy.again()
    policy.trace = Trace(lines)
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    result = run(Runner(policy, Events(None, None), stdio, stdin=stdin, keep=keep))
    seen = result.trace
    census = Census(
        list(policy.argv),
        husk=__version__,
        started=started,
        seconds=round(result.seconds, 6),
        status=result.exit_code,
        setting="walled" if result.walls.get("user") else "bare",
        crash=_crash(result),
    )
    if seen is None:  # it was ended before it was launched
        return Traced(census, result, lambda: iter(()))
    census.calls = _calls(seen)
    census.files = [
        FileUse(shown(path), use.read, use.written, use.listed, use.executed, use.errors)
        for path, use in sorted(seen.files.items())
    ]
    census.addresses = [
        AddressUse(_name(nr), address, outcome, count)
        for (nr, address, outcome), count in seen.addresses.items()
    ]
    census.programs = _programs(seen, result)
    census.lost = seen.lost
    return Traced(census, result, seen.log)


def _name(nr: int) -> str:
    entry = row(nr)
    return entry.name if entry is not None else f"syscall_{nr}"


def _calls(seen: Seen) -> list[Asked]:
    found = []
    for one in seen.calls:
        name = _name(one.nr)
        words = spelled(name, one.values)
        seconds = round(one.ns / 1e9, 9)
        found.append(
            Asked(name, one.way, one.values, words, one.count, one.errors, seconds, one.reasons, one.example)
        )
    return sorted(found, key=lambda asked: (asked.call, asked.way, sorted(asked.values.items())))


def _programs(seen: Seen, result: Result) -> list[ProgramRun]:
    slots = max(1, min(len(seen.runs[0].slots), -(-int(result.seconds * 1e9) // seen.slot_ns))) if seen.runs else 0
    found = [
        ProgramRun(
            run.pid,
            run.parent,
            [shown(word) for word in run.argv],
            round(run.began_ns / 1e9, 6),
            round(run.ended_ns / 1e9, 6),
            run.status,
            shown(run.exe),
            run.count,
            run.slots[:slots],
        )
        for run in seen.runs
    ]
    if found and result.signal:
        found[0].status = 128 + result.signal  # husk hears how the first program ended, whatever ended it
    return found


def _crash(result: Result) -> str:
    if not result.signal:
        return ""
    try:
        return signal.Signals(result.signal).name
    except ValueError:
        return f"signal {result.signal}"

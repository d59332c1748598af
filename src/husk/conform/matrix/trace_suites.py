"""conform/matrix: trace the files of suites, to learn which calls each makes.

Each file is run in boxes of its own, in several parts where it has many cases: a case that hangs or ends the program
then hides only the rest of its part. Not here: the file that keeps what was seen (calls_file.py), and what a suite's
units are (suites/).
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from husk import __version__
from husk.compat.trace import run_traced
from husk.conform.execute.one_unit import run_unit
from husk.conform.execute.where import native
from husk.conform.matrix.calls_file import Calls, TracedFile, TracedSuite, write_calls
from husk.conform.suite_file import Suite
from husk.conform.suites import kind
from husk.conform.units import RESULTS, SKIP_SETTING, TEMPORARY, Ask, Ended, Unit, own_environment
from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.policy import Mount, Policy

SECONDS = 20.0  # for one file: most programs of a suite end within it, and those that wait have begun to
PARTS, FEW_CASES, MOST_CASES = 4, 10, 800  # a program with more than a few cases is run in parts, each of so many
MOST_OUTPUT = 1 << 20
Told = Callable[[str, str, TracedFile], None]  # suite, file, what was seen


def trace_suites(
    suites: Sequence[Suite],
    known: Calls,
    out: Path,
    *,
    seconds: float = SECONDS,
    jobs: int = 1,
    namespaces: bool = True,
    ask: Ask | None = None,
    told: Told = lambda suite, file, seen: None,
) -> Calls:
    """Trace what `known` lacks or knows by another digest, and write all of it to `out` after each file."""
    calls = known
    for suite in suites:
        if suite.kind == "skills":
            raise UsageError(
                f"{suite.name}: skills are no test programs; `husk conform uses --skills DIR` traces them."
            )
        files = units_by_file(suite, ask or ask_natively)
        wanted = calls.suites.get(suite.name, TracedSuite())
        kept = {file: one for file, one in wanted.files.items() if file in files}
        calls = _with(calls, suite, kept)
        waiting = []
        for file, units in files.items():
            old, now = kept.get(file), _digest(suite, file, units)
            if old is None or old.digest != now or _had_less_time(old, seconds):
                waiting.append((file, units, now))
        for file, seen in _traced(waiting, seconds, jobs, namespaces):
            kept[file] = seen
            calls = _with(calls, suite, kept)
            write_calls(calls, out)
            told(suite.name, file, seen)
    write_calls(calls, out)
    return calls


def _had_less_time(old: TracedFile, seconds: float) -> bool:
    """Was it still running when its time was up, and is there more now?"""
    return old.ended.startswith("after ") and float(old.ended.split()[1]) < seconds


def _with(calls: Calls, suite: Suite, files: dict[str, TracedFile]) -> Calls:
    traced = TracedSuite(suite.title, suite.source, dict(sorted(files.items())))
    return Calls(__version__, {**calls.suites, suite.name: traced})


def ask_natively(unit: Unit) -> Ended:
    return run_unit(unit, native())


def units_by_file(suite: Suite, ask: Ask) -> dict[str, list[Unit]]:
    found: dict[str, list[Unit]] = {}
    for unit in kind(suite.kind).units(suite, ask):
        found.setdefault(unit.file, []).append(unit)
    return found


def _digest(suite: Suite, file: str, units: Sequence[Unit]) -> str:
    """Of the program, and of how it is called."""
    whole = hashlib.sha256()
    for path in (suite.place / file, Path(units[0].argv[0])):
        if path.is_file():
            with open(path, "rb") as content:
                whole.update(hashlib.file_digest(content, "sha256").digest())
    for unit in units:
        whole.update(repr((unit.argv, unit.environment)).encode())
    return whole.hexdigest()[:32]


def _traced(
    waiting: Sequence[tuple[str, list[Unit], str]], seconds: float, jobs: int, namespaces: bool
) -> Iterator[tuple[str, TracedFile]]:
    with ThreadPoolExecutor(jobs) as pool:
        running = {
            pool.submit(trace_file, units, seconds, digest, namespaces=namespaces): file
            for file, units, digest in waiting
        }
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            for future in running:
                future.cancel()


def trace_file(units: Sequence[Unit], seconds: float, digest: str, *, namespaces: bool = True) -> TracedFile:
    """All units of a file, within `seconds` together."""
    total: Counter[str] = Counter()
    used, ended, runs = 0.0, "", 0
    wanted = [part for unit in units for part in _parts(unit)]
    for number, unit in enumerate(wanted):
        if reason := unit.setting(SKIP_SETTING):
            return TracedFile(digest, f"not run: {reason}")
        limit = min((seconds - used) / (len(wanted) - number), unit.timeout)
        try:
            census = run_traced(
                box_argv(unit), policy=box_policy(unit, namespaces), timeout=limit, stdin=b"", keep=MOST_OUTPUT
            )
        except HuskError as error:
            return TracedFile(digest, f"not run: {error}", dict(sorted(total.items())), round(used, 1), max(runs, 1))
        total.update(census.counts())
        used, runs = used + census.seconds, runs + 1
        if census.seconds >= limit:
            ended = f"after {seconds:g} s"
        ended = ended or _other_end(census.crash, census.status)
        if used >= seconds:
            break
    return TracedFile(digest, ended or "exit 0", dict(sorted(total.items())), round(used, 1), runs)


def _parts(unit: Unit) -> list[Unit]:
    only = getattr(kind(unit.kind), "only", None)
    count = len(unit.cases)
    if only is None or count <= FEW_CASES:
        return [unit]
    size = min(-(-count // PARTS), MOST_CASES)
    return [only(unit, unit.cases[first : first + size]) for first in range(0, count, size)]


def _other_end(crash: str, status: int) -> str:
    """The first end that is none of `exit 0` is the one that is told."""
    return crash or (f"exit {status}" if status else "")


def box_argv(unit: Unit) -> list[str]:
    return [_in_box(word) for word in unit.argv]


def _in_box(word: str) -> str:
    return word.replace(RESULTS, "/tmp").replace(TEMPORARY, "/tmp")


def box_policy(unit: Unit, namespaces: bool) -> Policy:
    policy = Policy([])
    policy.namespaces = namespaces
    policy.env = {name: _in_box(value) for name, value in (*own_environment(), *unit.environment)}
    for path in dict.fromkeys((*unit.shown, *([unit.directory] if unit.directory else []))):
        real = os.path.realpath(path)
        policy.mounts.append(Mount(real, path, "cow" if path == unit.directory else "ro"))
    policy.workdir = unit.directory
    return policy

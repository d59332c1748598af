"""conform/suites: what several kinds share about files: which there are, how one is started, the unit that does it.

Not here: what a process printed (endings.py and each kind).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from husk.conform.suite_file import SuiteFile
from husk.conform.units import SKIP_SETTING, Unit, own_environment
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.conform.suite_file import Suite

LONGEST_INTERPRETER_LINE = 256  # as the kernel has it


def no_tests(suite: Suite, hint: str) -> UsageError:
    return UsageError(f"{suite.name}: the suite has no tests: {hint}")


def chosen_files(suite: Suite, patterns: Sequence[str]) -> list[SuiteFile]:
    """The rows of the suite file; where it has none, every file that fits one of the patterns."""
    for one in suite.files:
        if not one.skip and not (suite.place / one.path).exists():
            raise UsageError(f"{suite.name}: there is no {one.path} in {suite.place}; is the suite built?")
    if suite.files:
        return list(suite.files)
    if not patterns:
        raise no_tests(suite, "name them with [[files]], or with patterns in `settings.find`.")
    found = {
        path.relative_to(suite.place).as_posix()
        for pattern in patterns
        for path in _glob(suite, pattern)
        if path.is_file() and path.is_relative_to(suite.place)
    }
    if not found:
        raise no_tests(suite, f"no file in {suite.place} fits {' or '.join(patterns)}.")
    return [SuiteFile(path) for path in sorted(found)]


def _glob(suite: Suite, pattern: str) -> list[Path]:
    try:
        return list(suite.place.glob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise UsageError(f"{suite.name}: `find` has a pattern that does not work: {pattern!r} ({error}).") from None


def start_words(path: Path) -> list[str]:
    """How a test file is started: by itself if it is executable, else by the interpreter that its first line names, as
    prove does it."""
    if os.access(path, os.X_OK):
        return [str(path)]
    with path.open("rb") as file:
        first = file.read(LONGEST_INTERPRETER_LINE).split(b"\n")[0]
    words = first[2:].decode("utf-8", "surrogateescape").split(maxsplit=1) if first.startswith(b"#!") else []
    if not words:
        raise UsageError(f"{path}: it is neither executable nor a script with a #! line; is the suite built?")
    return [*(word.strip() for word in words), str(path)]


def make_unit(
    suite: Suite,
    one: SuiteFile,
    argv: Sequence[str],
    *,
    cases: Sequence[str] = (),
    directory: str = "",
    settings: Sequence[tuple[str, str]] = (),
) -> Unit:
    """`directory` starts from the suite's; empty: a new one."""
    if one.skip:
        argv, settings = ["true"], [(SKIP_SETTING, one.skip)]
    environment = dict(own_environment()) | dict(suite.environment) | dict(one.environment)
    return Unit(
        suite.name,
        suite.kind,
        one.path,
        tuple(argv),
        tuple(cases),
        tuple(environment.items()),
        str(suite.place / directory) if directory else "",
        (str(suite.place), *suite.shown),
        one.timeout or suite.timeout,
        tuple(settings),
    )

"""conform/suites: `ltp`: programs of the Linux Test Project, with the old interface of its library or the new one.

A scenario file (runtest/syscalls) names tests and their command lines: each is one unit and one case. What its parts
say (TPASS, TFAIL, TBROK, TCONF, TWARN) has no name that stays the same from run to run, so the case is the whole; a
part that failed is the reason.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from husk.compat.bounded_file import read_bounded
from husk.conform.outcomes import CRASH, FAIL, HANG, PASS, SKIP
from husk.conform.suite_file import Reader, SuiteFile
from husk.conform.suites.discover import make_unit, no_tests
from husk.conform.suites.endings import all_output, as_text, bad_ending, result, skipped
from husk.conform.units import SKIP_SETTING, Reading
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from husk.conform.suite_file import Suite
    from husk.conform.units import Ask, Ended, Unit

PROGRAMS = "testcases/bin"
LARGEST_SCENARIO = 4 << 20
# New: `open01.c:56: TFAIL: open() succeeded`; old: `open01    2  TFAIL  :  open01.c:56: open() succeeded`.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PART = re.compile(r"^\S+?(?::\d+:\s+|\s+\d+\s+)(TPASS|TFAIL|TBROK|TCONF|TWARN)\s*:\s*(.*)$")
_EXIT = {1: "TFAIL", 2: "TBROK", 4: "TWARN", 32: "TCONF"}  # bits of the exit code
_SHELL = frozenset(";|&$<>()`*?\\")
_NOT_BUILT = "the program is not built"
_TIMED_OUT, _KILLED = "Test timeouted", re.compile(r"Test killed by (\w+)")


def units(suite: Suite, _ask: Ask) -> list[Unit]:
    reader = Reader(f"{suite.name}: settings", dict(suite.settings), ("scenarios", "programs"))
    programs = suite.place / (reader.text("programs") or PROGRAMS)
    if not programs.is_dir():
        raise UsageError(f"{suite.name}: {programs} is no directory; `make install` of LTP makes it.")
    rows = [(one.path, [one.path, *one.args], one) for one in suite.files]
    for scenario in reader.texts("scenarios"):
        path = suite.place / scenario
        text = read_bounded(path, LARGEST_SCENARIO, "name a scenario of LTP, as runtest/syscalls.", ".")
        rows += [(name, words, SuiteFile(_program(words))) for name, words in _scenario(as_text(text))]
    if not rows:
        raise no_tests(
            suite, 'write `scenarios = ["runtest/syscalls"]` below [settings], or list programs as [[files]].'
        )
    found: dict[str, Unit] = {}
    for name, words, one in rows:
        found.setdefault(name, _unit(suite, one, name, words, programs))
    if all(unit.setting(SKIP_SETTING) == _NOT_BUILT for unit in found.values()):
        raise no_tests(suite, f"none of its {len(found)} programs is in {programs}; is LTP built?")
    return list(found.values())


def _scenario(text: str) -> list[tuple[str, list[str]]]:
    """Lines of a name and a command line; a command for the shell is given to one."""
    found = []
    for line in text.splitlines():
        name, _, command = line.strip().partition(" ")
        if not name or name.startswith("#") or not command.strip():
            continue
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        if words:
            found.append((name, ["/bin/sh", "-c", command.strip()] if _SHELL & set(command) else words))
    return found


def _program(words: list[str]) -> str:
    """What the file is called in results."""
    return os.path.basename(words[2].split()[0] if words[:2] == ["/bin/sh", "-c"] else words[0])


def _unit(suite: Suite, one: SuiteFile, name: str, words: list[str], programs: Path) -> Unit:
    own = programs / _program(words)
    if not own.exists() and words[0] != "/bin/sh" and not one.skip:
        one = replace(one, skip=_NOT_BUILT)
    argv = [str(own), *words[1:]] if own.exists() and words[0] != "/bin/sh" else words
    made = make_unit(suite, one, argv, cases=[name])
    environment = {"LTPROOT": str(suite.place), "LTP_COLORIZE_OUTPUT": "n"} | dict(made.environment)
    environment["PATH"] = f"{programs}:{environment.get('PATH', '/usr/bin:/bin')}"
    return replace(made, environment=tuple(environment.items()))


def read(unit: Unit, ended: Ended) -> Reading:
    (case,) = unit.cases
    if done := skipped(unit):
        return Reading(done)
    output = all_output(ended)
    outcome, why = _judge(unit, ended, _COLOUR.sub("", output))
    return Reading([result(unit, case, outcome, why, "" if outcome == PASS else output, ended.seconds)])


def _judge(unit: Unit, ended: Ended, output: str) -> tuple[str, str]:
    parts = [(match[1], match[2]) for line in output.splitlines() if (match := _PART.match(line.strip()))]
    if bad := bad_ending(unit, ended):
        return bad
    if _TIMED_OUT in output:
        return HANG, "LTP's own limit of time ended it"
    if killed := _KILLED.search(output):
        return CRASH, killed[1]
    words = [word for bit, word in _EXIT.items() if ended.code & bit]
    for word in ("TFAIL", "TBROK", "TWARN"):
        said = next((text for kind, text in parts if kind == word), None)
        if word in words or (said is not None and word != "TWARN"):
            return FAIL, f"{word}: {said}" if said else f"{word} by its exit code {ended.code}"
    if ended.code == 32 or (parts and all(kind == "TCONF" for kind, _ in parts)):
        return SKIP, next((text for kind, text in parts if kind == "TCONF"), "TCONF")
    if ended.code:
        return FAIL, f"exit code {ended.code}" + ("" if parts else ", and no line is a result of LTP")
    if not parts:
        return FAIL, "no line is a result of LTP"
    left_out = [text for kind, text in parts if kind == "TCONF"]
    return PASS, f"{len(left_out)} parts of it were left out: {left_out[0]}" if left_out else ""

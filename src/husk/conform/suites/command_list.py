"""conform/suites: `commands`: any commands, each with the exit code and the output that it must have.

They stand in the suite file, one table for each in `settings.commands`. A command is one unit and one case; its file in
results is its `group`, else its program.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from husk.conform.outcomes import FAIL, PASS
from husk.conform.suite_file import Reader, SuiteFile
from husk.conform.suites.discover import make_unit, no_tests
from husk.conform.suites.endings import all_output, as_text, bad_ending, exit_code, result, skipped
from husk.conform.units import Reading
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.conform.suite_file import Suite
    from husk.conform.units import Ask, Ended, Unit

_KEYS = ("name", "run", "exit", "stdout", "stdout_has", "group", "directory", "environment", "timeout", "skip")


def units(suite: Suite, _ask: Ask) -> list[Unit]:
    rows = Reader(f"{suite.name}: settings", dict(suite.settings), ("commands",)).rows("commands")
    if not rows:
        raise no_tests(suite, "write a [[settings.commands]] table with `name` and `run` for each command.")
    found: dict[str, Unit] = {}
    for number, row in enumerate(rows, 1):
        unit = _unit(suite, Reader(f"{suite.name}: command {number}", row, _KEYS), row, number)
        if unit.cases[0] in found:
            raise UsageError(f"{suite.name}: two commands have the name {unit.cases[0]!r}.")
        found[unit.cases[0]] = unit
    return list(found.values())


def _unit(suite: Suite, reader: Reader, row: dict[str, Any], number: int) -> Unit:
    name, words = reader.text("name"), reader.texts("run")
    if not name or not words:
        raise UsageError(f"{suite.name}: command {number} needs a `name`, and a list of words as `run`.")
    code = reader.number("exit", 0)
    if not 0 <= code <= 255:
        raise UsageError(f"{suite.name}: command {number}: `exit` must be between 0 and 255; 128 + n is signal n.")
    stdout = reader.text("stdout") if "stdout" in row else None
    wanted = {"exit": code, "stdout": stdout, "stdout_has": reader.texts("stdout_has")}
    group = reader.text("group") or os.path.basename(words[0])
    file = SuiteFile(
        group, (), reader.pairs("environment"), reader.seconds("timeout", 0.0), skip=reader.text("skip")
    )  # fmt: skip
    directory, settings = reader.text("directory"), [("wanted", json.dumps(wanted))]
    return make_unit(suite, file, words, cases=[name], directory=directory, settings=settings)


def read(unit: Unit, ended: Ended) -> Reading:
    (name,) = unit.cases
    if done := skipped(unit):
        return Reading(done)
    wanted = json.loads(unit.setting("wanted"))
    code, why, output = exit_code(ended.code), "", all_output(ended)
    bad = bad_ending(unit, ended)
    # A command may be meant to die: then its signal is the exit code that was asked for.
    if bad and (ended.timed_out or code != wanted["exit"]):
        return Reading([result(unit, name, *bad, output, ended.seconds)])
    stdout = as_text(ended.stdout)
    if code != wanted["exit"]:
        said = ended.stderr.strip().splitlines()
        why = f"exit code {code}, not {wanted['exit']}" + (f": {as_text(said[-1])}" if said else "")
    elif wanted["stdout"] is not None and stdout != wanted["stdout"]:
        why = f"stdout is {_short(stdout)}, not {_short(wanted['stdout'])}"
    elif missing := [text for text in wanted["stdout_has"] if text not in stdout]:
        why = f"stdout has no {_short(missing[0])}"
    return Reading([result(unit, name, FAIL if why else PASS, why, output if why else "", ended.seconds)])


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}…")

"""conform/suites: `transcripts`: programs that print a line for each step. What they print natively is expected.

A program with its arguments is one unit and one case. Its output is compared line by line with that of a native run
which `units` made. C files are compiled first. What may differ from run to run has a name (`NORMALISERS`).
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from husk.conform.outcomes import FAIL, PASS
from husk.conform.suite_file import Reader, SuiteFile
from husk.conform.suites.compiled import programs_of
from husk.conform.suites.discover import chosen_files, make_unit, no_tests, start_words
from husk.conform.suites.endings import as_text, bad_ending, exit_code, result, skipped
from husk.conform.units import SKIP_SETTING, Reading, Unit
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.conform.suite_file import Suite
    from husk.conform.units import Ask, Ended

CASE = "transcript"
MOST_EXPECTED = 1 << 20  # bytes of a native output; more is no transcript
NORMALISERS = {
    "pid": (r"\bpid[ =]\d+", "pid N"),
    "time": (r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS"),
    "seconds": (r"\b\d+\.\d+ ?s\b", "N s"),
    "inode": (r"\binode[ =]\d+", "inode N"),
    "address": (r"\b0x[0-9a-f]{6,16}\b", "0xN"),
}
_KEYS = ("find", "compiler", "interpreters", "normalise", "replace", "accepted", "as_root")
# Only the program's own process knows what its working directory is called: the first line says it.
_SAY_DIRECTORY = 'pwd && exec "$@"'


def units(suite: Suite, ask: Ask) -> list[Unit]:
    reader = Reader(f"{suite.name}: settings", dict(suite.settings), _KEYS)
    if not suite.settings.get("as_root", True) and ask(_who(suite)).stdout.strip() == b"0":
        raise UsageError(f"{suite.name}: its programs must not run natively as root; run them as an ordinary user.")
    rules = json.dumps(_rules(suite, reader))
    made = [
        unit if one.skip else _with_expected(unit, ask(unit), rules, listed=bool(suite.files))
        for one in chosen_files(suite, reader.texts("find"))
        for unit in _units_of(suite, one, reader)
    ]
    if all(unit.setting(SKIP_SETTING) for unit in made):
        raise no_tests(suite, f"{made[0].file} and {len(made) - 1} others: {made[0].setting(SKIP_SETTING)}.")
    return made


def _who(suite: Suite) -> Unit:
    return make_unit(suite, SuiteFile("id"), ["id", "-u"])


def _units_of(suite: Suite, one: SuiteFile, reader: Reader) -> list[Unit]:
    """One for each program that a file makes."""
    path, case = suite.place / one.path, " ".join(one.args) or CASE
    interpreter = dict(reader.pairs("interpreters")).get(path.suffix)
    if path.suffix == ".c" and not one.skip:
        built = programs_of(path, list(reader.texts("compiler")) or ["cc", "-O1"])
        made = [_unit(suite, one, case if len(built) == 1 else f"{each.name} {case}", [str(each)]) for each in built]
        return [replace(unit, shown=(*unit.shown, str(each.parent))) for unit, each in zip(made, built, strict=True)]
    start = [] if one.skip else [interpreter, str(path)] if interpreter else start_words(path)
    return [_unit(suite, one, case, start)]


def _unit(suite: Suite, one: SuiteFile, case: str, start: list[str]) -> Unit:
    return make_unit(suite, one, ["/bin/sh", "-c", _SAY_DIRECTORY, "sh", *start, *one.args], cases=[case])


def _with_expected(unit: Unit, native: Ended, rules: str, *, listed: bool) -> Unit:
    """The unit, with what the native run printed. What a pattern found and is no transcript is skipped."""
    fault = ""
    if bad := bad_ending(unit, native):
        fault = bad[1]
    elif native.stdout.count(b"\n") < 2:  # the first line is the directory
        fault = f"it prints nothing and ends with exit code {native.code}"
    elif len(native.stdout) + len(native.stderr) > MOST_EXPECTED:
        fault = f"it prints more than {MOST_EXPECTED} bytes"
    if fault and listed:
        raise UsageError(
            f"{unit.file}: no transcript natively: {fault}; take it out of the suite, or give it a `skip`."
        )
    if fault:
        return replace(unit, settings=((SKIP_SETTING, f"no transcript natively: {fault}"),))
    expected = {"exit": exit_code(native.code), "stdout": as_text(native.stdout), "stderr": as_text(native.stderr)}
    return replace(unit, settings=(("expected", json.dumps(expected)), ("rules", rules)))


def _rules(suite: Suite, reader: Reader) -> dict[str, Any]:
    """Normalisers as pairs of pattern and text, and accepted differences."""
    pairs = []
    for name in reader.texts("normalise"):
        if name not in NORMALISERS:
            raise UsageError(f"{suite.name}: no normaliser is called {name!r}; there are {', '.join(NORMALISERS)}.")
        pairs.append(NORMALISERS[name])
    pairs += reader.pairs("replace")
    accepted = []
    for number, row in enumerate(reader.rows("accepted"), 1):
        one = Reader(f"{suite.name}: accepted difference {number}", row, ("file", "native", "here", "reason"))
        accepted.append([one.text(key) for key in ("file", "native", "here", "reason")])
        if not all(accepted[-1]):
            raise UsageError(f"{suite.name}: accepted difference {number} needs `file`, `native`, `here` and `reason`.")
    for pattern in [*(pattern for pattern, _ in pairs), *(text for row in accepted for text in row[1:3])]:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"{suite.name}: {pattern!r} is no regular expression: {error}.") from None
    return {"pairs": pairs, "accepted": accepted}


def read(unit: Unit, ended: Ended) -> Reading:
    (case,) = unit.cases
    if done := skipped(unit):
        return Reading(done)
    expected, rules = json.loads(unit.setting("expected")), json.loads(unit.setting("rules"))
    differences, first = list[str](), ""
    for stream, data in (("stdout", ended.stdout), ("stderr", ended.stderr)):
        text = as_text(data)
        before = _lines(expected[stream], expected["stdout"], rules)
        after = _accept(unit.file, before, _lines(text, as_text(ended.stdout), rules), rules)
        if stream == "stdout":
            before, after = before[1:], after[1:]  # the directory
        differences += difflib.unified_diff(before, after, f"{stream} natively", stream, "", "", 2, lineterm="")
        first = first or _first_difference(stream, before, after)
    bad = bad_ending(unit, ended)
    code = exit_code(ended.code)
    if bad and (ended.timed_out or code != expected["exit"]):
        why = f"{bad[1]}; {first}" if first else bad[1]
        return Reading([result(unit, case, bad[0], why, "\n".join(differences), ended.seconds)])
    if not first and code != expected["exit"]:
        first = f"exit code {code}, natively {expected['exit']}"
    return Reading([result(unit, case, FAIL if first else PASS, first, "\n".join(differences), ended.seconds)])


def _lines(text: str, stdout: str, rules: dict[str, Any]) -> list[str]:
    directory = stdout.split("\n")[0]
    if directory.startswith("/") and directory != "/":
        text = text.replace(directory, "{work}")
    for pattern, replacement in rules["pairs"]:
        text = re.sub(pattern, replacement, text)
    return text.splitlines()


def _accept(file: str, before: list[str], after: list[str], rules: dict[str, Any]) -> list[str]:
    """`after`, where a line that may differ reads as the native one. Only line by line: with a line more or less there
    is nothing to hold against each other."""
    rows = [row for row in rules["accepted"] if row[0] == file]
    if len(before) != len(after) or not rows:
        return after
    return [
        mine if any(re.fullmatch(row[1], mine) and re.fullmatch(row[2], other) for row in rows) else other
        for mine, other in zip(before, after, strict=True)
    ]


def _first_difference(stream: str, before: list[str], after: list[str]) -> str:
    for number, (mine, other) in enumerate(zip(before, after, strict=False), 1):
        if mine != other:
            return f"{stream}, line {number}: {_quoted(other)}, natively {_quoted(mine)}"
    if len(before) > len(after):
        return f"{stream} ends after line {len(after)}, natively there follows {_quoted(before[len(after)])}"
    if len(after) > len(before):
        return f"{stream} goes on after line {len(before)} with {_quoted(after[len(before)])}"
    return ""


def _quoted(line: str) -> str:
    return repr(line if len(line) <= 100 else f"{line[:100]}…")

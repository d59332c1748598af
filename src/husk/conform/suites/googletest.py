"""conform/suites: GoogleTest programs: which cases they have, running some of them, and what they print.

A program's cases come from `--gtest_list_tests`. What became of them stands in its JSON file, which is written at the
very end, and in the text that it prints as it goes: that is what remains of a program that crashed or hung.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.conform.outcomes import CRASH, FAIL, HANG, MOST_OUTPUT, PASS, SKIP, CaseName, CaseResult
from husk.conform.suite_file import Suite, SuiteFile
from husk.conform.units import RESULTS, SKIP_SETTING, TEMPORARY, Ended, Reading, Unit, own_environment
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.conform.units import Ask

LISTERS = 4  # programs asked for their cases at once
JSON_NAME = "results.json"
_OPTIONS = (f"--gtest_output=json:{RESULTS}/{JSON_NAME}", "--gtest_color=no")
_FILTER = "--gtest_filter="
MOST_WHY = 300  # characters

_SUITE_LINE = re.compile(r"^(\S+\.)(?:  # .*)?$")  # `Sockets/Bind.`, `Typed/0.  # TypeParam = int`
_CASE_LINE = re.compile(r"^  (\S+)(?:  # .*)?$")  # `  Works`, `  Works/3  # GetParam() = 4`
# Anywhere in a line: a case may print without an end of line. The summary at the end repeats names without a time.
_BEGINS = re.compile(r"\[ RUN      \] ([^\s,]+)$", re.MULTILINE)
_ENDS = re.compile(r"\[(       OK|  FAILED |  SKIPPED) ?\] ([^\s,]+)(?:, where .*)? \((\d+) ms\)$", re.MULTILINE)
_ENDINGS = {"       OK": PASS, "  FAILED ": FAIL, "  SKIPPED": SKIP}
_ALL_RAN = re.compile(r"^\[==========\] \d+ tests? from \d+ test (?:suite|case)s? ran\.", re.MULTILINE)
_MESSAGE = re.compile(r"(\S+?:\d+): (?:Failure|Skipped)\n((?:.+\n?){0,6})")


# -- which cases there are ---------------------------------------------------------------------------------------------
def units(suite: Suite, ask: Ask) -> list[Unit]:
    """One unit for each program; the runner cuts it."""
    files = suite.files or tuple(SuiteFile(name) for name in _programs(suite.place))
    with ThreadPoolExecutor(LISTERS) as pool:
        found = list(pool.map(lambda file: _unit(suite, file, ask), files))
    with_cases = [one for one in found if one]
    if not with_cases:
        raise UsageError(f"{suite.place}: the suite {suite.name!r} has no tests.")
    return with_cases


def _programs(place: Path) -> list[str]:
    return sorted(entry.name for entry in place.iterdir() if entry.is_file() and os.access(entry, os.X_OK))


def _unit(suite: Suite, file: SuiteFile, ask: Ask) -> Unit | None:
    environment = dict(own_environment()) | {"TEST_TMPDIR": TEMPORARY} | dict(suite.environment)
    unit = Unit(
        suite.name,
        "googletest",
        file.path,
        (str(suite.place / file.path), *file.args),
        environment=tuple((environment | dict(file.environment)).items()),
        shown=(str(suite.place), *suite.shown),
        timeout=file.timeout or suite.timeout,
        settings=((SKIP_SETTING, file.skip),) if file.skip else (),
    )
    cases = _listed(unit, ask, listed=bool(suite.files) and not file.skip)
    if file.skip and not cases:
        cases = ["*"]  # a program that cannot even be asked
    return only(replace(unit, argv=(*unit.argv, *_OPTIONS, _FILTER)), cases) if cases else None


def _listed(unit: Unit, ask: Ask, *, listed: bool) -> list[str]:
    """The cases of a program. One that the suite's file lists must be a GoogleTest program; others that lie about
    are passed over."""
    ended = ask(replace(unit, argv=(*unit.argv, "--gtest_list_tests")))
    cases = listed_cases(ended.stdout.decode("utf-8", "replace")) if ended.code == 0 else []
    if cases or not listed:
        return cases
    if ended.code == 0 and b"--gtest_list_tests" in ask(replace(unit, argv=(*unit.argv, "--help"))).stdout:
        return []  # it is one, without cases on this machine
    reason = _last_line(ended.stderr) or _last_line(ended.stdout)
    raise UsageError(
        f"{unit.file}: no GoogleTest program: --gtest_list_tests {_how(ended)}"
        + (f" ({reason})" if reason else "")
        + "; take it out of the suite file, or give it `skip` with a reason."
    )


def listed_cases(text: str) -> list[str]:
    """From what `--gtest_list_tests` prints, among what else the program may print."""
    suite, cases = "", []
    for line in text.splitlines():
        if found := _SUITE_LINE.match(line):
            suite = found[1]
        elif suite and (found := _CASE_LINE.match(line)):
            cases.append(suite + found[1])
        else:
            suite = ""
    return list(dict.fromkeys(cases))


def only(unit: Unit, cases: Sequence[str]) -> Unit:
    wanted = [case for case in cases if not _is_disabled(case)]
    return replace(unit, cases=tuple(cases), argv=(*unit.argv[:-1], _FILTER + (":".join(wanted) or "-*")))


def _is_disabled(case: str) -> bool:
    return any(part.startswith("DISABLED_") for word in case.split(".") for part in word.split("/"))


# -- what became of them -----------------------------------------------------------------------------------------------
@dataclass
class _Seen:
    """What a program said about a case. Without an outcome it did not come to its end."""

    outcome: str = ""
    seconds: float = 0.0
    why: str = ""
    output: str = ""


def read(unit: Unit, ended: Ended) -> Reading:
    text = ended.stdout.decode("utf-8", "replace")
    seen = _seen_in_text(text)
    for name, one in _seen_in_json(ended.files.get(JSON_NAME, b"")):
        if name not in unit.cases:
            continue  # "NonTestSuiteFailure.": what failed outside any case
        before = seen.get(name, _Seen())
        seen[name] = _Seen(one.outcome, one.seconds or before.seconds, before.why or one.why, before.output)
    for case in unit.cases:
        if _is_disabled(case):
            seen[case] = _Seen(SKIP, why="disabled in its source")
    rest = _explain(unit, ended, text, seen)
    results = [
        CaseResult(CaseName(unit.suite, unit.file, case), one.outcome, one.seconds, one.why[:MOST_WHY], one.output)
        for case, one in seen.items()
        if one.outcome
    ]
    return Reading(results, only(unit, rest) if rest else None)


def _seen_in_text(text: str) -> dict[str, _Seen]:
    seen: dict[str, _Seen] = {}
    running, start = "", 0
    events = sorted([*_BEGINS.finditer(text), *_ENDS.finditer(text)], key=lambda found: found.start())
    for found in events:
        if found.re is _BEGINS:
            running, start = found[1], found.end() + 1
            seen.setdefault(running, _Seen())
        elif found[2] == running:
            outcome = _ENDINGS[found[1]]
            said = text[start : found.start()]
            output = "" if outcome == PASS else _bounded(said)
            why = "" if outcome == PASS else _message(said)
            seen[running] = _Seen(outcome, int(found[3]) / 1000, why, output)
            running = ""
    if running:
        seen[running] = _Seen(output=_bounded(text[start:]), why=_message(text[start:]))
    return seen


def _seen_in_json(content: bytes) -> Iterator[tuple[str, _Seen]]:
    """Nothing where the file is missing or is not what it should be: then the text must do."""
    try:
        for suite in json.loads(content)["testsuites"]:
            for case in suite["testsuite"]:
                if case["status"] == "RUN":
                    yield f"{suite['name']}.{case['name']}", _from_json(case)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def _from_json(case: dict[str, Any]) -> _Seen:
    seconds = float(str(case.get("time", "0s")).rstrip("s"))
    if failures := case.get("failures"):
        return _Seen(FAIL, seconds, _one_line(str(failures[0]["failure"])))
    return _Seen(SKIP if case.get("result") == "SKIPPED" else PASS, seconds)


def _explain(unit: Unit, ended: Ended, text: str, seen: dict[str, _Seen]) -> list[str]:
    """Give an outcome to the case that ended the process; returns the cases that are still to be run."""
    finished = [case for case, one in seen.items() if one.outcome and not _is_disabled(case)]
    running = next((case for case, one in seen.items() if not one.outcome), "")
    missing = [case for case in unit.cases if case not in seen]
    if running:
        lasted = max(0.0, ended.seconds - sum(seen[case].seconds for case in finished))
        if ended.timed_out and finished and lasted < unit.timeout / 2:
            # The time went to those before it: it did not have a fair share.
            del seen[running]
            return [running, *missing]
        _blame(seen, running, ended, lasted, "in this case")
        return missing
    if missing:
        if not finished:
            for case in missing:
                _blame(seen, case, ended, ended.seconds, "before the first case")
            return []
        if _ALL_RAN.search(text) and not ended.timed_out and not ended.cut:
            for case in missing:
                seen[case] = _Seen(FAIL, why="the program was asked for this case and does not have it")
            return []
        if ended.cut and _ALL_RAN.search(text):
            return missing  # their lines were left out
        _blame(seen, missing[0], ended, 0.0, "before this case")
        return missing[1:]
    _blame_exit(seen, finished, ended)
    return []


def _blame_exit(seen: dict[str, _Seen], finished: list[str], ended: Ended) -> None:
    """All cases came to their end; the process must say the same with its exit code."""
    failed = any(seen[case].outcome == FAIL for case in finished)
    if not finished or (not ended.timed_out and ended.code == (1 if failed else 0)):
        return
    if b"Unable to open file" in ended.stderr and JSON_NAME.encode() in ended.stderr:
        return  # the sandbox does not show the directory for the JSON file: no fault of the cases
    last = finished[-1]
    if seen[last].outcome == PASS:
        _blame(seen, last, ended, seen[last].seconds, "after the last case")


def _blame(seen: dict[str, _Seen], case: str, ended: Ended, seconds: float, when: str) -> None:
    before = seen.get(case, _Seen())
    output = before.output
    if stderr := ended.stderr[-4096:].decode("utf-8", "replace"):
        output = _bounded(f"{output}\n--- stderr of the program ---\n{stderr}")
    if ended.timed_out:
        seen[case] = _Seen(HANG, seconds, f"did not end within {ended.seconds:.0f} s {when}", output)
    elif ended.code < 0:
        seen[case] = _Seen(CRASH, seconds, f"{_how(ended)} {when}", output)
    else:
        said = before.why or _last_line(ended.stderr)
        outcome = CRASH if when == "in this case" else FAIL
        why = f"the program {_how(ended)} {when}" + (f": {said}" if said else "")
        seen[case] = _Seen(outcome, seconds, why, output)


def _how(ended: Ended) -> str:
    if ended.timed_out:
        return f"did not end within {ended.seconds:.0f} s"
    if ended.code >= 0:
        return f"ended with exit code {ended.code}"
    try:
        return signal.Signals(-ended.code).name
    except ValueError:
        return f"signal {-ended.code}"


def _message(text: str) -> str:
    """The first assertion that failed, on one line, with the base name of its file."""
    found = _MESSAGE.search(text)
    return _one_line(f"{os.path.basename(found[1])}: {found[2]}") if found else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MOST_WHY]


def _last_line(content: bytes) -> str:
    lines = content.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:MOST_WHY] if lines else ""


def _bounded(text: str) -> str:
    """The beginning, where the first assertion is, and the end, where a crash is."""
    if len(text) <= MOST_OUTPUT // 2:
        return text
    part = MOST_OUTPUT // 4
    return f"{text[:part]}\n[husk left out {len(text) - 2 * part} characters here]\n{text[-part:]}"

"""conform/suites: `python`: modules of CPython's `test` package, run with `python -m test`, with an outcome per test.

A module is one unit. Natively `--list-tests` and `--list-cases` say which modules and tests there are. Outcomes come
from the lines that -v prints, and from the JUnit file, which is exact but missing where the process died. One more
case, `(module)`, says how the module as a whole ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from husk.conform.outcomes import FAIL, PASS, SKIP
from husk.conform.suite_file import Reader, SuiteFile
from husk.conform.suites.discover import make_unit, no_tests
from husk.conform.suites.endings import all_output, as_text, bad_ending, result, skipped
from husk.conform.suites.regrtest_output import Told, read_junit, read_lines
from husk.conform.units import RESULTS, Reading, Unit
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.conform.suite_file import Suite
    from husk.conform.units import Ask, Ended

MODULE = "(module)"
JUNIT = "junit.xml"
LISTING_SECONDS = 600.0
_NAME = re.compile(r"[A-Za-z_][\w.]*")


def units(suite: Suite, ask: Ask) -> list[Unit]:
    reader = Reader(f"{suite.name}: settings", dict(suite.settings), ("python", "options"))
    start = [*(reader.texts("python") or ("python3",)), "-m", "test"]
    rows = {one.path: one for one in suite.files}
    if not rows:
        rows = {name: SuiteFile(name) for name in _names(suite, ask, [*start, "--list-tests"])}
    if not rows:
        raise no_tests(suite, f"`{' '.join(start)} --list-tests` lists none; is Python's test package installed?")
    cases: dict[str, list[str]] = {name: [] for name in rows}
    run = [name for name, one in rows.items() if not one.skip]
    for case in _names(suite, ask, [*start, "--list-cases", *run]) if run else ():
        module, name = _split(case, rows)
        if module:
            cases[module].append(name)
    if run and not any(cases.values()):
        raise no_tests(suite, f"`{' '.join(start)} --list-cases` knows none of them.")
    options = [*reader.texts("options"), "-v", "--junit-xml", f"{RESULTS}/{JUNIT}"]
    return [
        make_unit(
            suite, one, [*start, *options, *one.args, name], cases=[MODULE] if one.skip else cases[name]
        )
        for name, one in rows.items()
    ]  # fmt: skip


def _names(suite: Suite, ask: Ask, argv: Sequence[str]) -> list[str]:
    listed = ask(replace(make_unit(suite, SuiteFile("(list)"), argv), timeout=LISTING_SECONDS))
    if listed.timed_out:
        raise UsageError(f"{suite.name}: `{' '.join(argv[:4])}` does not end.")
    found = [line.strip() for line in as_text(listed.stdout).splitlines()]
    return [line for line in found if _NAME.fullmatch(line)]


def _split(case: str, modules: dict[str, SuiteFile]) -> tuple[str, str]:
    """`test.test_os.FileTests.test_access` → `test_os`, `FileTests.test_access`."""
    words = case.removeprefix("test.").split(".")
    for at in range(1, len(words)):
        if (module := ".".join(words[:at])) in modules:
            return module, ".".join(words[at:])
    return "", case


def read(unit: Unit, ended: Ended) -> Reading:
    if done := skipped(unit):
        return Reading(done)
    told = read_lines(as_text(ended.stdout + b"\n" + ended.stderr), unit.file)
    read_junit(ended.files.get(JUNIT, b""), unit.file, told)
    bad = bad_ending(unit, ended)
    # A test that ends the process, and some versions of regrtest that stumble over an error, leave others unrun.
    early = told.ran is None and bool(told.outcomes or told.running)
    if early and told.running:
        told.outcomes[told.running] = (*(bad or (FAIL, f"it ended the process with exit code {ended.code}")), 0.0)
    results = [
        result(unit, case, outcome, why, told.traces.get(case, ""), seconds)
        for case, (outcome, why, seconds) in told.outcomes.items()
    ]
    left = [case for case in unit.cases if case not in told.outcomes]
    output = all_output(ended)
    if early and left:
        return Reading(results, _rest(unit, list(told.outcomes), left))
    for case in left:
        results.append(result(unit, case, *_not_run(case, told, bad)))
    end = _end(told, ended, bad)
    return Reading([*results, result(unit, MODULE, *end, "" if end[0] in (PASS, SKIP) else output, ended.seconds)])


def _rest(unit: Unit, ignored: list[str], left: list[str]) -> Unit:
    """The tests that did not get their turn, without those that had it."""
    more = [word for case in ignored for word in ("-i", f"*{unit.file}.{case}")]
    return replace(unit, argv=(*unit.argv[:-1], *more, unit.argv[-1]), cases=tuple(left))


def _not_run(case: str, told: Told, bad: tuple[str, str] | None) -> tuple[str, str]:
    if told.skipped:
        return SKIP, told.skipped
    for fixture, (outcome, why) in told.fixtures.items():  # setUpClass and setUpModule stand for what is below them
        if case.startswith(f"{fixture}.") or not fixture:
            return outcome, why
    if bad:
        return bad[0], f"{bad[1]}, before the first test"
    return FAIL, "it did not run"


def _end(told: Told, ended: Ended, bad: tuple[str, str] | None) -> tuple[str, str]:
    if bad:
        return bad
    if told.skipped:
        return SKIP, told.skipped
    failed = any(outcome == FAIL for outcome, _, _ in told.outcomes.values())
    failed = failed or any(outcome == FAIL for outcome, _ in told.fixtures.values())
    if told.ran is None:
        said = [line for line in as_text(ended.stderr or ended.stdout).splitlines() if line.strip()]
        last = f": {said[-1]}" if said else ""
        return FAIL, f"no test ran, and it ended with exit code {ended.code}{last}"
    if ended.code and not failed:
        return FAIL, f"exit code {ended.code} though no test failed"
    return PASS, ""

"""conform/suites: `skills`: the cases of skills, as `husk skill test` has them, run wherever the suite runs.

A case is one unit. Here a skill is a program like others: its folder and its input are shown at their own paths, and
the result directory is where it works. How husk itself runs a skill, with permissions and packages, is what
`husk skill test` is for.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from husk.conform.outcomes import FAIL, PASS
from husk.conform.suite_file import Reader, SuiteFile
from husk.conform.suites.discover import make_unit, no_tests
from husk.conform.suites.endings import all_output, as_text, bad_ending, exit_code, result, skipped
from husk.conform.units import RESULTS, Reading, Unit
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import DEFAULT_PATH
from husk.skills.open_skill import open_skill
from husk.skills.running import choose
from husk.skills.scan.describe import describe
from husk.skills.testing.cases import FILES, Case, Run, check_run, find_cases
from husk.skills.testing.compare_cases import check_cases

if TYPE_CHECKING:
    from husk.conform.suite_file import Suite
    from husk.conform.units import Ask, Ended

# Its own directory is the home, and the result directory is where it works; the first line on stderr says what that is
# called, for texts that name it.
_START = (
    'HOME=$PWD && export HOME && echo "$1" >&2 && cd "$1" && text=$2 && shift 2 && printf %s "$text" | '
    "{ exec \"$@\"; }"
)  # fmt: skip
_ENVIRONMENT = {"PATH": DEFAULT_PATH, "PYTHONDONTWRITEBYTECODE": "1", "USER": "user", "SHELL": "/bin/sh"}


def units(suite: Suite, ask: Ask) -> list[Unit]:
    Reader(f"{suite.name}: settings", dict(suite.settings), ())
    rows = list(suite.files) or [SuiteFile(path.name) for path in sorted(suite.place.iterdir()) if _has_cases(path)]
    if not rows:
        raise no_tests(suite, f"no folder in {suite.place} has a SKILL.md and a {FILES[0]}.")
    modules: dict[str, bool] = {}
    found: dict[tuple[str, str], Unit] = {}
    for one in rows:
        cases = [Case("(skill)", suite.place / one.path)] if one.skip else find_cases([suite.place / one.path], None)
        check_cases([] if one.skip else cases)
        for case in cases:
            if (one.path, case.name) in found:
                raise UsageError(f"{suite.name}: two cases of {one.path} have the name {case.name!r}.")
            lacking = _lacking(suite, case, ask, modules)
            row = replace(one, skip=one.skip or (f"{lacking} is not on this machine" if lacking else ""))
            found[one.path, case.name] = _unit(suite, row, case)
    return list(found.values())


def _has_cases(path: Path) -> bool:
    return (path / "SKILL.md").is_file() and any((path / name).is_file() for name in FILES)


def _lacking(suite: Suite, case: Case, ask: Ask, modules: dict[str, bool]) -> str:
    for program in case.needs:
        if shutil.which(program, path=DEFAULT_PATH) is None:
            return program
    for name in case.modules:
        if name not in modules:
            words = (
                "/bin/sh",
                "-c",
                'PATH=$1 exec python3 -c "import importlib, sys; importlib.import_module(sys.argv[1])" "$2"',
            )
            modules[name] = ask(make_unit(suite, SuiteFile("(module)"), [*words, "sh", DEFAULT_PATH, name])).code == 0
        if not modules[name]:
            return f"the Python module {name}"
    return ""


def _unit(suite: Suite, one: SuiteFile, case: Case) -> Unit:
    if one.skip:
        return make_unit(suite, one, [], cases=[case.name])
    with open_skill(case.skill) as skill:
        script, root = choose(describe(skill, instructions=False), case.script), str(skill.root)
    given = str(case.input.resolve()) if case.input else ""
    words = [word.replace("{in}", given).replace("{out}", RESULTS).replace("{skill}", root) for word in case.argv]
    argv = ["/bin/sh", "-c", _START, "sh", RESULTS, case.stdin, *script.command(root), *words]
    wanted = {
        "exit": case.exit, "stdout": case.stdout, "stdout_has": case.stdout_has, "files": case.files,
        "base": str(case.base), "in": given, "skill": root,
    }  # fmt: skip
    made = make_unit(suite, one, argv, cases=[case.name], settings=[("wanted", json.dumps(wanted))])
    shown = dict.fromkeys([*made.shown, str(case.skill), *([given] if given else [])])
    return replace(
        made,
        environment=tuple((dict(made.environment) | _ENVIRONMENT | dict(suite.environment)).items()),
        shown=tuple(shown),
    )


def read(unit: Unit, ended: Ended) -> Reading:
    (name,) = unit.cases
    if done := skipped(unit):
        return Reading(done)
    wanted = json.loads(unit.setting("wanted"))
    output = all_output(ended)
    code = exit_code(ended.code)
    bad = bad_ending(unit, ended)
    if bad and (ended.timed_out or code != wanted["exit"]):
        return Reading([result(unit, name, *bad, output, ended.seconds)])
    case = Case(
        name, Path(wanted["skill"]), exit=wanted["exit"], stdout=wanted["stdout"], stdout_has=wanted["stdout_has"],
        files=wanted["files"], base=Path(wanted["base"]),
    )  # fmt: skip
    out, _, stderr = as_text(ended.stderr).partition("\n")
    places = {out: "{out}", wanted["in"]: "{in}", wanted["skill"]: "{skill}"}
    texts = [_named(text, places) for text in (as_text(ended.stdout), stderr)]
    why = check_run(case, Run(code, texts[0], texts[1], ended.files))
    return Reading([result(unit, name, FAIL if why else PASS, why, output if why else "", ended.seconds)])


def _named(text: str, places: dict[str, str]) -> str:
    for path, name in sorted(places.items(), key=lambda item: -len(item[0])):
        if path.startswith("/"):
            text = text.replace(f"{path}/", f"{name}/")
    return text

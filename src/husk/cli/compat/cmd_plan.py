"""cli: `husk plan`: what a runtime should implement next for a corpus of programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.exit_codes import run_command
from husk.cli.options.compat_options import PLAN
from husk.cli.output import say, say_json
from husk.compat.census import read_census
from husk.compat.need.growth import Growth, Program, from_census, from_needs, plan
from husk.compat.need.needs_file import is_needs_file, read_needs
from husk.compat.runtimes import find
from husk.sandbox.errors import UsageError
from husk.skills.testing.cases import FILES as CASE_FILES

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.compat.surface import Surface

MOST_WANTED = 25  # calls in the table of those that most programs need


def main(words: list[str]) -> int:
    return run_command(PLAN, words, _plan)


def _plan(options: Values) -> int:
    if not options.runtime:
        raise UsageError("say which runtime should grow: husk plan --for RUNTIME CORPUS…")
    if options.json and options.markdown:
        raise UsageError("--json and --markdown are two forms of the same; choose one.")
    surface = find(options.runtime)
    weights = dict(_weight(text) for text in options.weight)
    programs = _programs(options.corpus, surface, weights)
    unknown = set(weights) - {program.name for program in programs}
    if unknown:
        raise UsageError(f"--weight {sorted(unknown)[0]}: no program of the corpus has this name.")
    growth = plan(surface.name, programs)
    if options.json:
        say_json(_as_json(growth))
    elif options.markdown:
        say(*_markdown(growth))
    else:
        say(*_lines(growth))
    return 0


def _weight(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdecimal() or not 0 < int(number) < 1_000_000:
        raise UsageError(f"--weight {text}: write NAME=NUMBER, as bash=10.")
    return name, int(number)


def _programs(corpus: list[str], surface: Surface, weights: dict[str, int]) -> list[Program]:
    found: list[Program] = []
    for text in corpus:
        path = Path(text)
        if path.is_dir() and _has_cases(path):
            found += _skills(path, surface, weights)
            continue
        inside = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"{text}: the directory is empty; put traces or files of `husk need` into it.")
        found += [_program(one, surface, weights) for one in inside]
    return found


def _program(path: Path, surface: Surface, weights: dict[str, int]) -> Program:
    name = path.name.split(".")[0]
    weight = weights.get(name, 1)
    if is_needs_file(path):
        return from_needs(name, read_needs(path), surface, weight)
    return from_census(name, read_census(path), surface, weight)


def _has_cases(path: Path) -> bool:
    return any((folder / name).exists() for name in CASE_FILES for folder in (path, *path.iterdir()) if folder.is_dir())


def _skills(path: Path, surface: Surface, weights: dict[str, int]) -> list[Program]:
    """Skills with test cases: each case is traced, then tried without what the runtime lacks. In boxes, all of it."""
    from husk.compat.need.skill_needs import needs_of_case
    from husk.skills.running import Request
    from husk.skills.testing.cases import find_cases

    found = []
    for case in find_cases([path], None):
        needs = needs_of_case(case, Request(), surface, lambda text: say(f"husk plan: {text}", file=sys.stderr))
        if needs is not None:
            found.append(from_needs(needs.name, needs, surface, weights.get(needs.name, 1)))
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _lines(growth: Growth) -> list[str]:
    total = len(growth.programs)
    lines = [f"{growth.runtime} runs {len(growth.runs)} of {total} programs today ({_percent(growth.now)})."]
    if growth.steps:
        lines += ["", "next, in this order:"]
    for number, step in enumerate(growth.steps, 1):
        lines.append(f"  {number}. {', '.join(step.calls)}")
        lines.append(f"     unlocks {', '.join(step.programs)}: {_percent(step.completeness)}")
    silent = {call for program in growth.programs for call in program.unknown}
    if silent:
        lines += ["", f"its file does not speak of {', '.join(sorted(silent))}; taken as there."]
    if any(not program.tried for program in growth.programs):
        lines += ["", "a trace counts every call as needed; `husk need` tells which really are."]
    return lines


def _markdown(growth: Growth) -> list[str]:
    total = len(growth.programs)
    lines = [
        f"{growth.runtime} runs {len(growth.runs)} of {total} programs today ({_percent(growth.now)}).",
        "",
        "| step | implement | unlocks | completeness |",
        "|---|---|---|---|",
    ]
    for number, step in enumerate(growth.steps, 1):
        calls = ", ".join(f"`{call}`" for call in step.calls)
        lines.append(f"| {number} | {calls} | {', '.join(step.programs)} | {_percent(step.completeness)} |")
    lines += ["", "| call | programs that need it | that need only it |", "|---|---|---|"]
    ranked = sorted(growth.wanted.items(), key=lambda entry: (-entry[1][0], -entry[1][1], entry[0]))
    lines += [f"| `{call}` | {users} | {alone} |" for call, (users, alone) in ranked[:MOST_WANTED]]
    return lines


def _as_json(growth: Growth) -> dict[str, object]:
    return {
        "runtime": growth.runtime,
        "completeness": growth.now,
        "runs": growth.runs,
        "steps": [
            {"calls": step.calls, "programs": step.programs, "completeness": step.completeness}
            for step in growth.steps
        ],
        "wanted": {call: {"programs": users, "alone": alone} for call, (users, alone) in growth.wanted.items()},
        "programs": [
            {"name": program.name, "weight": program.weight, "missing": sorted(program.missing),
             "unknown": sorted(program.unknown), "tried": program.tried}
            for program in growth.programs
        ],
    }  # fmt: skip

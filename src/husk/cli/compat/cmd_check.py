"""cli/compat: `husk check`: will this program run in that runtime? The work is in husk.compat.look and .verdict."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

from husk.abi.text import harmless
from husk.cli.exit_codes import run_command
from husk.cli.options.compat_options import CHECK
from husk.cli.out_file import write_text
from husk.cli.output import say, say_json
from husk.compat.census import Census, read_census
from husk.compat.look.elf_file import Unreadable
from husk.compat.look.facts import Look
from husk.compat.look.look_at import look_at
from husk.compat.runtimes import find, names
from husk.compat.surface import Surface
from husk.compat.trace import run_traced
from husk.compat.verdict.judge import BREAKS, UNCLEAR, Verdict, judge
from husk.compat.verdict.measure import MOST_OUTPUT, Baseline, beyond, decided
from husk.compat.verdict.report_pages import html, markdown
from husk.compat.verdict.report_text import look_lines, matrix_lines, verdict_lines
from husk.compat.verdict.sarif import sarif
from husk.compat.verdict.subjects import look_at_subject, subjects_in
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import DEFAULT_PATH, Policy

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

FORMS = ("json", "sarif", "markdown", "html")
ALL = "all"
BROKEN, UNDECIDED = 1, 3


def main(argv: list[str]) -> int:
    return run_command(CHECK, argv, _check)


def _check(options: Values) -> int:
    forms = [form for form in FORMS if getattr(options, form)]
    if len(forms) > 1:
        raise UsageError(f"--{forms[0]} and --{forms[1]} are two forms of the same; choose one.")
    if not options.what and not options.program:
        raise UsageError("say what to check: a program, a script, a directory, a skill, an image, or -- CMD ARGS….")
    if options.trace and len(options.what) + bool(options.program) > 1:
        raise UsageError("--trace is the trace of one program; name that one alone.")
    surfaces = _surfaces(options.against)
    census = read_census(options.trace) if options.trace else None
    looks: list[Look] = []
    verdicts: list[Verdict] = []
    subjects = [subject for word in options.what for subject in subjects_in(word)]
    for word in subjects:
        _check_file(word, options, surfaces, census, looks, verdicts, alone=len(subjects) == 1)
    if options.program:
        _check_command(options, surfaces, census, looks, verdicts)
    _print(_report(forms[0] if forms else "", looks, verdicts), options.out)
    return exit_code(verdicts)


def _print(report: list[str] | dict[str, Any], out: str) -> None:
    """Lines, or a document. Names of files are in them: a page in a file must be as harmless as one on a terminal."""
    if out and isinstance(report, list):
        write_text(out, "".join(f"{harmless(line)}\n" for line in report))
    elif out:
        write_text(out, json.dumps(report, indent=2) + "\n")
    elif isinstance(report, list):
        say(*report)
    else:
        say_json(report)


def exit_code(verdicts: list[Verdict]) -> int:
    statuses = {one.status for one in verdicts}
    return BROKEN if BREAKS in statuses else UNDECIDED if UNCLEAR in statuses else 0


def _surfaces(wanted: list[str]) -> list[Surface]:
    chosen = [name for word in wanted or ["husk"] for name in (names() if word == ALL else [word])]
    return list({surface.name: surface for surface in map(find, chosen)}.values())


def _check_file(
    word: str,
    options: Values,
    surfaces: list[Surface],
    census: Census | None,
    looks: list[Look],
    verdicts: list[Verdict],
    *,
    alone: bool,
) -> None:
    try:
        look = look_at_subject(word, options.store)
    except (Unreadable, UsageError) as error:
        if alone or (isinstance(error, UsageError) and word in options.what):
            raise
        # One of many: the others still get their verdicts.
        looks.append(Look(word, "file", blind=True, problems=[str(error)]))
        look = looks[-1]
    else:
        looks.append(look)
    verdicts += [judge(word, surface, look, census) for surface in surfaces]


def _check_command(
    options: Values, surfaces: list[Surface], census: Census | None, looks: list[Look], verdicts: list[Verdict]
) -> None:
    """Look at the program, trace it in a box, then run it with each surface and compare."""
    policy = Policy(list(options.program))
    policy.mounts = list(options.mount)
    policy.namespaces = not options.no_namespaces
    policy.timeout = options.timeout
    look = _look_at_program(options.program[0], policy)
    if look is not None:
        looks.append(look)
    name = shlex.join(options.program)
    baseline = Baseline(policy)
    seen = census or run_traced(options.program, policy=policy, timeout=baseline.timeout, stdin=b"", keep=MOST_OUTPUT)
    for surface in surfaces:
        verdict = decided(judge(name, surface, look, seen), baseline.compare(surface))
        if look is not None:
            verdict.beyond = beyond(verdict, judge(name, surface, look, None))
        verdicts.append(verdict)


def _look_at_program(word: str, policy: Policy) -> Look | None:
    """The program as the host has it; none where only the box does."""
    path = word if "/" in word else shutil.which(word, path=DEFAULT_PATH)
    for mount in policy.mounts:
        if mount.mode != "image" and f"{word}/".startswith(f"{mount.target}/"):
            path = str(mount.source) + word[len(mount.target) :]
    try:
        return look_at(path) if path else None
    except Unreadable:
        return None


def _report(form: str, looks: list[Look], verdicts: list[Verdict]) -> list[str] | dict[str, Any]:
    if form == "json":
        return {
            "format": "husk-check 1",
            "looks": [look.as_json() for look in looks],
            "verdicts": [verdict.as_json() for verdict in verdicts],
            "exit_code": exit_code(verdicts),
        }
    if form == "sarif":
        return sarif(verdicts)
    if form:
        return (markdown(verdicts) if form == "markdown" else html(verdicts)).splitlines()
    subjects = {one.subject for one in verdicts}
    if len(subjects) > 1:
        return matrix_lines(verdicts)
    lines = [line for look in looks for line in look_lines(look)]
    for verdict in verdicts:
        lines += ["", *verdict_lines(verdict)]
    return lines

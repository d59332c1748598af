"""cli: `husk doctor`: which mechanisms work on this machine, which are missing, what that means, and what to do; with
`--box`, what a running box waits for."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from husk.cli.exit_codes import run_command
from husk.cli.options.other_options import DOCTOR
from husk.cli.output import say, say_json
from husk.cli.resident.cmd_resident import running, status_line
from husk.sandbox.doctor.examine import Finding, examine, exit_code
from husk.sandbox.doctor.rows import BETTER, FULL, MINIMUM

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

VERDICTS = {
    0: "husk can run here, behind all its walls.",
    1: "husk can run here, with less. Missing: {}. What that means is above.",
    125: "husk cannot run here as it is. Missing: {}. What to do is above.",
}
WITHOUT_MINIMUM = 125
TITLES = {MINIMUM: "without these husk does not run", FULL: "walls and abilities", BETTER: "nice to have"}


def main(argv: list[str]) -> int:
    return run_command(DOCTOR, argv, _doctor)


def _doctor(options: Values) -> int:
    if options.box:
        return _box(options)
    findings = examine()
    code = exit_code(findings)
    if options.json:
        document = {
            "exit_code": code,
            "verdict": verdict(findings, code),
            "findings": [finding.as_dict() for finding in findings],
            "residents": running(),
        }
        say_json(document)
    else:
        *rows, last = table(findings, code).splitlines()
        say(*rows, f"{status_line(running())} (docs/resident.md).", last)
    return code


def _box(options: Values) -> int:
    """What a running box waits for."""
    from husk.sandbox.kept.operations import waits_of

    waits = waits_of(options.box)
    if options.json:
        say_json({"box": options.box, "waits": waits})
        return 0
    if not waits:
        say("No process of the box waits in a call.")
    for wait in waits:
        say(f"{_duration(wait['seconds'])}  {wait['program']} (pid {wait['pid']}, thread {wait['tid']})",
            f"            {wait['call']}", f"            {wait['where']}")  # fmt: skip
    return 0


def _duration(seconds: float) -> str:
    return f"{seconds:8.1f} s" if seconds >= 0 else "   unknown"


def verdict(findings: list[Finding], code: int) -> str:
    """The verdict in one line, naming root causes only."""
    needed = (MINIMUM,) if code == WITHOUT_MINIMUM else (MINIMUM, FULL)
    missing = [finding for finding in findings if not finding.stands and finding.row.need in needed]
    return VERDICTS[code].format("; ".join(one.row.what for one in missing if one.because is None))


def table(findings: list[Finding], code: int) -> str:
    """Plain text, the same on a terminal and in a file."""
    lines = []
    for need, title in TITLES.items():
        lines.append(f"{title}:")
        for finding in findings:
            if finding.row.need == need:
                lines += _entry(finding)
        lines.append("")
    return "\n".join([*lines, *textwrap.wrap(verdict(findings, code), 100), ""])


def _entry(finding: Finding) -> list[str]:
    row = finding.row
    mark = "ok" if finding.stands else "no" if finding.because is None else "--"
    head = f"  {mark:<4}{row.what}"
    lines = textwrap.wrap(f"{head}: {finding.detail}", 100, subsequent_indent=" " * 8)
    if not finding.stands and (finding.because is None or finding.because.need == FULL):
        lines += textwrap.wrap(f"which means: {row.without}", 100, initial_indent=" " * 8, subsequent_indent=" " * 10)
    if not finding.stands and finding.because is None:
        lines += textwrap.wrap(f"what to do: {row.remedy}", 100, initial_indent=" " * 8, subsequent_indent=" " * 10)
    return lines

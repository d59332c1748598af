"""cli/skill: `husk skill run`: a script of a skill in a box. The work is in husk.skills.running."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from husk.cli.cmd_run import with_signals
from husk.cli.options.skill_options import NEEDS_MORE
from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.cli.skill.skill_request import read_request
from husk.sandbox.errors import UsageError
from husk.skills import learn_permissions
from husk.skills.open_skill import open_skill
from husk.skills.running import prepare

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    return run_skill(options, shell=options.shell, quiet=options.quiet)


def run_skill(options: Values, *, shell: bool, quiet: bool) -> int:
    if shell and not (os.isatty(0) and os.isatty(1)):
        raise UsageError("--shell needs a terminal for input and output; without one, run the script.")
    if shell and options.json:
        raise UsageError("--shell talks to the terminal and has no --json.")
    if options.check and options.permissions is None:
        raise UsageError(
            "--check needs --permissions FILE, the manifest to check the run against; `husk skill learn` writes one."
        )
    request = read_request(options)
    with open_skill(options.path) as skill:
        prepared = prepare(skill, request)
        if not (quiet or options.json):
            show.notes(prepared.notes)
        outcome, produced = prepared.run(capture=options.json, around=with_signals)
    judged = learn_permissions.beyond(request.permissions, outcome) if options.check and request.permissions else []
    beyond = [str(item) for item in judged if item.fails]
    code = NEEDS_MORE if beyond else outcome.exit_code
    if options.json:
        say_json(
            show.as_dict(outcome, produced)
            | {"beyond": beyond, "judged": [item.as_dict() for item in judged], "notes": prepared.notes}
        )
    elif not quiet:
        show.outcome(outcome, produced, options.output)
    if beyond:
        say(f"husk skill: it needs more than {options.permissions} gives:", file=sys.stderr)
        show.judged(judged)
    return code

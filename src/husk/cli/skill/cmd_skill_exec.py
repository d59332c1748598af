"""cli/skill: `husk skill exec` and `shell`: any command in the box of one skill or of several."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from husk.cli.skill.cmd_skill_run import show_run
from husk.cli.skill.skill_request import read_request
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    if not options.program:
        raise UsageError("say what to run: husk skill exec PATH -- CMD…; `husk skill shell` opens a shell.")
    request = read_request(options)
    request.in_copy, request.command, request.args = True, options.program, options.program[1:]
    return show_run(options, request, quiet=options.quiet)


def shell(options: Values) -> int:
    """On a terminal a shell to type in; otherwise its input is a script for it."""
    request = read_request(options)
    request.in_copy, request.shell, request.terminal = True, True, os.isatty(0) and os.isatty(1) and not options.json
    return show_run(options, request, quiet=options.quiet)

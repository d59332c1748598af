"""cli/skill: `husk skill run`: a script of a skill in a box. The work is in husk.skills.running."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from husk.cli.cmd_run import RepeatedRefusals, with_signals
from husk.cli.options.skill_options import NEEDS_MORE
from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.cli.skill.skill_request import read_request
from husk.sandbox.errors import UsageError
from husk.skills import learn_permissions
from husk.skills.open_skill import open_skill
from husk.skills.running import Request, prepare

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    return run_skill(options, shell=options.shell, quiet=options.quiet)


def run_skill(options: Values, *, shell: bool, quiet: bool) -> int:
    if shell and not (os.isatty(0) and os.isatty(1)):
        raise UsageError("--shell needs a terminal; without one, `husk skill shell` reads commands from its input.")
    if shell and options.json:
        raise UsageError("--shell talks to the terminal and has no --json.")
    return show_run(options, read_request(options), quiet=quiet)


def show_run(options: Values, request: Request, *, quiet: bool) -> int:
    """Run what was asked for and say how it went."""
    if options.check and not options.permissions:
        raise UsageError(
            "--check needs --permissions FILE, the manifest to check the run against; `husk skill learn` writes one."
        )
    request.keep_changes = True
    with ExitStack() as opened:
        # A kept box outlives a copy of the skill. Where its working directory is the skill's, it shows the folder.
        copied = request.input is not None or any(mount.mode == "cow" for mount in request.mounts)
        lasting = request.keep or (request.in_copy and copied and not (request.work or request.output))
        skill, *also = [
            opened.enter_context(open_skill(path, frozen=not lasting, watched=bool(lasting)))
            for path in (options.path, *getattr(options, "also", ()))
        ]
        prepared = prepare(skill, request, also)
        if not (quiet or options.json):
            show.notes(prepared.notes)
        held = prepared.permissions
        early = None
        if not (quiet or options.json):
            early = RepeatedRefusals("husk skill", partial(show.advice, held=held is not None)).note
        outcome, produced = prepared.run(capture=options.json, around=with_signals, refused=early)
    judged = learn_permissions.beyond(held, outcome) if options.check and held is not None else []
    beyond = [str(item) for item in judged if item.fails]
    code = NEEDS_MORE if beyond else outcome.exit_code
    if options.json:
        say_json(
            show.as_dict(outcome, produced)
            | {"beyond": beyond, "judged": [item.as_dict() for item in judged]}
            | {"notes": prepared.notes + produced.notes}
        )
    elif not quiet:
        show.outcome(outcome, produced, options.output, held=held is not None)
    else:
        show.kept(produced)
    if beyond:
        given = options.permissions if isinstance(options.permissions, list) else [options.permissions]
        say(f"husk skill: it needs more than {' and '.join(map(str, given))} gives:", file=sys.stderr)
        show.judged(judged)
    return code

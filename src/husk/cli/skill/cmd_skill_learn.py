"""cli/skill: `husk skill learn`: one run, and the manifest of what it used. The work is in husk.skills."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.cmd_run import with_signals
from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.cli.skill.cmd_skill_run import run_skill
from husk.cli.skill.skill_request import read_request
from husk.sandbox.errors import UsageError
from husk.skills import learn_permissions
from husk.skills.open_skill import open_skill
from husk.skills.package_wishes import lock_beside_manifest
from husk.skills.permission_file import propose
from husk.skills.running import prepare
from husk.skills.scan.describe import describe

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

ANY = "any"


def main(options: Values) -> int:
    if options.check:
        return run_skill(options, shell=False, quiet=False)
    accepted = _exit_codes(options.exit)
    request = read_request(options, written=True)
    with open_skill(options.path, frozen=True) as skill:
        target = options.write or options.permissions or Path(f"{skill.name}.permissions.toml")
        request.lock = request.lock or lock_beside_manifest(target)  # written if packages are installed
        prepared = prepare(skill, request)
        start = request.permissions or propose(describe(skill))[0]
        start.skill, start.content = skill.name, skill.digest()
        outcome, produced = prepared.run(capture=options.json, around=with_signals)
    # A signal or a limit cut the run short, whatever the person accepts: it did not do all that it does.
    if outcome.signal or outcome.limits or outcome.exit_code not in (accepted or [outcome.exit_code]):
        show.outcome(outcome, produced, options.output)
        raise UsageError(f"the run ended {_ending(outcome.exit_code, cut=bool(outcome.signal or outcome.limits))}.")
    if produced.notes:
        raise UsageError(f"{produced.notes[0]}, so nothing was learnt from it; run it again when the folder rests.")
    tight = learn_permissions.tighten(start, request, outcome, prepared.provided.given)
    text = tight.text(learn_permissions.level_notes(outcome))
    target.write_text(text, "utf-8")
    if options.json:
        say_json(
            show.as_dict(outcome, produced) | {"permissions": tight.as_dict(), "manifest": text, "file": str(target)}
        )
    else:
        show.outcome(outcome, produced, options.output)
        say(f"husk skill: learnt; {target} allows what this run used.", file=sys.stderr)
    return 0


def _exit_codes(words: list[str]) -> list[int]:
    """Those to learn from; empty: all."""
    if ANY in words:
        return []
    for word in words:
        if not (word.isascii() and word.isdigit() and int(word) < 256):
            raise UsageError(f"--exit {word}: give an exit code from 0 to 255, or {ANY}.")
    return [0, *map(int, words)]


def _ending(code: int, *, cut: bool) -> str:
    if cut:
        return f"by a signal or a limit (exit code {code}), so nothing was learnt from it"
    return f"with exit code {code}, so nothing was learnt from it; if that is a normal result of it, --exit {code}"

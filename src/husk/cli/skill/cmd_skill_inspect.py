"""cli/skill: `husk skill inspect`: what a skill is and would need. Runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.sandbox.errors import UsageError
from husk.skills.open_skill import open_skill
from husk.skills.permission_file import propose
from husk.skills.scan.describe import describe

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    with open_skill(options.path) as skill:
        found = describe(skill)
        asked, notes = propose(found)
        valid = skill.head.valid and not (options.strict and skill.head.problems)
        if options.manifest:
            skill.check()
            text = asked.text(notes)
            if options.json:
                say_json({"permissions": text})
            else:
                say(*text.splitlines())
        elif options.json:
            say_json(found.as_dict() | {"valid": valid, "permissions": asked.text(notes)})
        else:
            show.description(found)
            say("", *asked.text(notes).splitlines())
        return 0 if valid else UsageError.exit_code

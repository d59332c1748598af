"""skills: where a box shows skills, inputs and results, and the variables that say so. Names only; nothing is mounted
here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.skills.open_skill import Skill

# The first skill is at SKILL; each one is also at SKILLS/NAME, which does not depend on the order.
SKILL, SKILLS, INPUT, OUTPUT, WORK = "/skill", "/skills", "/in", "/out", "/workspace"
# The second is what instructions written for Claude Code say.
VARIABLES = ("SKILL_DIR", "CLAUDE_SKILL_DIR")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def place_of(skill: Skill) -> str:
    """The skill's own place. A name that is no plain file name is not used: it comes from a stranger."""
    for name in (skill.name, skill.folder):
        if _NAME.fullmatch(name):
            return f"{SKILLS}/{name}"
    return f"{SKILLS}/skill"


def check_places(skills: list[Skill]) -> None:
    """Raise UsageError where two skills would stand at one place."""
    taken: dict[str, Skill] = {}
    for skill in skills:
        place = place_of(skill)
        if place in taken:
            raise UsageError(
                f"{taken[place].source} and {skill.source} are both called {place.rpartition('/')[2]!r}; a box shows "
                "one skill of a name: leave one out, or change its name."
            )
        taken[place] = skill


def variables(skill: Skill) -> dict[str, str]:
    return dict.fromkeys(VARIABLES, place_of(skill))

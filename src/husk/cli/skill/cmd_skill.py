"""cli/skill: `husk skill`: hands each sub-command to its own module, which is imported only then."""

from __future__ import annotations

from husk.cli.exit_codes import handler_in, run_command
from husk.cli.options.skill_options import SKILL

_HANDLERS = {
    "inspect": handler_in("husk.cli.skill.cmd_skill_inspect"),
    "run": handler_in("husk.cli.skill.cmd_skill_run"),
    "exec": handler_in("husk.cli.skill.cmd_skill_exec"),
    "shell": handler_in("husk.cli.skill.cmd_skill_exec", "shell"),
    "learn": handler_in("husk.cli.skill.cmd_skill_learn"),
    "lock": handler_in("husk.cli.skill.cmd_skill_lock"),
    "test": handler_in("husk.cli.skill.cmd_skill_test"),
    "diff": handler_in("husk.cli.skill.cmd_skill_diff"),
    "review": handler_in("husk.cli.skill.cmd_skill_review"),
}


def main(words: list[str]) -> int:
    return run_command(SKILL, words, _HANDLERS)

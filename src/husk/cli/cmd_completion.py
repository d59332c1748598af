"""cli: `husk completion SHELL`: what a shell needs to complete husk's commands and options.

The source is the option table: a row added there needs nothing here. The shells' own words are in
completion_scripts.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from husk.cli import all_commands
from husk.cli.exit_codes import run_command
from husk.cli.options import HELP, Command, Option
from husk.cli.options.other_options import COMPLETION
from husk.cli.output import say_as_is, say_json
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


class Level:
    """What may follow the words `path`: `words` (sub-commands, or values of an argument) with what they mean, and
    options."""

    def __init__(self, path: str, words: dict[str, str], options: tuple[Option, ...]) -> None:
        self.path, self.words, self.options = path, words, options

    def as_dict(self) -> dict[str, Any]:
        options = [
            {
                "names": list(option.names),
                "help": option.help,
                "takes": bool(option.metavar),
                "files": option.files,
                "values": list(option.choices),
            }
            for option in self.options
        ]
        return {"path": self.path, "commands": self.words, "options": options}


def levels() -> list[Level]:
    """The whole tree, the top first."""
    commands = all_commands()
    version = Option("-V, --version", "", "print which husk this is")
    found = [Level("husk", {command.name: command.summary for command in commands}, (HELP, version))]
    for command in commands:
        found += _below("husk", command)
    return found


def _below(path: str, command: Command) -> list[Level]:
    path = f"{path} {command.name}"
    words = {one.name: one.summary for one in command.commands}
    for argument in command.arguments:
        words |= dict.fromkeys(argument.choices, argument.help)
    return [Level(path, words, command.options)] + [
        level for one in command.commands for level in _below(path, one)
    ]


def main(argv: list[str]) -> int:
    return run_command(COMPLETION, argv, _completion)


def _completion(options: Values) -> int:
    from husk.cli.completion_scripts import SHELLS

    if options.json:
        say_json({"commands": [level.as_dict() for level in levels()]})
    elif not options.shell:
        raise UsageError("say which shell: bash, zsh or fish.")
    else:
        say_as_is(SHELLS[options.shell](levels()))
    return 0

"""cli: `husk completion SHELL`: what a shell needs to complete husk's commands and options.

The source is the option table: a row added there needs nothing here. The shells' own words are in
completion_scripts.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from husk.cli import all_commands
from husk.cli.exit_codes import run_command
from husk.cli.options import HELP, Command, Option
from husk.cli.options.other_options import COMPLETION
from husk.cli.output import say_as_is, say_json, say_result
from husk.sandbox.errors import HuskError, UsageError
from husk.store.store_errors import StoreError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+=-]*")


class Level:
    """What may follow the words `path`: `words` (sub-commands, or values of an argument) with what they mean, and
    options."""

    def __init__(self, path: str, words: dict[str, str], options: tuple[Option, ...], names_of: str = "") -> None:
        self.path, self.words, self.options = path, words, options
        self.names_of = names_of  # of the first argument

    def as_dict(self) -> dict[str, Any]:
        options = [
            {
                "names": list(option.names),
                "help": option.help,
                "takes": bool(option.metavar),
                "files": option.files,
                "values": list(option.choices),
                "names_of": option.names_of,
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
    names_of = next((argument.names_of for argument in command.arguments), "")
    return [Level(path, words, command.options, names_of)] + [
        level for one in command.commands for level in _below(path, one)
    ]


def names(kind: str) -> list[str]:
    """What there is now. Completion is no place for complaints: what cannot be looked at has no names.

    Shells expand the words that they are offered (bash: `compgen -W`), and the name of a profile is a stranger's: one
    with `$(…)` in it would run on the host."""
    try:
        return [name for name in _LISTS[kind]() if PLAIN.fullmatch(name)]
    except (HuskError, StoreError, OSError):
        return []


def _boxes() -> list[str]:
    from husk.sandbox.kept.kept_boxes import KeptBoxes

    return KeptBoxes().names()


def _images() -> list[str]:
    from husk.store.store import Store

    return Store.open("").images.list()


def _profiles() -> list[str]:
    from husk.cli.profiles.find_profile import known_profiles
    from husk.cli.run_policy import project_file

    return [*known_profiles(project_file()), "none"]


def _runtimes() -> list[str]:
    from husk.compat.runtimes import names as runtime_names

    return list(runtime_names())


def _limits() -> list[str]:
    from husk.sandbox.limits.limits import NAMES

    return [f"{name}=" for name in NAMES]


def _devices() -> list[str]:
    from husk.sandbox.devices.passed_devices import NAMES

    return list(NAMES)


_LISTS = {
    "boxes": _boxes, "images": _images, "profiles": _profiles, "runtimes": _runtimes, "limits": _limits,
    "devices": _devices,
}  # fmt: skip


def main(argv: list[str]) -> int:
    return run_command(COMPLETION, argv, _completion)


def _completion(options: Values) -> int:
    from husk.cli.completion_scripts import SHELLS

    if options.names:
        found = names(options.names)
        say_result(found, found, as_json=options.json)
    elif options.json:
        say_json({"commands": [level.as_dict() for level in levels()]})
    elif not options.shell:
        raise UsageError("say which shell: bash, zsh or fish.")
    else:
        say_as_is(SHELLS[options.shell](levels()))
    return 0

"""cli: the option table. Parsing, `--help`, completion, the manual and docs/command-line.md all come from its rows.

Here: what a row is. The rows are in the `*_options.py` files beside this one, a file for each family of commands, and
only the file of the command that runs is imported. Not here: what a command does.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Option:
    """One option. `names` are its spellings, the last one names the attribute that holds its value."""

    __slots__ = (
        "attribute", "choices", "default", "files", "group", "help", "many", "metavar", "more", "names", "names_of",
        "read",
    )  # fmt: skip

    def __init__(
        self,
        names: str,
        metavar: str,
        help: str,
        *,
        group: str = "",
        attribute: str = "",
        default: Any = "",
        many: bool = False,
        choices: tuple[str, ...] = (),
        files: bool = False,
        names_of: str = "",
        read: Callable[[str], Any] | None = None,
        more: str = "",
    ) -> None:
        self.names = tuple(names.split(", "))
        self.metavar = metavar  # what stands for its value; empty: a flag
        self.help, self.more = help, more  # `more` follows on docs/command-line.md only
        self.group = group
        self.attribute = attribute or self.names[-1].lstrip("-").replace("-", "_")
        self.default = default if metavar else False
        self.many = many  # it may be given several times, and its value is a list
        self.choices = choices
        self.files = files  # a shell completes its value with names of files
        self.names_of = names_of  # or with names of these: a kind of `husk completion --names`
        self.read = read  # turns the word into a value, or raises UsageError


class Argument:
    """A word that is no option. `count` is one of "1", "?", "*" and "+", as in a regular expression."""

    __slots__ = ("attribute", "choices", "count", "help", "metavar", "names_of", "read")

    def __init__(
        self,
        metavar: str,
        help: str = "",
        *,
        count: str = "1",
        attribute: str = "",
        choices: tuple[str, ...] = (),
        names_of: str = "",
        read: Callable[[str], Any] | None = None,
    ) -> None:
        self.metavar, self.help, self.count, self.choices, self.read = metavar, help, count, choices, read
        self.names_of = names_of  # as for an option
        self.attribute = attribute or metavar.lower()

    @property
    def usage(self) -> str:
        return {"1": "{}", "?": "[{}]", "*": "[{}…]", "+": "{}…"}[self.count].format(self.metavar)


HELP = Option("-h, --help", "", "print this text")
JSON = Option("--json", "", "print the result as one JSON document; an error is one JSON object")
CLUSTER = Option("--cluster", "ADDRESS", "run them on the workers of a Dask cluster, as tcp://host:8786",
                 more="[More than one machine](scale.md).")  # fmt: skip


class Command:
    """A command, or a sub-command. It has sub-commands, or it has options and arguments.

    `program` is what the usage calls the words of a program, for a command that takes one. They follow `--`, or with
    `program_first` they also begin at the first word that is no option.
    """

    __slots__ = (
        "arguments", "commands", "end", "name", "options", "options_of", "program", "program_first", "summary", "text",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        summary: str,
        text: str = "",
        *,
        options: tuple[Option, ...] = (),
        options_of: str = "",
        arguments: tuple[Argument, ...] = (),
        commands: tuple[Command, ...] = (),
        program: str = "",
        program_first: bool = False,
        end: str = "",
    ) -> None:
        self.name = name
        self.summary = summary  # a few words, for lists of commands
        self.text = text or f"{summary[0].upper()}{summary[1:]}."
        self.options = (*options, HELP)
        self.options_of = options_of  # the command where docs/command-line.md shows them, if not at this one
        self.arguments, self.commands = arguments, commands
        self.program, self.program_first = program, program_first
        self.end = end  # what `--help` says last

    @property
    def usage(self) -> str:
        """What follows the command's name."""
        if self.commands:
            return "COMMAND …"
        words = ["[options]", *(argument.usage for argument in self.arguments)]
        if self.program:
            words.append(f"[--] {self.program}" if self.program_first else f"[-- {self.program}]")
        return " ".join(words)

    def option(self, name: str) -> Option | None:
        for option in self.options:
            if name in option.names:
                return option
        return None

    def below(self, name: str) -> Command | None:
        """The sub-command of that name."""
        for command in self.commands:
            if command.name == name:
                return command
        return None

"""cli: the words of a command line, read by the option table. Every mistake is a UsageError of one sentence.

`husk run` takes the options in the order they were given; the other commands take them as attributes.
"""

from __future__ import annotations

from husk.sandbox.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from husk.cli.options import Argument, Command, Option


class Words:
    """A command line taken apart: options with the name they were given by and their value, then the other words.

    `program` are the words of a program to run, for a command that takes one.
    """

    __slots__ = ("_command", "_path", "arguments", "options", "program")

    def __init__(self, path: str, command: Command, words: list[str]) -> None:
        self._path, self._command = path, command
        self.options: list[tuple[Option, str, str]] = []
        self.arguments: list[str] = []
        self.program: list[str] = []
        left = iter(words)
        for word in left:
            if word == "--":
                (self.program if command.program else self.arguments).extend(left)
            elif word[:1] == "-" and word != "-":
                self._option(word, left)
            elif command.program_first:
                self.program = [word, *left]
            else:
                self.arguments.append(word)

    def _option(self, word: str, left: Iterator[str]) -> None:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        option = self._command.option(name) or self._abbreviated(name)
        if option is None and not word.startswith("--") and len(word) > 2:
            self._short_ones(word, left)
            return
        if option is None:
            raise self._unknown(name)
        if equals and not option.metavar:
            raise UsageError(f"{name} takes no value; leave out {word.removeprefix(name)}")
        self._take(option, name, value if equals else None, left)

    def _short_ones(self, word: str, left: Iterator[str]) -> None:
        """`-ti` is `-t -i`, and `-oFILE` is `-o FILE`."""
        for at, letter in enumerate(word[1:], 2):
            option = self._command.option(f"-{letter}")
            if option is None:
                raise self._unknown(word)
            if option.metavar:
                self._take(option, f"-{letter}", word[at:] or None, left)
                return
            self._take(option, f"-{letter}", None, left)

    def _take(self, option: Option, name: str, value: str | None, left: Iterator[str]) -> None:
        if option.metavar and value is None:
            value = next(left, None)
            if value is None or self._command.option(value):
                raise needs_value(self._path, name)
        self.options.append((option, name, value or ""))

    def _abbreviated(self, name: str) -> Option | None:
        """The only option that begins like this; never before a program, where a misread word could do harm."""
        if self._command.program_first or len(name) < 3:
            return None
        found = [option for option in self._command.options if any(one.startswith(name) for one in option.names)]
        return found[0] if len(found) == 1 else None

    def _unknown(self, name: str) -> UsageError:
        names = [one for option in self._command.options for one in option.names]
        return UsageError(f"there is no option {name}{close_match(name, names)} `{self._path} --help` lists them.")


def needs_value(path: str, name: str) -> UsageError:
    return UsageError(f"{name} needs a value; `{path} --help` shows which.")


def close_match(name: str, names: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]}?" if near else ";"


class Values:
    """The values of a command line, as attributes named by the table. `program` holds the words of a program."""

    def __init__(self, path: str, command: Command, words: list[str]) -> None:
        said = Words(path, command, words)
        self.help = False
        self.program = said.program
        for option in command.options:
            setattr(self, option.attribute, [] if option.many else option.default)
        for option, name, text in said.options:
            value = _value(option, name, text) if option.metavar else True
            if option.many:
                getattr(self, option.attribute).append(value)
            else:
                setattr(self, option.attribute, value)
        if not self.help:
            self._assign(f"{path} {command.usage}", command.arguments, said.arguments)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the option table has no attribute {name!r} for this command")

    def _assign(self, usage: str, arguments: tuple[Argument, ...], words: list[str]) -> None:
        left = list(words)
        for argument in arguments:
            if argument.count in "*+":
                taken, left = left, []
                value: Any = [_value(argument, argument.metavar, word) for word in taken]
            else:
                taken, left = left[:1], left[1:]
                value = _value(argument, argument.metavar, taken[0]) if taken else ""
            if not taken and argument.count in "1+":
                raise UsageError(f"{argument.metavar} is missing; write: {usage}")
            setattr(self, argument.attribute, value)
        if left:
            raise UsageError(f"{left[0]!r} is one word too many; write: {usage}")


def _value(row: Option | Argument, name: str, text: str) -> Any:
    if row.choices and text not in row.choices:
        raise UsageError(f"{name} {text!r}: it is one of {', '.join(row.choices)}.")
    if row.read is None:
        return text
    try:
        return row.read(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def find_command(command: Command, words: list[str]) -> tuple[str, Command, list[str]]:
    """The sub-command that is meant: its path, its row, and the words after it. A row without any is itself."""
    path = f"husk {command.name}"
    while command.commands and not (words and words[0] in ("-h", "--help")):
        names = [one.name for one in command.commands]
        word = next((one for one in words if not one.startswith("-")), "")
        if not word:
            raise UsageError(f"say what to do: {', '.join(names)}; `{path} --help` tells more.")
        below = command.below(word)
        if below is None:
            raise UsageError(f"there is no command {word!r}{close_match(word, names)} `{path} --help` lists them.")
        if words[0] != word:
            raise UsageError(f"{words[0]} goes after {word}: {path} {word} {words[0]}")
        path, command, words = f"{path} {word}", below, words[1:]
    return path, command, words


def wants_json(command: Command, words: list[str]) -> bool:
    """Is --json among the words? Asked after a mistake, so words that make no sense are passed over."""
    left = iter(words)
    for word in left:
        if word == "--":
            return False
        name = word.partition("=")[0]
        if name == "--json" or (not command.program_first and name == "--json"[: max(len(name), 4)]):
            return True
        if not command.program_first:
            continue
        if not word.startswith("-"):
            return False  # a program: what follows is its own
        option = command.option(word)
        if option is not None and option.metavar:
            next(left, None)
    return False

"""cli: `husk completion SHELL`: what a shell needs to complete husk's commands and options.

The source is the command table and what each command's `--help` prints: so whatever is documented can be completed, and
a command added to the table needs nothing here. The shells' own words are in completion_scripts.py.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
from dataclasses import asdict, dataclass, field

from husk.cli import COMMANDS

_OPTION = re.compile(r"^  (-.*?)(?:  +(.*))?$")
_COMMAND = re.compile(r"^    ([a-z][a-z-]*)(?:  +(.*))?$")
_FILES = ("DIR", "FILE", "PATH", "SRC", "CASES")


@dataclass
class Option:
    """`values` are the words that may follow; `takes` says that something must. Files are the shell's to complete."""

    names: list[str]
    help: str = ""
    takes: bool = False
    files: bool = False
    values: list[str] = field(default_factory=list)


@dataclass
class Level:
    """What may follow the words `path`: commands (with what they do) and options."""

    path: str
    commands: dict[str, str] = field(default_factory=dict)
    options: list[Option] = field(default_factory=list)


def levels() -> list[Level]:
    """The whole tree, the top first."""
    top = Level("husk", {name: what for name, (_, _, what) in COMMANDS.items()})
    top.options = [Option(["--help", "-h"], "a short manual"), Option(["--version", "-V"], "which husk this is")]
    found = [top]
    for name in COMMANDS:
        found += _below(name, [])
    return found


def _below(command: str, words: list[str]) -> list[Level]:
    level = read_help(" ".join(["husk", command, *words]), _help_of(command, words))
    return [level] + [one for word in level.commands for one in _below(command, [*words, word])]


def _help_of(command: str, words: list[str]) -> str:
    module = COMMANDS[command][0]
    name, _, function = module.partition(":")
    main = getattr(importlib.import_module(name), function or "main")
    printed, width = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "500"  # argparse breaks lines by it
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([*words, "--help"])
    finally:
        if width is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = width
    return printed.getvalue()


def read_help(path: str, text: str) -> Level:
    """Options stand at two spaces, commands at four below a line `COMMAND`; so argparse and husk's own pages do it."""
    level, in_commands = Level(path), False
    for line in text.splitlines():
        if line.strip() == "COMMAND":
            in_commands = True
        elif not line.strip():
            in_commands = False
        elif in_commands and (found := _COMMAND.match(line)):
            level.commands[found[1]] = found[2] or ""
        elif found := _OPTION.match(line):
            level.options.append(_option(found[1], found[2] or ""))
    if not any("--help" in option.names for option in level.options):
        level.options.append(Option(["--help", "-h"], "what it does, and its options"))
    return level


def _option(spelled: str, text: str) -> Option:
    names, value = [], ""
    for part in spelled.split(", "):
        name, _, rest = part.partition(" ")
        names.append(name)
        value = rest or value
    option = Option(names, text, takes=bool(value))
    if value.startswith("{"):
        option.values = value.strip("{}").split(",")
    elif "|" in value:
        option.values = value.split("|")
    option.files = value.startswith(_FILES)
    return option


def main(argv: list[str]) -> int:
    from husk.cli import completion_scripts as scripts

    parser = argparse.ArgumentParser(
        prog="husk completion",
        description="Print what a shell needs to complete husk's commands and options.",
        epilog='bash: eval "$(husk completion bash)" in ~/.bashrc. zsh: husk completion zsh > a file _husk in $fpath. '
        "fish: husk completion fish > ~/.config/fish/completions/husk.fish.",
    )
    parser.add_argument("shell", nargs="?", choices=sorted(scripts.SHELLS), help="which shell")
    parser.add_argument("--json", action="store_true", help="print all commands and options as one JSON object instead")
    options = parser.parse_args(argv)
    if options.json:
        import json

        print(json.dumps({"commands": [asdict(level) for level in levels()]}, indent=2))
    elif options.shell is None:
        parser.error("say which shell: bash, zsh or fish")
    else:
        print(scripts.SHELLS[options.shell](levels()), end="")
    return 0

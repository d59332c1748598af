"""cli: what `--help` prints for a command, from its rows."""

from __future__ import annotations

import shutil
import textwrap

from husk.cli.options import Command, Option
from husk.cli.output import say_as_is

_NARROWEST, _WIDEST = 80, 120
_WIDEST_HEAD = 26


def help_text(path: str, command: Command, width: int = _WIDEST) -> str:
    """All lists of a page share one column, so that the eye finds it once."""
    lists = [("", [(one.name, one.summary) for one in command.commands])]
    lists.append(("", [(argument.metavar, argument.help) for argument in command.arguments if argument.help]))
    for group in dict.fromkeys(option.group for option in command.options):
        lists.append((group, [(spelled(option), option.help) for option in command.options if option.group == group]))
    heads = [head for _, rows in lists for head, _ in rows]
    column = 4 + max(len(head) for head in heads if len(head) <= _WIDEST_HEAD)
    parts = [f"usage: {path} {command.usage}", textwrap.fill(command.text, width)]
    parts += [(f"{title}:\n" if title else "") + _rows(rows, column, width) for title, rows in lists if rows]
    if command.commands:
        parts.append(f"`{path} COMMAND --help` tells more.")
    if command.end:
        parts.append(textwrap.fill(command.end, width))
    return "\n\n".join(parts) + "\n"


def spelled(option: Option) -> str:
    return ", ".join(option.names) + (f" {option.metavar}" if option.metavar else "")


def _rows(rows: list[tuple[str, str]], column: int, width: int) -> str:
    lines = []
    for head, text in rows:
        first, *rest = textwrap.wrap(text, width - column, break_on_hyphens=False)
        if len(head) > _WIDEST_HEAD:
            lines += [f"  {head}", " " * column + first]
        else:
            lines.append(f"  {head:<{column - 2}}{first}")
        lines += [" " * column + line for line in rest]
    return "\n".join(lines)


def print_help(path: str, command: Command) -> int:
    width = shutil.get_terminal_size((_WIDEST, 24)).columns
    say_as_is(help_text(path, command, min(max(width, _NARROWEST), _WIDEST)))
    return 0

"""cli: docs/command-line.md, written from the option table. `python -m husk.cli.options.reference` prints it."""

from __future__ import annotations

import sys
import textwrap

from husk.cli import all_commands
from husk.cli.options import HELP, Argument, Command, Option
from husk.cli.options.help_text import spelled

_TOP = """# The command line

<!-- Written by `make command-line-page`; change the rows in src/husk/cli/options/ instead. -->

`husk --help` is a short manual, `husk COMMAND --help` prints what is here for one command, and
`eval "$(husk completion bash)"` (or `zsh`, `fish`) completes commands and options. A value may follow its option as the
next word or after `=`. Every command takes `--help`.

## JSON

Every command takes `--json`, except `shell`, which talks to a person at a terminal, and `mcp` while it serves: what it
serves is JSON already. With `--json` a command prints one JSON document on standard output and nothing else there.
An error, a mistake in the command line too, is one object; the exit code is the same as without, and the sentence is
also on standard error:

```
$ husk run --json --mount nowhere -- true
{"error": "--mount nowhere: write SRC:DST or SRC:DST:MODE with MODE one of ro, rw, cow, image.", "kind": "usage", "exit_code": 2}
```

| kind | exit code | meaning |
|---|---|---|
| `usage` | 2 | the command line makes no sense; the sentence says what to write |
| `not-executable` | 126 | the program cannot be executed |
| `not-found` | 127 | there is no such program in the box |
| `husk` | 125 | husk cannot do it on this machine, or in this state |
| `host` | 125 | the host failed husk: a full disk, no descriptors left |
| `store` | 1 | the store cannot do it, or is damaged |
| `interrupted` | 130 | Ctrl-C |
| `fault` | 125 | a bug in husk; `traceback` holds what to report |

`husk --help` and `husk COMMAND --help` are text.

## Exit codes

| code | meaning |
|---|---|
| the program's own | it ended by itself |
| 2 | the command line makes no sense; one sentence says what to write |
| 124 | a limit ended the box, `--timeout` among them |
| 125 | husk itself failed |
| 126 | the program cannot be executed |
| 127 | there is no such program in the box |
| 128+n | signal n ended the program |

Ctrl-C reaches the program, and Ctrl-Z stops it and husk with it. `SIGTERM` and `SIGHUP` to husk end the box. When the
first program ends, whatever it left in the background ends too. No process of a box survives husk, however husk dies,
`SIGKILL` included.

## Environment and files

| name | meaning |
|---|---|
| `HUSK_RESIDENT` | `0`: `husk run` neither uses nor starts [a resident husk](resident.md) |
| `HUSK_STATE` | where boxes live while they run, and kept boxes (default `~/.local/state/husk`); what a killed husk leaves there, the next one removes |
| `HUSK_STORE` | where images live (default `~/.local/share/husk/store`) |
| `HUSK_MCP_TOKEN` | the token clients of `husk mcp --http` must show |
| `~/.config/husk/mcp.toml` | what `husk mcp` lets an agent do |

`--summary`, `--events` and `-v` switch the [name cache](design/003-name-cache.md) off, because every call is to be
seen: such a run is slower. Changes on an `rw` mount are on the host; the summary names the files that were opened for
writing there.
"""  # noqa: E501


def page() -> str:
    parts = [_TOP]
    for command in all_commands():
        parts += _section("##", "husk", command)
    return "\n".join(parts)


def _section(level: str, path: str, command: Command) -> list[str]:
    path = f"{path} {command.name}"
    parts = [f"{level} {path}", "", "```", f"{path} {command.usage}", "```", "", _filled(command.text), ""]
    if command.commands:
        parts += ["| command | meaning |", "|---|---|"]
        anchor = path.replace(" ", "-")
        parts += [f"| [`{one.name}`](#{anchor}-{one.name}) | {one.summary} |" for one in command.commands]
        parts.append("")
    options = [option for option in command.options if option is not HELP and not command.options_of]
    rows = [_argument(argument) for argument in command.arguments if argument.help]
    plain = [option for option in options if not option.group]
    if rows or plain:
        parts += ["| word | meaning |", "|---|---|", *rows, *map(_option, plain), ""]
    for group in dict.fromkeys(option.group for option in options if option.group):
        parts += [f"{group[0].upper()}{group[1:]}:", "", "| option | meaning |", "|---|---|"]
        parts += [_option(option) for option in options if option.group == group]
        parts.append("")
    if command.end:
        parts += [_filled(command.end), ""]
    for one in command.commands:
        parts += _section(f"{level}#", path, one)
    return parts


def _argument(argument: Argument) -> str:
    return f"| `{_cell(argument.usage)}` | {_cell(argument.help)} |"


def _option(option: Option) -> str:
    names = ", ".join(f"`{_cell(name)}`" for name in option.names[:-1])
    last = spelled(option).rpartition(", ")[2]
    text = option.help + (" (may be repeated)" if option.many else "") + (f". {option.more}" if option.more else "")
    return f"| {names + ', ' if names else ''}`{_cell(last)}` | {_cell(text)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*.", "\\*.")  # both mean something to Markdown


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False, break_long_words=False)


if __name__ == "__main__":
    sys.stdout.write(page())

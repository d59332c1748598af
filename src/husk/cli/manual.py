"""cli: what `husk --help` prints: a short manual. The commands come from the option table."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.cli.options import Command

_TOP = """husk - run programs that you need not trust

usage: husk COMMAND …

A program runs in a box of its own. It sees the host's /usr, a little of /etc, and a private /tmp, /home and
/workspace; nothing else of the host is there, no network either. What it changes is thrown away at the end. A refusal
comes with its reason, and with what would allow it. No root, no daemon and no image are needed.

COMMANDS
"""

_REST = """
  `husk COMMAND --help` tells more. Every command but `shell`, which talks to a person, takes `--json`: it prints its
  result as one JSON document, and an error as {"error": sentence, "kind": word, "exit_code": number}. A server that
  `husk mcp` starts has no result to print. `husk --version` prints which husk this is.

FIRST STEPS
  husk run -- python3 -c 'print("hello")'            a program in a box
  husk run --mount .:/workspace:cow -- make          on a copy of this directory: the directory stays as it is
  husk run --mount .:/workspace:rw -- make           on the directory itself
  husk run --summary --mount .:/workspace:cow -- sh script.sh
                                                     then say what was read, changed and refused
  husk run --limit memory=512M --timeout 60 -- find /usr
                                                     with bounds
  husk doctor                                        does it all work on this machine?

EXIT CODES
  The program's own, or: 2 the command line makes no sense, 124 a limit or time-out ended it, 125 husk itself failed,
  126 the program cannot be executed, 127 there is no such program in the box, 128+n signal n ended it.

ENVIRONMENT AND FILES
  HUSK_RESIDENT  0: husk run starts no process that stays, and uses none
  HUSK_STATE   where boxes live while they run, and kept boxes (default ~/.local/state/husk)
  HUSK_STORE   where images live (default ~/.local/share/husk/store)
  ~/.config/husk/mcp.toml   what `husk mcp` lets an agent do, if it is there

Completion for your shell: eval "$(husk completion bash)". From Python: import husk (docs/api.md).
"""


def manual(commands: list[Command]) -> str:
    heads = {f"husk {command.name} {command.usage}": command.summary for command in commands}
    width = max(map(len, heads))
    return _TOP + "".join(f"  {head:<{width}}  {summary}\n" for head, summary in heads.items()) + _REST

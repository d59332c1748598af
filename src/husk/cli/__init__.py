"""cli: the `husk` command. Each subcommand lives in its own module and is imported only when it is asked for."""

from __future__ import annotations

import sys

USAGE = """usage: husk COMMAND …

  husk run [options] -- PROGRAM ARGS…   run a program in a box
  husk syscalls [NAME…] [--json]        what husk does with each system call
  husk --version

`husk COMMAND --help` tells more.
"""


def main(argv: list[str] | None = None) -> int:
    args = sys.argv[1:] if argv is None else argv
    command = args[0] if args else ""
    if command == "run":
        from husk.cli.run import main as run

        return run(args[1:])
    if command == "syscalls":
        from husk.cli.syscalls import main as syscalls

        return syscalls(args[1:])
    if command in ("-V", "--version"):
        from husk import __version__

        print(f"husk {__version__}")
        return 0
    if command in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    what = f"there is no command {command!r}" if command else "say what to do"
    print(f"husk: {what}; `husk --help` lists the commands.", file=sys.stderr)
    return 2

"""cli: `husk shell`, a shell in a fresh box for a person at a terminal. All but the choice of the shell is `run`."""

from __future__ import annotations

import os
import sys

from husk.cli import cmd_run as run

HELP = """usage: husk shell [options]

A shell (bash, else sh) in a box of its own, on this terminal. Its options are those of `husk run`; exit or ^D ends it,
and the box with it."""


def main(args: list[str]) -> int:
    if "-h" in args or "--help" in args:
        print(HELP, *run.HELP.split("\n\n")[2:], sep="\n\n", end="")
        return 0
    if not (os.isatty(0) and os.isatty(1)):
        print(
            "husk: husk shell needs a terminal for input and output; for a script: husk run -- bash SCRIPT.",
            file=sys.stderr,
        )
        return 2
    if "--json" in args:
        print("husk: husk shell talks to the terminal and has no --json; use husk run.", file=sys.stderr)
        return 2
    shell = "bash" if os.access("/usr/bin/bash", os.X_OK) or os.access("/bin/bash", os.X_OK) else "sh"
    return run.main(["-it", *args, "--", shell])

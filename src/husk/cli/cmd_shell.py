"""cli: `husk shell`, a shell in a fresh box for a person at a terminal. All else is `husk run`."""

from __future__ import annotations

import os

from husk.cli import cmd_run as run
from husk.cli.exit_codes import failed
from husk.cli.options.run_options import SHELL
from husk.sandbox.errors import UsageError


def main(args: list[str]) -> int:
    if "-h" in args or "--help" in args:
        from husk.cli.options.help_text import print_help

        return print_help("husk shell", SHELL)
    if "--json" in args:
        return failed(SHELL, args, UsageError("husk shell talks to the terminal and has no --json; use husk run."))
    if not (os.isatty(0) and os.isatty(1)):
        advice = "husk shell needs a terminal for input and output; for a script: husk run -- bash SCRIPT."
        return failed(SHELL, args, UsageError(advice))
    shell = "bash" if os.access("/usr/bin/bash", os.X_OK) or os.access("/bin/bash", os.X_OK) else "sh"
    return run.main(["-it", *args, "--", shell])

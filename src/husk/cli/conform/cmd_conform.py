"""cli/conform: `husk conform`: hands each sub-command to its own module, which is imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.cli.exit_codes import handler_in, run_command
from husk.cli.options.conform_options import CONFORM

if TYPE_CHECKING:
    from husk.cli.exit_codes import Handler


def _handler(name: str, function: str = "main") -> Handler:
    return handler_in(f"husk.cli.conform.{name}", function)


# Each module beside this one has a `main(values) -> exit code`; one has more, for commands of a few lines.
_HANDLERS = {
    "build": _handler("cmd_conform_build"),
    "run": _handler("cmd_conform_run"),
    "show": _handler("cmd_conform_show"),
    "history": _handler("cmd_conform_history"),
    "diff": _handler("cmd_conform_diff"),
    "bisect": _handler("cmd_conform_bisect"),
    "nightly": _handler("cmd_conform_nightly"),
    "import": _handler("cmd_conform_history", "import_runs"),
    "forget": _handler("cmd_conform_history", "forget_runs"),
    "trace": _handler("cmd_conform_trace"),
    "uses": _handler("cmd_conform_uses"),
    "matrix": _handler("cmd_conform_matrix"),
    "report": _handler("cmd_conform_report"),
}


def main(words: list[str]) -> int:
    return run_command(CONFORM, words, _HANDLERS)

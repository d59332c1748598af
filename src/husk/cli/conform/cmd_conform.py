"""cli/conform: `husk conform`: hands each sub-command to its own module, which is imported only then."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from husk.cli.exit_codes import run_command
from husk.cli.options.conform_options import CONFORM

if TYPE_CHECKING:
    from husk.cli.exit_codes import Handler
    from husk.cli.options.parse_words import Values

def _handler(name: str) -> Handler:
    def handle(values: Values) -> int:
        module = f"husk.cli.conform.{name}"
        __import__(module)
        code: int = sys.modules[module].main(values)
        return code

    return handle


# Each module beside this one has a `main(values) -> exit code`.
_HANDLERS = {
    "show": _handler("cmd_conform_show"),
}


def main(words: list[str]) -> int:
    return run_command(CONFORM, words, _HANDLERS)

"""cli/conform: `husk conform diff`: what changed between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.cli.conform.history_show import change_lines, changes_document
from husk.cli.output import say_result
from husk.conform.history.database import open_history
from husk.conform.history.find_run import find_run
from husk.conform.history.run_changes import changes

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    with open_history() as history:
        old = find_run(history, options.old, options.runtime)
        new = find_run(history, options.new, options.runtime)
    found = changes(old, new)
    document = changes_document(old, new, found)
    say_result(document, change_lines(old, new, found), as_json=options.json)
    return 1 if found.regressions else 0

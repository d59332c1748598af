"""cli/conform: `husk conform show`: the score of a results.json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.conform.conform_show import score_lines
from husk.cli.output import say_result
from husk.conform.results_file import as_document, read_results

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    record = read_results(Path(options.results))
    document = as_document(record)
    document["families"] = {name: len(cases) for name, cases in record.families().items()}
    say_result(document, score_lines(record), as_json=options.json)
    return 0

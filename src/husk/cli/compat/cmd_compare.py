"""cli/compat: `husk compare`: one command in two places, or two traces."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.exit_codes import run_command
from husk.cli.options.compat_options import COMPARE
from husk.cli.output import say_result
from husk.compat.census import read_census
from husk.compat.compare.divergence import Comparison, Divergence, compare_censuses, compare_outcomes
from husk.compat.compare.run_under import Outcome, run_under, show_directory
from husk.compat.prefixes import split_prefix
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

MOST_LINES = 10  # divergences told without --json


def _compare(options: Values) -> int:
    if options.trace:
        return _compare_traces(options)
    if not options.program:
        raise UsageError("name a command to run: husk compare --under 'husk run' -- CMD.")
    if not 1 <= len(options.under) <= 2:
        raise UsageError("name two places with --under, or one to compare it with the host.")
    prefixes = ["", *options.under] if len(options.under) == 1 else options.under
    places = [split_prefix("--under", prefix) for prefix in prefixes]
    command = _found(options.program)
    with tempfile.TemporaryDirectory(prefix="husk-compare-", ignore_cleanup_errors=True) as folder:
        place = os.path.join(folder, "work")
        for words in places:
            show_directory(words, place)  # a prefix that makes no sense is told before anything runs
        native = [run_under([], command, place, options.timeout) for _ in range(options.repeat)]
        a, b = (run_under(words, command, place, options.timeout) for words in places)
    comparison = compare_outcomes(a, b, native)
    names = [prefix or "the host" for prefix in prefixes]
    document = {
        "command": command,
        "under": prefixes,
        "same": comparison.same,
        **_document(comparison),
        "runs": [_run_json(name, one) for name, one in zip(names, (a, b), strict=True)],
        "native": [_run_json("the host", one) for one in native],
    }
    lines = _lines(comparison, names)
    say_result(document, lines, as_json=options.json)
    return 0 if comparison.same else 1


def _compare_traces(options: Values) -> int:
    if options.under or options.program or len(options.trace) != 2:
        raise UsageError("--trace is given twice, for two files, and without --under and a command.")
    first, second = (read_census(Path(name)) for name in options.trace)
    comparison = compare_censuses(first, second)
    document = {"traces": options.trace, "same": comparison.same, **_document(comparison)}
    say_result(document, _lines(comparison, options.trace), as_json=options.json)
    return 0 if comparison.same else 1


def _found(program: list[str]) -> list[str]:
    """The command as it is found from anywhere: it runs in a directory of its own."""
    if "/" in program[0]:
        return [os.path.abspath(program[0]), *program[1:]]
    return program


def _document(comparison: Comparison) -> dict[str, object]:
    told = [one.as_json() for one in comparison.found]
    return {
        "first": told[0] if told else None,
        "divergences": told,
        "varying": comparison.varying,
        "cut": comparison.cut,
    }


def _run_json(name: str, outcome: Outcome) -> dict[str, object]:
    return {
        "under": name,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 3),
        "stdout_bytes": len(outcome.stdout),
        "stderr_bytes": len(outcome.stderr),
        "files": sorted(outcome.files),
    }


def _lines(comparison: Comparison, names: list[str]) -> list[str]:
    lines = []
    if comparison.found:
        lines += ["first difference:", *_told(comparison.found[0], names)]
        more = comparison.found[1:]
        lines += [f"also {_place(one)}" for one in more[:MOST_LINES]]
        if len(more) > MOST_LINES:
            lines.append(f"and {len(more) - MOST_LINES} more; --json lists them")
    else:
        lines.append("no difference")
    varying = ", ".join(f"{name}: {count}" for name, count in list(comparison.varying.items())[:MOST_LINES])
    lines += [f"not counted, because it varies natively: {varying}"] if varying else []
    return lines + [f"not looked at: {cut}" for cut in comparison.cut]


def _told(one: Divergence, names: list[str]) -> list[str]:
    width = max(map(len, names))
    lines = [f"  {one.where}", *(f"    {'':{width}}  {text}" for text in one.before)]
    for name, text, number in zip(names, (one.a, one.b), (one.line_a, one.line_b), strict=True):
        lines.append(f"    {name:<{width}}  {f'{number}: ' if number else ''}{text}")
    return lines


def _place(one: Divergence) -> str:
    return f"{one.where}, line {one.line_a}" if one.line_a else one.where


def main(argv: list[str]) -> int:
    return run_command(COMPARE, argv, _compare)

"""cli/compat: `husk probe`: measure what the Linux one stands in, or a sandbox, really does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.cli.compat.runtimes_show import say_differences
from husk.cli.exit_codes import run_command
from husk.cli.options.compat_options import PROBE
from husk.cli.out_file import write_text
from husk.cli.output import say_result
from husk.compat.probe.measured import measured_surface
from husk.compat.probe.probe_lines import RESULTS, WORKS, Check, Result
from husk.compat.probe.run_probe import Measurement, check_names, list_checks, run_probe
from husk.compat.runtimes import find
from husk.compat.runtimes.differences import differences
from husk.compat.surface_writer import write_surface
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(argv: list[str]) -> int:
    return run_command(PROBE, argv, _probe)


def _probe(options: Values) -> int:
    if options.diff:
        return _diff(options)
    if options.names:
        raise UsageError(f"what is {options.names[0]!r}? Name calls with --only, two runtimes with --diff.")
    if options.list:
        return _list(options)
    measurement = run_probe(options.prefix, options.only)
    surface = measured_surface(measurement, Path(options.out).stem if options.out else "measured")
    if options.out:
        write_text(options.out, write_surface(surface))
    say_result(_document(measurement), _lines(measurement, options.out), as_json=options.json)
    return 0


def _list(options: Values) -> int:
    checks = list_checks()
    check_names(options.only, checks)
    checks = [check for check in checks if not options.only or check.call in options.only]
    width = max(len(check.call) for check in checks)
    lines = [f"{check.call:<{width}}  {check.case}".rstrip() for check in checks]
    say_result([{"call": check.call, "case": check.case} for check in checks], lines, as_json=options.json)
    return 0


def _diff(options: Values) -> int:
    if len(options.names) != 2:
        raise UsageError("--diff compares two runtimes: `husk probe --diff A B`, each a measured file or a name.")
    if options.out or options.prefix or options.list or options.only:
        raise UsageError("--diff measures nothing; leave out --out, --in, --list and --only.")
    first, second = (find(name) for name in options.names)
    found = differences(first, second)
    # Where a measurement says nothing, there is nothing to compare.
    found = [(a, b) for a, b in found if "unknown" not in (a.level, b.level)]
    return say_differences(first, second, found, as_json=options.json)


def _lines(measurement: Measurement, out: str) -> list[str]:
    """What does not work as on Linux, then the counts."""
    failed = [result for result in measurement.results if result.result != WORKS]
    width = max((len(result.check.call) for result in failed), default=0)
    lines = [f"{one.check.call:<{width}}  {_case(one.check)}{one.text}" for one in failed]
    counts = Counter(result.result for result in measurement.results)
    told = ", ".join(f"{counts[result]} {result}" for result in RESULTS if counts[result])
    lines.append(f"{len(measurement.results)} checks: {told or 'none'}")
    if measurement.missing:
        lines.append(f"{measurement.missing} checks have no result: the program ended early")
    return [*lines, f"written to {out}"] if out else lines


def _case(check: Check) -> str:
    return f"{check.case}: " if check.case else ""


def _document(measurement: Measurement) -> dict[str, Any]:
    counts = Counter(result.result for result in measurement.results)
    return {
        "under": measurement.command,
        "system": measurement.head.system,
        "uid": measurement.head.uid,
        "counts": {result: counts[result] for result in RESULTS},
        "without_result": measurement.missing,
        "checks": [_result_json(result) for result in measurement.results],
    }


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "call": result.check.call,
        "case": result.check.case,
        "registers": [f"{value:#x}" for value in result.registers],
        "result": result.result,
        "detail": result.detail,
    }

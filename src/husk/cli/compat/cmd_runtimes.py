"""cli/compat: `husk runtimes`: list, show, compare, import and check what runtimes offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.cli.compat.runtimes_show import claim_json, claim_lines, counted, say_differences, surface_json, table_lines
from husk.cli.exit_codes import run_command
from husk.cli.options.compat_options import RUNTIMES
from husk.cli.out_file import write_text
from husk.cli.output import say, say_result
from husk.compat.runtimes import find, names
from husk.compat.runtimes.differences import differences
from husk.compat.surface import Claim, Surface, read_surface, rows_by_name
from husk.compat.surface_writer import write_surface
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.compat.runtimes.seccomp_import import Imported


def _ls(options: Values) -> int:
    found = [find(name) for name in names()]
    width = max(len(surface.name) for surface in found)
    lines = [f"{one.name:<{width}}  {counted(one)}  {one.title}" for one in found]
    say_result([surface_json(one, calls=False) for one in found], lines, as_json=options.json)
    return 0


def _show(options: Values) -> int:
    surface = find(options.name)
    if options.toml:
        if options.json or options.calls or options.support:
            raise UsageError("--toml prints the whole file; leave out --json, --support and the calls.")
        say(*write_surface(surface).splitlines())
        return 0
    claims = _chosen(surface, options.calls)
    if options.support:
        claims = [claim for claim in claims if claim.level == options.support]
    if options.calls:
        lines = [line for claim in claims for line in claim_lines(claim)]
        say_result([claim_json(claim) for claim in claims], lines or ["no such calls"], as_json=options.json)
        return 0
    document = {**surface_json(surface, calls=False), "calls": [claim_json(claim) for claim in claims]}
    say_result(document, table_lines(surface, claims), as_json=options.json)
    return 0


def _chosen(surface: Surface, calls: list[str]) -> list[Claim]:
    for call in calls:
        if call not in rows_by_name():
            raise UsageError(f"Linux on x86-64 has no system call {call!r}; `husk syscalls` lists them all.")
    return [surface.claim(call) for call in calls or sorted(rows_by_name())]


def _diff(options: Values) -> int:
    first, second = find(options.a), find(options.b)
    found = differences(first, second)
    return say_differences(first, second, found, as_json=options.json)


def _import(options: Values) -> int:
    from husk.compat.runtimes.seccomp_import import import_seccomp

    imported = import_seccomp(options.file, options.name, skip_unknown=options.skip_unknown)
    text = write_surface(imported.surface)
    if options.out:
        write_text(options.out, text)
    left_out = {"foreign": imported.foreign, "unknown": imported.unknown}
    document = {**surface_json(imported.surface, calls=True), "left_out": left_out, "out": options.out or None}
    say_result(document, _imported_lines(options.out, imported, text), as_json=options.json)
    return 0


def _imported_lines(out: str, imported: Imported, text: str) -> list[str]:
    if not out:
        return text.splitlines()
    lines = [f"{out}: {counted(imported.surface)}"]
    if imported.foreign:
        lines.append(f"{len(imported.foreign)} calls of other architectures are left out")
    if imported.unknown:
        lines.append(f"left out, because no Linux has them: {', '.join(imported.unknown)}")
    return lines


def _validate(options: Values) -> int:
    found = [read_surface(file) for file in options.files]
    lines = [f"{file}: good; {counted(one)}" for file, one in zip(options.files, found, strict=True)]
    say_result([surface_json(one, calls=False) for one in found], lines, as_json=options.json)
    return 0


_HANDLERS = {"ls": _ls, "show": _show, "diff": _diff, "import": _import, "validate": _validate}


def main(argv: list[str]) -> int:
    return run_command(RUNTIMES, argv, _HANDLERS)

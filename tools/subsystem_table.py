"""Write the table of native calls by kernel subsystem into docs/threat-model.md: `python tools/subsystem_table.py`.

Which calls are native, and when, comes from the rows of the registry; what they reach from abi/registry/subsystems.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from husk.abi.registry import by_name
from husk.abi.registry.rules import Row, Walls
from husk.abi.registry.subsystems import SUBSYSTEMS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "threat-model.md"
BEGIN = "<!-- subsystems: written by tools/subsystem_table.py -->"
END = "<!-- end of subsystems -->"

WALLED = Walls(pid=True, net=True, mount=True, ipc=True, user=True, landlock=7, own_placeholders=True, direct=True)
BARE = Walls(landlock=7)
NEVER, SOME, ALWAYS = 0, 1, 2


def how_native(row: Row, walls: Walls) -> int:
    """Whether the host's kernel runs the call under these walls: never, with some arguments, or always."""
    found: set[bool] = set()
    for rule in row.rules:
        if rule.stands(walls):
            found.add(rule.verdict.way == "native")
            if not rule.tests:
                break
    else:
        found.add(row.otherwise.way == "native")
    return ALWAYS if found == {True} else SOME if True in found else NEVER


def _cell(names: list[str]) -> str:
    return " ".join(f"`{name}`" for name in names) or "—"


def table() -> str:
    lines = [
        "| part of the kernel | what a guest does there | always native | with some arguments | only with namespaces |",
        "|---|---|---|---|---|",
    ]
    total = {"walled": 0, "bare": 0}
    for one in SUBSYSTEMS:
        cells: dict[str, list[str]] = {"always": [], "some": [], "walled": []}
        for name in one.calls:
            row = by_name(name)
            assert row is not None, name
            walled, bare = how_native(row, WALLED), how_native(row, BARE)
            total["walled"] += walled > NEVER
            total["bare"] += bare > NEVER
            cells["walled" if bare == NEVER else "always" if walled == bare == ALWAYS else "some"].append(name)
        lines.append(f"| **{one.name}**: {one.source} | {one.offers} | {' | '.join(map(_cell, cells.values()))} |")
    summary = (
        f"{total['walled']} calls can reach the host's kernel directly in a walled box, {total['bare']} in a bare one,"
        " some of them with some arguments only."
    )
    return "\n".join([summary, "", *lines])


def with_table(page: str) -> str:
    """The page with the table as it should be. ValueError: a marker is missing."""
    head, rest = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
    return f"{head}\n\n{table()}\n\n{rest}"


def main() -> int:
    PAGE.write_text(with_table(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Write the table of folders into docs/architecture.md: `python tools/folder_table.py`, or with --check only compare.

Each row says what lives in a folder, from the first sentence of its package docstring, and what it may import, from
tools/layers.py. Nothing is imported: docstrings are read from the source.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from layers import C_FOLDERS, DATA_FOLDERS, LAYERS, ORDER

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "husk"
PAGE = ROOT / "docs" / "architecture.md"
_PLAIN_FOLDERS = C_FOLDERS | DATA_FOLDERS
BEGIN = "<!-- folders: written by tools/folder_table.py -->"
END = "<!-- end of folders -->"


def first_sentence(docstring: str) -> str:
    """Up to the first full stop at the end of a word; without the name of the layer in front."""
    text = " ".join(docstring.split())
    sentence = text.split(". ")[0].removesuffix(".")
    name, colon, rest = sentence.partition(": ")
    text = rest if colon and name.replace("/", "").isalpha() and name.islower() else sentence
    return f"{text[0].upper()}{text[1:]}."


def content(folder: str) -> str:
    if folder in _PLAIN_FOLDERS:
        return _PLAIN_FOLDERS[folder]
    docstring = ast.get_docstring(ast.parse((SOURCE / folder / "__init__.py").read_text()))
    if not docstring:
        raise SystemExit(f"src/husk/{folder}/__init__.py: say in a docstring what lives here.")
    return first_sentence(docstring)


def below(folder: str, room: str) -> str:
    """The sub-packages of its own folder that a sub-package may import: those on lower levels."""
    levels = [names.split() for names in ORDER.get(folder, ())]
    own = next((number for number, names in enumerate(levels) if room in names), 0)
    found = [name for names in levels[:own] for name in names if (SOURCE / folder / name).is_dir()]
    return ", ".join(f"`{folder}/{name}`" for name in found)


def rows() -> list[tuple[str, str, str]]:
    """(folder, what lives there, what it may import), from the lowest layer up."""
    found = []
    for layer, targets in LAYERS.items():
        order = list(LAYERS)
        known = sorted(targets, key=lambda name: (order.index(name.partition(".")[0]), name))
        found.append((f"{layer}/", content(layer), ", ".join(f"`{name}`" for name in known) or "nothing"))
        inner = sorted(path.parent.name for path in (SOURCE / layer).glob("*/__init__.py"))
        inner += sorted(name.partition("/")[2] for name in _PLAIN_FOLDERS if name.startswith(f"{layer}/"))
        found += [(f"{layer}/{room}/", content(f"{layer}/{room}"), below(layer, room)) for room in inner]
    return found


def table() -> str:
    lines = ["| folder under `src/husk/` | what lives there | may import |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{folder}` | {what} | {targets} |" for folder, what, targets in rows())])


def with_table(page: str) -> str:
    """The page with the table as it should be. ValueError: a marker is missing."""
    head, rest = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
    return f"{head}\n\n{table()}\n\n{rest}"


def main(argv: list[str]) -> int:
    page = PAGE.read_text()
    made = with_table(page)
    if "--check" in argv:
        return int(page != made)
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

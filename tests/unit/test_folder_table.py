"""docs/architecture.md shows the folders as they are: its table is generated, and no other page has one of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import folder_table
from layers import LAYERS

PAGES = [*sorted(folder_table.ROOT.glob("*.md")), *sorted((folder_table.ROOT / "docs").rglob("*.md"))]
# A row that describes a folder of src/husk: a path that ends with a slash, alone in the first column.
ROW = re.compile(r"^\| `(?:src/husk/)?(?:" + "|".join(LAYERS) + r")/[\w/]*` \|", re.MULTILINE)


def test_the_table_is_not_stale() -> None:
    page = folder_table.PAGE.read_text()
    assert folder_table.with_table(page) == page, "run `python tools/folder_table.py`"


def test_a_stale_table_would_be_noticed() -> None:
    page = folder_table.PAGE.read_text()
    assert folder_table.with_table(page.replace("| `vfs/` |", "| `vfs2/` |")) == page
    with pytest.raises(ValueError, match="not found"):
        folder_table.with_table("a page without markers")


def test_every_folder_has_a_row() -> None:
    there = {str(path.parent.relative_to(folder_table.SOURCE)) for path in folder_table.SOURCE.rglob("*.[pc]*")}
    shown = {folder.rstrip("/") for folder, _, _ in folder_table.rows()}
    assert {folder for folder in there if "__pycache__" not in folder} - {"."} == shown


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_no_other_page_has_a_folder_table(page: Path) -> None:
    assert (page == folder_table.PAGE) == bool(ROW.search(page.read_text()))


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("store: blobs, and\nmanifests. More.", "Blobs, and manifests."),
        ("The box's files: trees.", "The box's files: trees."),
        ("kernel/syscalls: one file per family", "One file per family."),
    ],
)
def test_first_sentence(docstring: str, sentence: str) -> None:
    assert folder_table.first_sentence(docstring) == sentence

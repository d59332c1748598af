"""docs/architecture.md walks through the code: every `file:function` that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "husk"
PAGE = ROOT / "docs" / "architecture.md"
STEP = re.compile(r"`([\w/]+\.(?:py|c)):([\w.]+)`")
WALKS = ("openat", "cached `stat`", "execve", "husk run", "husk skill run", "husk store ingest")
FEWEST = 6  # steps that name a place in the code


def walks(page: str) -> dict[str, str]:
    """Title -> text of each walk."""
    parts = re.split(r"^### (.+)$", page.partition("## Walks\n")[2].partition("\n## ")[0], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def names_in_python(text: str) -> set[str]:
    """Functions, classes, and methods both as `method` and as `Class.method`."""
    tree = ast.parse(text)
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        found |= {f"{owner.name}.{node.name}" for node in owner.body if isinstance(node, ast.FunctionDef)}
    return found


def is_there(file: str, name: str) -> bool:
    path = SOURCE / file
    if not path.is_file():
        return False
    text = path.read_text()
    if path.suffix == ".py":
        return name in names_in_python(text)
    # A definition: the name with its parameters, and no semicolon behind them.
    return re.search(rf"^[\w *]*\b{name}\([^;{{]*\)\s*\{{", text, re.MULTILINE) is not None


def test_all_walks_are_there() -> None:
    titles = [title.replace("`", "") for title in walks(PAGE.read_text())]
    assert all(any(walk.replace("`", "") in title for title in titles) for walk in WALKS), titles


@pytest.mark.parametrize("title", sorted(walks(PAGE.read_text())))
def test_every_step_exists(title: str) -> None:
    steps = STEP.findall(walks(PAGE.read_text())[title])
    assert len(steps) >= FEWEST
    assert [f"{file}:{name}" for file, name in steps if not is_there(file, name)] == []


@pytest.mark.parametrize(
    ("file", "name", "there"),
    [
        ("kernel/syscalls/open.py", "openat", True),
        ("kernel/syscalls/open.py", "close_at", False),
        ("kernel/kernel.py", "Kernel.answer", True),
        ("kernel/kernel.py", "Kernel.ask", False),
        ("kernel/no.py", "openat", False),
        ("native/fastpath/resolve.c", "fast_resolve", True),
        ("native/fastpath/fastpath.c", "fast_resolve", False),
    ],
)
def test_a_wrong_step_would_be_noticed(file: str, name: str, there: bool) -> None:
    """The last one is called there, and defined elsewhere."""
    assert is_there(file, name) == there

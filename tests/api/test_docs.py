"""Every Python block of docs/api.md runs as it stands there."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
BLOCKS = re.findall(r"## ([^\n]*)\n(?:(?!\n## ).)*?```python\n(.*?)```", PAGE.read_text(), re.S)


def test_there_are_blocks() -> None:
    assert len(BLOCKS) == len(re.findall("```python", PAGE.read_text())) >= 7


@pytest.mark.parametrize(("title", "text"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_block(title: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    name = f"docs/api.md, {title}"
    # As for a file: husk.map looks a function's text up.
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    with contextlib.redirect_stdout(printed):
        exec(compile(text, name, "exec"), {"__name__": "docs"})
    if "explain()" in text:
        promised = PAGE.read_text().split("try the same again:\n\n```\n")[1].split("```")[0]
        assert printed.getvalue().splitlines()[1:] == promised.splitlines()[1:]

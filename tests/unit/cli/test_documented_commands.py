"""The commands that the pages show are commands husk knows: their options and arguments are held against the table."""

from __future__ import annotations

import html
import re
import shlex
import sys
from pathlib import Path

import pytest

from husk.cli import all_commands
from husk.cli.options.parse_words import Values, Words, find_command

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = {command.name: command for command in all_commands()}
# A command at the start of a line of a code block, perhaps after a prompt.
LINE = re.compile(r"^(?:\$ |# )?(?:\.venv/bin/)?husk (?P<words>[a-z]+(?: .*?)?)(?:  +#.*)?$", re.MULTILINE)


def shown(page: Path) -> list[str]:
    blocks = page.read_text().split("\n```")[1::2]
    return [found["words"] for block in blocks for found in LINE.finditer(block.replace("\\\n", " "))]


SHOWN = [(page, words) for page in PAGES for words in shown(page)]


def check(line: str) -> None:
    words = [word for word in shlex.split(line, comments=True) if word not in ("…", "...")]
    ends = [at for at, word in enumerate(words) if word in ("|", ">", "&&", ";")]
    words = words[: min(ends, default=len(words))]
    command = COMMANDS[words[0]]
    path, row, left = find_command(command, words[1:])
    if row.program_first or row.name == "shell":
        Words(path, row, left)
    elif not row.commands:
        Values(path, row, left)


@pytest.mark.parametrize(("page", "line"), SHOWN, ids=[f"{page.name}: {line}" for page, line in SHOWN])
def test_it_can_be_said(page: Path, line: str) -> None:
    if "[" in line.partition(" -- ")[0] or "COMMAND" in line:
        return  # a usage, which test_option_table.py compares
    check(line)


def test_enough_are_found() -> None:
    assert len(SHOWN) > 50 and {page.name for page, _ in SHOWN} >= {"README.md", "skills.md", "images.md"}


def test_the_picture_shows_what_the_tool_records() -> None:
    """Times and counts differ from run to run; the commands and husk's own words do not."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from record_terminal import COMMANDS as RECORDED
    finally:
        sys.path.pop(0)
    drawing = (ROOT / "docs" / "pictures" / "first-run.svg").read_text()
    text = html.unescape(re.sub(r"<[^>]*>", "", drawing)).replace("\xa0", " ")
    assert "docs/pictures/first-run.svg" in (ROOT / "README.md").read_text()
    for command in RECORDED:
        assert command in text
        check(command.removeprefix("husk "))
    assert "refused:" in text and "to allow it, --mount /etc/shadow:/etc/shadow:ro" in text

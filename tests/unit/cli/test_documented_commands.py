"""The commands that the pages show are commands husk knows: their options and arguments are held against the table."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

import pytest

from husk.cli import all_commands
from husk.cli.options.parse_words import Values, Words, find_command
from record_terminal import PICTURES

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


# Words of husk's own that a picture must show: it is there for them.
TELLING = {
    "first-run": ["refused:", "to allow it, --mount /etc/shadow:/etc/shadow:ro"],
    "refusal": ["to allow it, --allow-net example.org", "the default rule --deny .env denies it"],
    "diff-and-apply": ["added    /workspace/lines", "applied to"],
    "background": ["leads to port 8000 of the box"],
    "profile": ["[profile.default]", "count.txt"],
    "skill-review": ["csv-to-json.passport.html: the passport"],
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_shows_what_the_tool_records(name: str) -> None:
    """Times and counts differ from run to run; the commands and husk's own words do not."""
    drawing = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text()
    lines: dict[float, str] = {}
    for row, words in re.findall(r'<text [^>]*y="([0-9.]+)"[^>]*>(.*?)</text>', drawing):
        lines[float(row)] = lines.get(float(row), "") + html.unescape(words).replace("\xa0", " ")
    text = " ".join(" ".join(lines[row] for row in sorted(lines)).split())
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(f"pictures/{name}.svg" in page.read_text() for page in pages), "no page shows it"
    for command in PICTURES[name]:
        assert " ".join(command.split()) in text, f"record it anew: python tools/record_terminal.py {name}"
        if command.startswith("husk "):
            check(command.partition(" | ")[0].removeprefix("husk "))
    for words in TELLING[name]:
        assert " ".join(words.split()) in text

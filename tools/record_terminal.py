"""Record terminals: run the commands of PICTURES for real, on a terminal, and draw what came as SVG pictures.

`make pictures` writes docs/pictures/*.svg this way; names of pictures as arguments write these alone. The text in a
picture is what the run printed; only the prompt and a few words of husk's are coloured. Every picture has a fresh
project and a fresh home, so that nothing of the machine shows.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PROJECT = Path("/tmp/project")  # shown in some pictures; made for each of them, and removed
# What a picture shows: its commands, run one after the other in PROJECT.
PICTURES: dict[str, tuple[str, ...]] = {
    "first-run": ("husk run --summary --mount examples/first-skill:/skill:ro -- /skill/scripts/report.sh",),
    "refusal": (
        "husk run -- curl -sS https://example.org",
        "husk run --mount .:/workspace:cow -- cat .env",
    ),
    "diff-and-apply": (
        "husk run --keep demo --mount .:/workspace:cow -- sh -c 'wc -l *.txt > lines && rm old.txt'",
        "ls",
        "husk diff demo",
        "husk apply demo --yes",
        "ls",
    ),
    "background": (
        "husk run -d --keep web --publish 0:8000 --mount .:/workspace:ro -- python3 -u -m http.server 8000",
        "husk ps",
        "husk exec web -- curl -s http://127.0.0.1:8000/notes.txt",
        "husk logs web",
        "husk stop web",
    ),
    "profile": (
        "husk init",
        "grep -v '^ *#' husk.toml | grep .",
        "husk run python3 count.py",
        "husk diff project",
    ),
    "skill-review": (
        "husk skill inspect examples/skills/csv-to-json | head -8",
        "husk skill review examples/skills/csv-to-json --case all",
    ),
}
FILES = {
    "notes.txt": "apples\npears\nplums\n",
    "old.txt": "gone soon\n",
    ".env": "TOKEN=not-for-programs\n",
    "count.py": "from pathlib import Path\n\nnumber = len(Path('notes.txt').read_text().splitlines())\n"
    "Path('count.txt').write_text(f'{number}\\n')\nprint(number, 'lines')\n",
}
WIDTH = 100
HIGHLIGHTS = {r"^  refused:": "bold red", r"^  (read|changed):": "bold green", r"to allow it, .*": "yellow"}
# Without a font from another server, which a page may not load; and every program that draws it keeps the spaces.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
FORMAT = FORMAT.replace("<svg ", '<svg xml:space="preserve" ', 1)


def make_project() -> None:
    """The files that the commands work on. Of husk's examples only what a picture names is copied."""
    PROJECT.mkdir()
    for name, text in FILES.items():
        (PROJECT / name).write_text(text)


def run_on_terminal(command: str, home: str) -> str:
    """What a person would see: standard output and error of the command, in the order they come."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(PROJECT)
        path = f"{Path(sys.prefix, 'bin')}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": home, "HUSK_STATE": f"{home}/state", "TERM": "xterm", "COLUMNS": str(WIDTH)}
        os.execve("/bin/sh", ["sh", "-c", command], env)
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # EIO: the last process on it is gone
            break
        if not piece:
            break
        seen += piece
    os.waitpid(child, 0)  # a picture of a refusal ends with another code than 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()).replace("\r\n", "\n")


def picture(name: str) -> str:
    console = Console(width=WIDTH, record=True, file=StringIO(), force_terminal=True, color_system="truecolor")
    with tempfile.TemporaryDirectory(prefix="husk-home-") as home:
        os.chmod(home, 0o755)
        make_project()
        try:
            for skill in ("examples/first-skill", "examples/skills/csv-to-json"):
                if any(skill in command for command in PICTURES[name]):
                    shutil.copytree(ROOT / skill, PROJECT / skill)
            for command in PICTURES[name]:
                console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
                text = Text(run_on_terminal(command, home))
                for words, style in HIGHLIGHTS.items():
                    text.highlight_regex(re.compile(words, re.MULTILINE), style)
                console.print(text, end="")
                if " -d " in command:
                    time.sleep(2)  # a person needs as long for the next command, and the server to begin
        finally:
            shutil.rmtree(PROJECT)
    return console.export_svg(title="husk", code_format=FORMAT, unique_id="husk")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PICTURES:
        (ROOT / "docs" / "pictures" / f"{chosen}.svg").write_text(picture(chosen), "utf-8")

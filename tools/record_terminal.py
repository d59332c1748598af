"""Record a terminal: run the commands of COMMANDS for real, on a terminal, and draw what came as an SVG picture.

`make picture` writes docs/pictures/first-run.svg this way. The text in the picture is what the run printed; only the
prompt and a few words of husk's summary are coloured.
"""

from __future__ import annotations

import os
import pty
import re
import sys
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("husk run --summary --mount examples/first-skill:/skill:ro -- /skill/scripts/report.sh",)
WIDTH = 100
HIGHLIGHTS = {r"^  refused:": "bold red", r"^  (read|changed):": "bold green", r"to allow it, .*": "yellow"}
# Without a font from another server, which a page may not load; and every program that draws it keeps the spaces.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
FORMAT = FORMAT.replace("<svg ", '<svg xml:space="preserve" ', 1)


def run_on_terminal(command: str) -> str:
    """What a person would see: standard output and error of the command, in the order they come."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(ROOT)
        path = f"{Path(sys.prefix, 'bin')}:{os.environ['PATH']}"
        os.execve("/bin/sh", ["sh", "-c", command], {"PATH": path, "HOME": os.environ["HOME"], "TERM": "xterm"})
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # EIO: the last process on it is gone
            break
        if not piece:
            break
        seen += piece
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"`{command}` ended with exit code {os.waitstatus_to_exitcode(status)}:\n{seen.decode()}")
    return seen.decode().replace("\r\n", "\n")


def picture(commands: tuple[str, ...]) -> str:
    console = Console(width=WIDTH, record=True, file=StringIO(), force_terminal=True, color_system="truecolor")
    for command in commands:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        text = Text(run_on_terminal(command))
        for words, style in HIGHLIGHTS.items():
            text.highlight_regex(re.compile(words, re.MULTILINE), style)
        console.print(text, end="")
    return console.export_svg(title="husk", code_format=FORMAT, unique_id="husk")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(COMMANDS), "utf-8")

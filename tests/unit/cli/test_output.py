"""Everything the commands print goes through one module, which lets nothing control a terminal."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pytest

from husk.cli import output
from husk.cli.show.image_show import inspected

SOURCE = Path(__file__).resolve().parents[3] / "src" / "husk"
WRITERS = {"print", "sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write", "sys.stderr.buffer.write"}
# Where text goes out otherwise, and why that is harmless.
OTHERS = {
    "cli/output.py": "the way itself",
    "cli/cmd_boxes.py": "diff --patch: made harmless line by line on a terminal, and byte by byte as it is into a pipe",
    "cli/options/reference.py": "the command-line page, written from husk's own table",
    "cluster/fitness.py": "names of the doctor's rows, into a pipe that husk itself reads",
    "skills/syntax/syntax_worker.py": "answers in JSON, into a pipe that husk itself reads",
    "mcp/server.py": "the address that husk itself listens on",
}
# Text that husk wrote alone: help, the manual, completion, the registry, samples of config files.
AS_IS = {
    f"cli/{name}.py"
    for name in (
        "__init__", "cmd_completion", "cmd_mcp", "cmd_syscalls", "options/help_text", "profiles/cmd_profiles",
    )
}  # fmt: skip
HOSTILE = "\x1b]0;owned\x07\x1b[2Jname\r\nhusk: all is well\u202e"


def calls(text: str, names: set[str]) -> list[str]:
    found = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [ast.unparse(function) for function in found if ast.unparse(function) in names]


def test_nothing_is_printed_past_it() -> None:
    files = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    assert {where for where, text in files.items() if calls(text, WRITERS)} == set(OTHERS)
    assert {where for where, text in files.items() if calls(text, {"say_as_is"})} == AS_IS


def test_the_check_itself() -> None:
    assert calls("print(x)\nsys.stdout.write(y)\nout.write(z)", WRITERS) == ["print", "sys.stdout.write"]


def test_a_table_controls_nothing() -> None:
    told = io.StringIO()
    output.say_table(HOSTILE, [(HOSTILE, "left"), ("[red]n[/red]", "right")], [(HOSTILE, "[bold]1[/bold]")], file=told)
    text = told.getvalue()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "[red]n[/red]" in text and "[bold]1[/bold]" in text and text.count("husk: all is well") == 3


def test_a_line_stays_one_and_controls_nothing() -> None:
    told = io.StringIO()
    output.say("husk: first", f"second {HOSTILE}", file=told)
    lines = told.getvalue().split("\n")
    assert len(lines) == 3 and lines[2] == ""
    assert all(character.isprintable() for line in lines for character in line)
    assert "\\x1b[2Jname\\r\\nhusk: all is well" in lines[1]


def test_an_image_whose_strings_are_hostile(capsys: pytest.CaptureFixture[str]) -> None:
    config = {"user": HOSTILE, "workdir": HOSTILE, "entrypoint": [HOSTILE], "cmd": [], "env": {HOSTILE: HOSTILE},
              "labels": {"org.opencontainers.image.title": HOSTILE}}
    counts = dict.fromkeys(("files", "directories", "others", "bytes", "blob_bytes", "created_ns"), 0)
    lines = inspected({"image": "name", "config": config, "flat": "0" * 64, "layers": [HOSTILE], **counts})
    output.say(*lines)
    told = capsys.readouterr().out
    assert told.count("\n") == len(lines)
    assert all(character.isprintable() for character in told.replace("\n", ""))

"""`#!` lines: husk reads them as this host's kernel does. Every script here is also executed natively.

The guest's root shows the host's, so names mean the same on both sides. Nothing runs in husk: execve stops at
the loader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from tests.unit.kernel.fakes import Guest
from tests.unit.kernel.natives import SHOW, at_root, compile_c, execute, execute_in_husk


class Stage:
    """An interpreter that prints its arguments, a script, and a guest that sees both where the host has them."""

    def __init__(self, place: Path) -> None:
        self.show = compile_c(SHOW, place / "show")
        self.script = place / "script"
        (place / "state").mkdir()
        self.guest = Guest(os.fsencode(place / "state"), b"/")

    def natively(self, content: bytes) -> list[bytes] | str:
        self.script.write_bytes(content)
        self.script.chmod(0o755)
        return execute(self.script)

    def in_husk(self, content: bytes) -> list[bytes] | str:
        self.script.write_bytes(content)
        self.script.chmod(0o755)
        return execute_in_husk(self.guest, self.script)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    yield from at_root(lambda: Stage(tmp_path_factory.mktemp("i")))


# {} is the interpreter's path. PAD is as long as it takes for what follows to begin at a given byte of the file.
SCRIPTS = {
    "plain": b"#!{}\n",
    "with argument": b"#!{} -x\n",
    "argument of several words is one": b"#!{} -x  y\tz\n",
    "blank before": b"#! {}\n",
    "blanks and tabs everywhere": b"#! \t {} \t -x \t \n",
    "blanks after the name only": b"#!{}   \n",
    "carriage return belongs to the name": b"#!{}\r\n",
    "carriage return belongs to the argument": b"#!{} -x\r\n",
    "no newline": b"#!{}",
    "no newline, argument": b"#!{} -x",
    "no newline, blanks at the end": b"#!{} -x  \t",
    "no newline, blanks after the name": b"#!{}  ",
    "second line": b"#!{} -x\necho no\n",
    "empty": b"#!\n",
    "empty, no newline": b"#!",
    "one blank": b"#! ",
    "blanks only": b"#! \t \n",
    "blanks only, no newline": b"#! \t ",
    "blanks for 300 bytes": b"#!" + b" " * 300,
    "blanks for 300 bytes, then a name": b"#!" + b" " * 300 + b"{}\n",
    "NUL at once": b"#!\0{}\n",
    "NUL after blanks": b"#!  \0{}\n",
    "NUL after the name": b"#!{}\0 -x\n",
    "NUL in the argument": b"#!{} -x\0y\n",
    "NUL before the argument": b"#!{} \0-x\n",
    "NUL after blanks after the name": b"#!{}  \0\n",
    "NUL, then no newline": b"#!{} -x \0 ",
    "newline only after a NUL": b"#!{}\0\n",
    "blanks before a NUL before the newline": b"#!{} -x \0\n",
    "argument too long": b"#!{} " + b"a" * 300 + b"\n",
    "argument too long, no newline": b"#!{} " + b"a" * 300,
    "argument too long, with blanks": b"#!{} " + b"a " * 150 + b"\n",
    "name too long": b"#!/" + b"n" * 300 + b"\n",
    "name too long, no newline": b"#!/" + b"n" * 300,
    "newline is byte 255": b"#!{} PAD255\n",
    "newline is byte 256": b"#!{} PAD256\n",
    "newline is byte 257": b"#!{} PAD257\n",
    "name ends with byte 254": b"#!PRE254{}",
    "name ends with byte 255": b"#!PRE255{}",
    "name ends with byte 256": b"#!PRE256{}",
    "name ends with byte 255, newline": b"#!PRE255{}\n",
    "name ends with byte 256, newline": b"#!PRE256{}\n",
    "blank is byte 255": b"#!PRE254{} -x\n",
    "blank is byte 256": b"#!PRE255{} -x\n",
    "argument is byte 256": b"#!PRE253{} -x\n",
    "relative name": b"#!show\n",
    "nothing but a name": b"#!nowhere -x\n",
    "high bytes": b"#!{} \xff\xfe\n",
    "vertical space is no blank": b"#!{}\v-x\n",
    "form feed before": b"#!\f{}\n",
}


def fill(stage: Stage, content: bytes) -> bytes:
    path = bytes(stage.show)
    for size in (253, 254, 255, 256):
        # The interpreter's last byte is byte number `size` of the file, after as many blanks as that takes.
        content = content.replace(b"PRE%d" % size, b" " * (size - 2 - len(path)))
    for size in (255, 256, 257):
        # What follows is byte number `size`.
        content = content.replace(b"PAD%d" % size, b"a" * (size - 1 - 2 - len(path) - 1))
    return content.replace(b"{}", path)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(stage: Stage, name: str) -> None:
    content = fill(stage, SCRIPTS[name])
    assert stage.in_husk(content) == stage.natively(content)


def test_the_scripts_are_what_their_names_say(stage: Stage) -> None:
    """Else the interesting lengths would be tested one byte beside."""
    assert fill(stage, SCRIPTS["newline is byte 256"]).index(b"\n") == 255
    assert len(fill(stage, SCRIPTS["name ends with byte 256"])) == 256
    assert stage.natively(fill(stage, SCRIPTS["with argument"])) == [
        bytes(stage.show), b"-x", bytes(stage.script), b"last"
    ]


PIECES = some.sampled_from([b"{}", b" ", b"\t", b"\0", b"\n", b"\r", b"x", b"-y", b"  ", b" " * 120, b"z" * 130])


@settings(max_examples=150)
@given(some.lists(PIECES, max_size=8))
@example([])
def test_any_script(stage: Stage, pieces: list[bytes]) -> None:
    content = b"#!" + b"".join(pieces).replace(b"{}", bytes(stage.show))
    assert stage.in_husk(content) == stage.natively(content)

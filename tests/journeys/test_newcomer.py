"""A newcomer at a terminal: follows the README, makes the usual first mistake, ends with a project that husk knows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk_command, scratch
from tests.terminal.person import Person

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")
README = (Path(__file__).parents[2] / "README.md").read_text()
PROMPT = r"\[(\d+)\]> "


class Shell:
    """bash on a terminal, in an empty directory; its prompt tells how the last command ended."""

    def __init__(self, place: Path) -> None:
        self.project = place / "counting"
        for folder in (place / "bin", place / "state", self.project):
            folder.mkdir(mode=0o755)
        (place / "bin" / "husk").write_text(f"#!/bin/sh\nexec {shlex.join(husk_command())} \"$@\"\n")
        (place / "bin" / "husk").chmod(0o755)
        home = {"HOME": str(place), "HUSK_STATE": str(place / "state"), "XDG_CONFIG_HOME": "", "PS1": "[$?]> "}
        self.person = Person(["bash", "--norc", "--noprofile", "--noediting"], env=home)
        self.type(f"stty -echo; PATH={place / 'bin'}:$PATH; cd {self.project}; clear")

    def type(self, line: str, *, code: int = 0) -> str:
        """Type a line; what appears until the next prompt, without ends of lines, which depend on the terminal."""
        self.person.type(f"{line}\n")
        found = self.person.expect(f"(.*){PROMPT}")
        assert int(found[2]) == code, self.person.seen
        return re.sub(r"\s+", " ", found[1])

    def asked(self, line: str, question: str, answer: str) -> str:
        self.person.type(f"{line}\n")
        self.person.expect(question)
        return self.type(answer)

    def readme(self, line: str) -> str:
        assert re.search(rf"^(?:\$ )?{re.escape(line)}(?: +#.*)?$", README, re.M), f"the README has no line: {line}"
        return self.type(line)


@pytest.fixture
def shell() -> Iterator[Shell]:
    with scratch() as place:
        sits = Shell(place)
        with sits.person:
            sits.person.expect(PROMPT)
            yield sits
            sits.person.type("exit\n")
            sits.person.wait()


def test_from_the_readme_to_a_project(shell: Shell) -> None:
    assert re.match(r" ?husk \d", shell.type("husk --version"))
    assert "did you mean run?" in shell.type("husk rnu", code=2)
    assert shell.readme("""husk run -- python3 -c 'print("hello")'""").strip() == "hello"
    look = shell.readme("husk run -- sh -c 'id; pwd; ls -x /; cat /etc/shadow; ps'")
    assert "(user)" in look and "/workspace" in look and "/etc/shadow: No such file" in look

    # The commonest first try, and the hint that follows it.
    (shell.project / "script.py").write_text("open('total', 'w').write(str(6 * 7)); print('counted')\n")
    told = shell.type("husk run python3 script.py", code=2)
    assert "script.py is on the host, not in the box; --mount .:/workspace:cow" in told and "`husk init`" in told
    told = shell.type("husk run ./script.py", code=127)
    assert "script.py: on the host, not in the box; --mount .:/workspace:cow" in told
    assert "counted" in shell.readme("husk run --mount .:/workspace:cow -- python3 script.py")
    assert not (shell.project / "total").exists()

    # With a profile, which is read again after a change.
    assert "is trusted; read it" in shell.type("husk init")
    shell.type("sed -i 's/^# env = .*/env = { CI = \"yes\" }/' husk.toml")
    assert "has changed since you trusted it; read it, then `husk trust`" in shell.type("husk run true")
    assert "is trusted until it changes" in shell.asked("husk trust", r"env = CI=yes.*Trust it\? \[y/N\]", "y")
    told = shell.type("husk run sh -c 'python3 script.py; echo $CI'")
    assert "counted yes" in told and "1 change in the copy: husk diff counting, or husk apply counting" in told
    assert shell.type("husk diff").strip() == "added /workspace/total"
    assert "+42" in shell.type("husk diff counting --patch /workspace/total")
    assert not (shell.project / "total").exists()
    assert "applied to" in shell.asked("husk apply", r"add +total.*Write this change to .*\? \[y/N\] ", "y")
    assert (shell.project / "total").read_text() == "42"
    assert shell.type("husk diff").strip() == ""
    assert "did you mean counting?" in shell.type("husk drop cuonting", code=2)
    assert shell.type("husk drop counting").strip() == "counting"

"""`husk skill run --shell`, typed at: the box a script would run in, with its interpreter, its input and its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lib import running
from tests.skills.calling import make_skill
from tests.terminal.conftest import Sit

pytestmark = pytest.mark.both_settings


def test_a_shell_where_the_script_would_run(sit: Sit, tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "typed", {"scripts/say.sh": 'echo "said $1" | tee /out/said\n', "data/a": "x\n"})
    arguments = [str(skill), "--shell", "--in", str(skill / "data"), "--out", str(tmp_path / "out")]
    person = sit(command=[*running.husk_command(), "skill", "run", *running.OPTIONS, *arguments])
    person.expect("in this shell: sh /skill/scripts/say.sh\r\n")
    person.expect(r"\$ ")
    person.type("PS1='go''> '\r")
    person.expect("go> ")
    for line, wanted in (
        ("sh /skill/scripts/say.sh hello", "said hello\r\n"),
        ("cat /in/a; tty; pwd", r"x\r\n/dev/pts/\d+\r\n/workspace\r\n"),
        ("touch /skill/x || echo no''pe", "Read-only file system\r\n.*nope\r\n"),
        ("sleep 1000 & jobs", "Running"),
    ):
        person.type(f"{line}\r")
        person.expect(wanted)
        person.expect("go> ")
    person.type("exit 7\r")
    person.expect("husk skill: exit code 7 after")
    assert person.wait() == 7 and person.modes() == person.before
    assert (tmp_path / "out/said").read_text() == "said hello\n"


def test_a_shell_where_the_instructions_are(sit: Sit, tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "told", {"data/a": "x\n"})
    arguments = [str(skill), "--out", str(tmp_path / "out")]
    person = sit(command=[*running.husk_command(), "skill", "shell", *running.OPTIONS, *arguments])
    person.expect(r"\$ ")
    person.type("cat data/a && test -t 0 && cp data/a b && echo $SKILL_DIR do''ne\r")
    person.expect("x\r\n.*/skills/told done\r\n")
    person.type("exit 5\r")
    person.expect("in .*/out:\r\n +b \\(2 bytes\\)")
    assert person.wait() == 5 and (tmp_path / "out/b").read_text() == "x\n"


def test_a_shell_held_to_a_manifest(sit: Sit, tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "held", {"scripts/say.sh": "echo said\n"})
    manifest = tmp_path / "p.toml"
    manifest.write_text('version = 1\n[programs]\nallow = ["true"]\n')
    arguments = [str(skill), "--shell", "--permissions", str(manifest)]
    person = sit(command=[*running.husk_command(), "skill", "run", *running.OPTIONS, *arguments])
    person.expect(r"\$ ")
    person.type("/bin/true && echo well''come; /bin/uname; echo la''st $?\r")
    person.expect("wellcome\r\n.*Permission denied\r\nlast 126\r\n")
    person.type("exit 0\r")
    person.expect("not among the programs that this box may start")
    assert person.wait() == 0

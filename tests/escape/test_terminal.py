"""A hostile program on a person's terminal. What counts is what the person's shell and terminal are like afterwards."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.lib import running
from tests.lib.build_guests import BASE_FLAGS, SOURCES
from tests.lib.harness import NATIVE_ONLY
from tests.terminal.person import Person

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]
SOURCE = Path(__file__).resolve().parent / "push_keys.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("escape") / "push_keys"
    subprocess.run(["gcc", *BASE_FLAGS, f"-I{SOURCES}", "-o", str(target), str(SOURCE)], check=True)
    return target


def shell() -> Person:
    person = Person(["bash", "--norc", "--noprofile", "--noediting"])
    person.type("PS1='host''> '\r")
    person.expect("host> ")
    return person


def number(person: Person) -> str:
    return f"{os.fstat(person.slave).st_rdev:x}"


def test_the_attack_works_without_husk(program: Path) -> None:
    """Without this the next test proves nothing. Newer kernels may refuse TIOCSTI (dev.tty.legacy_tiocsti) with EIO."""
    with shell() as person:
        person.type(f"{shlex.quote(str(program))}\r")
        pushed = person.expect(r"0: pushed (\d+)")[1]
        person.expect(f"device: {number(person)}\r\n")
        setting = Path("/proc/sys/dev/tty/legacy_tiocsti")
        if setting.exists() and setting.read_text().strip() == "0" and os.getuid() != 0:
            assert pushed == "0", "the host says that it forbids this"
        else:
            assert int(pushed) > 0


@pytest.mark.parametrize("redirection", ["", "< /dev/null", "2>&1 | cat"])
def test_not_in_a_box(program: Path, redirection: str, tmp_path: Path) -> None:
    command = shlex.join([*running.husk_command(), "run", *running.OPTIONS])
    with shell() as person:
        person.type(f"export HUSK_STATE={shlex.quote(str(tmp_path))}\r")
        person.expect("host> ")
        before = person.modes()
        person.type(f"{command} --mount {program.parent}:/escape:ro -- /escape/push_keys {redirection}\r")
        for fd in range(3):
            person.expect(f"{fd}: pushed 0 ENOTTY\r*\n")
            person.expect("TIOCSETD -1, TIOCCONS -1, TIOCLINUX -1")
            person.expect("stolen -1")
        person.expect("foreign terminals: 0\r*\n")
        assert person.expect(r"device: (\w+)\r*\n")[1] != number(person)
        person.expect("host> ")
        assert person.modes() == before
        person.type("echo still ''here\r")
        person.expect("still here\r\n.*host> ")
        assert "pwned" not in person.seen

"""An interactive shell in a box, typed at: job control, keys, window size, and how it ends."""

from __future__ import annotations

import pytest

from tests.terminal.conftest import Sit
from tests.terminal.person import Person

pytestmark = pytest.mark.both_settings

BASH = ("run", "-it", "--env", "PS1=ready> ", "--", "bash", "--norc", "--noediting")
# Says when it runs in the foreground: only then is a key meant for it.
SLEEPER = "sh -c 'echo here''-I-am; exec sleep 1000'"


def shell(sit: Sit) -> Person:
    person = sit(*BASH)
    person.expect("ready> ")
    return person


def run(person: Person, line: str) -> str:
    """Type a line, wait for the next prompt: what appeared between."""
    person.type(line + "\r")
    found = person.expect(r"\r\n(.*?)ready> ")
    return found[1].replace("\r\n", "\n")


def sleeper(person: Person) -> None:
    person.type(SLEEPER + "\r")
    person.expect("here-I-am\r\n")


def test_it_is_a_terminal(sit: Sit) -> None:
    person = shell(sit)
    name = run(person, "tty").strip()
    assert name.startswith("/dev/pts/")
    assert run(person, f"ls /dev/pts; stat -c '%t %T %a %G %U' {name}") == (
        f"{name[9:]}  ptmx\n88 {int(name[9:]):x} 620 tty user\n"
    )
    assert run(person, "stty size; echo hello > /dev/tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all") == (
        "24 80\nhello\nall\n"
    )
    # 136 is the major number of Linux's pseudo-terminals, as tty_nr packs it.
    assert run(person, "cut -d' ' -f7 /proc/self/stat") == f"{136 << 8 | int(name[9:])}\n"
    assert "no job control" not in person.seen
    person.type("exit 7\r")
    assert person.wait() == 7
    assert person.modes() == person.before


def test_keys_reach_the_foreground_and_not_the_shell(sit: Sit) -> None:
    person = shell(sit)
    for key, status in (("\x03", 130), ("\x1c", 131)):
        sleeper(person)
        person.type(key)
        person.expect("ready> ")
        assert run(person, "echo $?") == f"{status}\n"
    # At the prompt ^C is a new prompt. (Linux signals first and then shows ^C: bash may be faster.)
    person.type("half a line\x03")
    person.expect("ready> ")
    person.type("\x04")
    person.expect("exit")
    assert person.wait() == 130
    assert person.modes() == person.before


def test_stopped_and_continued(sit: Sit) -> None:
    person = shell(sit)
    sleeper(person)
    person.type("\x1a")
    assert "Stopped" in person.expect("(.*)ready> ")[1]
    assert "Stopped" in run(person, "jobs")
    assert run(person, "bg").startswith("[1]+ sh")
    assert "Running" in run(person, "jobs")
    assert "Terminated" in run(person, "kill %1; wait %1")
    person.type("cat\r")
    for _ in range(2):
        person.type("word\r")
        person.expect("word\r\n.*word\r\n")  # the terminal's echo, then cat's: it is in front
        person.type("\x1a")
        assert "Stopped" in person.expect("(.*)ready> ")[1]
        person.type("fg\r")
    person.type("\x04")
    person.expect("ready> ")
    assert run(person, "jobs") == ""


def test_background_reading_and_writing(sit: Sit) -> None:
    person = shell(sit)
    run(person, "set -b; stty tostop")
    person.type("cat &\r")
    person.expect("Stopped +cat")  # SIGTTIN
    person.type("fg\r")
    person.expect("cat\r\n")
    person.type("line\r")
    person.expect("line\r\nline\r\n")
    person.type("\x04")
    person.expect("ready> ")
    person.type("echo never > /dev/tty &\r")
    person.expect("Stopped")  # SIGTTOU
    person.type("fg\r")
    person.expect("never\r\n")


def test_window_size(sit: Sit) -> None:
    person = shell(sit)
    watch = "import os,signal as s; s.pthread_sigmask(0,[28]); print('watch'+'ing',flush=True); print(s.sigwait([28]))"
    person.type(f'python3 -c "{watch}; print(os.get_terminal_size())"\r')
    person.expect("watching")
    person.resize(33, 101)
    person.expect(r"columns=101, lines=33.*ready> ")
    assert run(person, "stty size; stty rows 5; stty size") == "33 101\n5 101\n"


def test_orphans_are_not_left_stopped(sit: Sit) -> None:
    """The shell's end hangs up on its jobs, and the box ends with its first program."""
    person = shell(sit)
    sleeper(person)
    person.type("\x1a")
    person.expect("ready> ")
    person.type("exit\r")
    person.expect("stopped jobs")
    person.type("exit 3\r")
    assert person.wait() == 3


def test_husk_shell(sit: Sit) -> None:
    person = sit("shell")
    person.expect(r"[$#] ")
    person.type("echo $0 $((6*7))\r")
    person.expect(r"bash 42\r\n.*[$#] ")
    person.type("\x04")
    assert person.wait() == 0
    assert person.modes() == person.before


def test_a_terminal_made_inside(sit: Sit) -> None:
    """The box has now two terminals, and shows both."""
    person = shell(sit)
    inner = "import pty; pty.spawn(['sh','-c','tty; ls /dev/pts | wc -w; read x < /dev/tty; echo got \\$x'])"
    person.type(f'python3 -c "{inner}"\r')
    person.expect(r"/dev/pts/\d+\r\n3\r\n")
    person.type("word\r")
    person.expect("got word")
    person.expect("ready> ")
    assert run(person, "ls /dev/pts | wc -w") == "2\n"

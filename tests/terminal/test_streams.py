"""What a box gets of the caller's standard streams, and what becomes of the person's terminal."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.lib import running
from tests.lib.running import PATIENCE, husk
from tests.terminal.conftest import Sit
from tests.terminal.person import Person

pytestmark = pytest.mark.both_settings

# Which of the three is a terminal, and is it the person's: then it has the device number of the host's terminal.
LOOK = "for n in 0 1 2; do [ -t $n ] && printf 'tty ' || printf 'no '; done; echo; stat -L -c %t:%T /dev/fd/1"


def device(person: Person) -> str:
    number = os.fstat(person.slave).st_rdev
    return f"{os.major(number):x}:{os.minor(number):x}"


def in_shell(sit: Sit) -> Person:
    """A person at an ordinary shell of the host, who types husk commands: HUSK is `husk run` with this setting."""
    person = sit(command=["bash", "--norc", "--noprofile", "--noediting"])
    command = shlex.join([*running.husk_command(), "run", *running.OPTIONS])
    person.type(f"PS1='host''> '; HUSK={shlex.quote(command)}\r")
    person.expect("host> ")
    return person


def test_the_hosts_terminal_is_not_handed_over(sit: Sit) -> None:
    person = sit("run", "--", "sh", "-c", LOOK)
    assert person.wait() == 0
    words = person.seen.split("\r\n")
    assert words[0] == "tty tty tty "
    assert words[1].startswith("88:") and words[1] != device(person)


def test_pipelines_leave_the_keyboard_alone(sit: Sit) -> None:
    person = in_shell(sit)
    person.type(f"$HUSK -- sh -c {shlex.quote(LOOK + ' | head -1; cat')} | cat\r")
    person.expect("no no tty \r\n")
    person.expect("host> ")  # its input is empty, so that `cat` ends
    person.type("echo typed ahead | $HUSK -- sh -c 'cat; [ -t 1 ] && echo out' \r")
    person.expect("typed ahead\r\nout\r\n.*host> ")
    person.type("$HUSK -i -- sh -c 'read line; echo got $line' | cat\r")
    person.type("a line\r")
    person.expect("got a line\r\n.*host> ")
    assert person.modes()[3] == person.before[3]


def test_output_passes_unchanged_where_only_output_is_a_terminal(sit: Sit) -> None:
    person = in_shell(sit)
    person.type("stty -onlcr; $HUSK -- printf 'one\\ntwo' < /dev/null; stty onlcr\r")
    person.expect("one\ntwo.*host> ")


def press(person: Person, command: str, key: str, seen: str) -> None:
    """Type a command that says here-I-am, wait for that, press a key, and wait for what is seen then."""
    person.type(command + "\r")
    person.expect("here-I-am\r\n")
    person.type(key)
    person.expect(seen)


def test_ctrl_c_ends_a_program_and_not_only_husk(sit: Sit) -> None:
    person = in_shell(sit)
    for redirection in ("", "< /dev/null", "| cat"):
        press(person, f"$HUSK -- sh -c 'echo here''-I-am; exec sleep 1000' {redirection}", "\x03", "host> ")
        person.type("echo status ${PIPESTATUS[0]}\r")
        person.expect("status 130\r\n.*host> ")


def test_ctrl_z_stops_husk_as_a_job(sit: Sit) -> None:
    person = in_shell(sit)
    press(person, "$HUSK -- sh -c 'echo here''-I-am; read x; echo got $x'", "\x1a", "Stopped.*host> ")
    assert person.modes()[3] == person.before[3]
    person.type("fg\r")
    person.expect("fg\r\n.*\r\n")
    person.type("word\r")
    person.expect("got word.*host> ")


def test_ctrl_z_where_husk_reads_no_keys(sit: Sit) -> None:
    person = in_shell(sit)
    # The child says that it is there, not its parent before it: if ^Z stops a vfork child before its execve, the parent
    # stays asleep, on Linux too, and no shell learns of the stop.
    command = "$HUSK -- sh -c 'sh -c \"echo here''-I-am; exec sleep 1000\"; echo woken' < /dev/null"
    press(person, command, "\x1a", "Stopped.*host> ")
    # husk gets SIGTERM once it runs again, and ends the box. Another shell sends it: bash's own `kill` continues a
    # stopped job, so that it could be over before `fg`.
    person.type('sh -c "kill -TERM -$(jobs -p %1)"; fg\r')
    person.expect("host> ")
    person.type("echo status $?\r")
    person.expect("status 143\r\n.*host> ")


def test_the_terminal_is_put_back_whatever_happens(sit: Sit) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        person = sit("run", "-it", "--", "sh", "-c", "stty -echo raw; echo here''-I-am; exec sleep 1000")
        person.expect("here-I-am")
        assert person.modes() != person.before
        person.process.send_signal(number)
        assert person.wait() == 128 + number
        assert person.modes() == person.before
    person = sit("run", "-it", "--timeout", "0.5", "--", "sleep", "1000")
    assert person.wait() == 124 and person.modes() == person.before
    person = sit("run", "-it", "--", "/no/such/program")
    assert person.wait() == 127 and person.modes() == person.before


def test_a_killed_husk_leaves_no_raw_terminal(sit: Sit) -> None:
    """The reaper restores the modes: husk is dead, and this shell is not interactive and would not do it."""
    husk_run = shlex.join([*running.husk_command(), "run", *running.OPTIONS, "--", "sh", "-c", "echo u''p; sleep 1000"])
    inner = shlex.quote(f"echo husk is $$; exec {husk_run}")
    person = sit(command=["sh", "-c", f"sh -c {inner}; echo ended $?; read line; echo read $line"])
    pid = int(person.expect(r"husk is (\d+)").group(1))
    person.expect("up")
    assert person.modes() != person.before
    os.kill(pid, signal.SIGKILL)
    person.expect("ended 137")
    deadline = time.monotonic() + PATIENCE
    while person.modes() != person.before:
        assert time.monotonic() < deadline, "it is still raw"
        time.sleep(0.01)
    person.type("a line\r")
    person.expect("read a line\r\n")
    assert person.wait() == 0
    assert sit("run", "--", "true").wait() == 0, "and removes what the killed one left"


def test_all_output_arrives(sit: Sit) -> None:
    """Also the last of it, written just before the end."""
    person = sit("run", "--", "seq", "1", "20000")
    assert person.wait() == 0
    assert person.seen.split() == [str(number) for number in range(1, 20001)]


def test_without_a_terminal() -> None:
    """Nothing changes for scripts. A program that asks for a keyboard is told that there is none."""
    plain = husk(["run", "--", "sh", "-c", "cat; [ -t 1 ] || echo no; cat /dev/tty"], stdin=b"in\n")
    assert plain.out == "in\nno\n" and "/dev/tty: No such device or address" in plain.err
    made = husk(["run", "-t", "--", "sh", "-c", "[ -t 1 ] && stty size < /dev/tty; cat"], stdin=b"in\n")
    assert (made.status, made.out) == (0, "24 80\r\nin\r\n")
    asked = husk(["run", "-it", "--", "true"])
    assert asked.status == 2 and asked.err.startswith("husk: -it: standard input is not a terminal;")
    shell = husk(["shell"])
    assert shell.status == 2 and "husk shell needs a terminal" in shell.err


def test_a_screen_that_goes_away_hangs_up() -> None:
    """`husk run -t -- yes | head`: the reader has ended, so husk hangs up the box's terminal."""
    command = [*running.husk_command(), "run", *running.OPTIONS, "-t", "--", "yes"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y\r\n"
        process.stdout.close()
        assert process.wait(100) == 128 + signal.SIGHUP


def test_a_guest_hears_of_the_hang_up_once_and_before_writing_fails(tmp_path: Path) -> None:
    guest = """if True:
        import os, signal
        heard = os.open("/heard/log", os.O_WRONLY | os.O_APPEND)
        signal.signal(signal.SIGHUP, lambda *_: os.write(heard, b"SIGHUP "))
        try:
            while True:
                os.write(1, b"y\\n")
        except OSError as error:
            os.write(heard, error.strerror.encode())
    """
    log = tmp_path / "log"
    log.touch()
    command = [*running.husk_command(), "run", *running.OPTIONS, "-t", "--mount", f"{tmp_path}:/heard:rw"]
    command += ["--", "python3", "-c", guest]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y\r\n"
        process.stdout.close()
        assert process.wait(100) == 0
    assert log.read_text() == "SIGHUP Input/output error"


def test_passwords_are_asked_on_the_terminal(sit: Sit, tmp_path: Path) -> None:
    person = sit("run", "--", "python3", "-c", "import getpass; print('it was', getpass.getpass('Secret: ')[::-1])")
    person.expect("Secret: ")
    person.type("drow\r")
    person.expect("it was word\r\n")
    assert "drow" not in person.seen
    assert person.wait() == 0
    assert termios.tcgetattr(person.slave) == person.before

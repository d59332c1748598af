"""A reaper is killed or stopped, in an application with several boxes and runs: its run ends, and only that one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import husk
from tests.lib.running import need_bare, until

# A daemon whose parents are gone, with an argument to know it by, and a first program that waits.
STAYS = '(trap "" TERM HUP INT; setsid sleep "$1" &) ; echo up; exec sleep 300'


def reaper_of(process: husk.Process) -> int:
    (line,) = [
        line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("PPid:")
    ]
    reaper = int(line.split()[1])
    assert Path(f"/proc/{reaper}/comm").read_text() == "husk-reaper\n"
    return reaper


def sleepers(word: str) -> list[int]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", entry, "cmdline").read_bytes() == f"sleep\0{word}\0".encode():
                found.append(int(entry))
        except OSError:
            continue
    return found


def stays(box: husk.Sandbox, word: str) -> husk.Process:
    process = box.popen(["sh", "-c", STAYS, "sh", word], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "up\n"
    assert until(lambda: sleepers(word))
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("namespaces", [True, False], ids=["walled", "bare"])
def test_only_its_own_run_ends(number: signal.Signals, namespaces: bool) -> None:
    """Before the application asks for its result: it may never do that."""
    if not namespaces:
        need_bare()
    words = [f"300.{os.getpid()}{which}{number}{namespaces:d}" for which in (1, 2, 3)]
    with husk.Sandbox(namespaces=namespaces) as one, husk.Sandbox(namespaces=namespaces) as two:
        first, second, other = stays(one, words[0]), stays(one, words[1]), stays(two, words[2])
        os.kill(reaper_of(first), number)
        assert until(lambda: not sleepers(words[0]))
        with pytest.raises(husk.HuskError, match="husk-init died"):
            first.wait()
        assert sleepers(words[1]) and sleepers(words[2]) and second.poll() is None and other.poll() is None
        assert one.run(["echo", "on"], capture_output=True, text=True).stdout == "on\n"
        for process in (second, other):
            process.kill()
            assert process.wait() == -signal.SIGKILL
    assert not [pid for word in words for pid in sleepers(word)]


@pytest.mark.parametrize("namespaces", [True, False], ids=["walled", "bare"])
def test_a_box_with_a_stopped_reaper_is_closed(namespaces: bool) -> None:
    if not namespaces:
        need_bare()
    word = f"301.{os.getpid()}{namespaces:d}"
    with husk.Sandbox(namespaces=namespaces) as box:
        os.kill(reaper_of(stays(box, word)), signal.SIGSTOP)
    assert not sleepers(word)


WAITER = """
import os, signal, sys
import husk
with husk.Sandbox(namespaces=False) as box:
    process = box.popen(["sh", "-c", "(setsid sleep {word} &) ; sleep 300"])
    reaper = int(open(f"/proc/{{process.pid}}/stat").read().rpartition(")")[2].split()[1])
    os.kill(reaper, signal.SIGKILL)
    try:
        print(process.wait())
    except husk.HuskError as error:
        print(error)
"""


@pytest.mark.parametrize("ignored", [False, True], ids=["", "without-children"])
def test_an_application_that_takes_no_notice_of_its_children(ignored: bool) -> None:
    """With SIGCHLD ignored the host tells nothing about how a child ended."""
    need_bare()
    word = f"302.{os.getpid()}{ignored:d}"
    ignore = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n" if ignored else ""
    done = subprocess.run([sys.executable, "-c", ignore + WAITER.format(word=word)], capture_output=True, text=True,
                          check=True, timeout=120)  # fmt: skip
    assert done.stdout == "husk-init died; the box is gone.\n" and done.stderr == ""
    assert not sleepers(word)

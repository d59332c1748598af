"""/proc of a guest in a pid and network namespace of its own: numbers come from inside, and so does the network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .conftest import Box

# Process 1 of the namespace; 2 leads a group and dies, leaving 3 in it; sockets with a path, an abstract name, a port.
PROGRAM = """
import os, signal, socket, sys, time
kept = [socket.socket(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
kept[0].bind(("0.0.0.0", 4321)); kept[0].listen()
kept[1].bind(sys.argv[1]); kept[2].bind("\\0abstract")
if os.fork() == 0:
    os.setpgid(0, 0)
    if os.fork() == 0:
        while os.getppid() != 1:
            time.sleep(0.01)
        print(flush=True)
    else:
        os._exit(0)
else:
    os.wait()
signal.pause()
"""


@pytest.fixture
def inside(box: Box, tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Guest numbers of the namespace's first process and of its grandchild: 1 and 3."""
    unshare = shutil.which("unshare")
    command = [str(unshare), "-pnf", "--kill-child", sys.executable, "-c", PROGRAM, f"{tmp_path}/host-socket"]
    if unshare is None or subprocess.run([unshare, "-pnf", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this machine lets the test make no pid and network namespace")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            first = children(process.pid)[0]
            while len(children(first)) != 1:  # the dead one is about to be waited for
                time.sleep(0.005)
            box.tasks.processes = {1: first, 3: children(first)[0]}
            yield 1, 3
        finally:
            process.kill()


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(number) for number in file.read().split()]


def test_numbers_are_those_inside(box: Box, inside: tuple[int, int]) -> None:
    first, third = (box.read(b"/proc/%d/status" % pid).decode() for pid in inside)
    lines = dict(line.split(":\t", 1) for line in third.splitlines())
    assert (lines["Pid"], lines["PPid"], lines["NSpid"]) == ("3", "1", "3")
    assert lines["NSpgid"] == "2"  # its leader is dead and in no list
    assert "\nPPid:\t0\n" in first and "\nNSsid:\t0\n" in first
    del box.tasks.processes[1]  # as the reaper of a real box: in the namespace, but not shown
    assert box.read(b"/proc/3/status").partition(b"PPid:\t")[2].startswith(b"1\n")
    fields = box.read(b"/proc/3/stat").rpartition(b")")[2].split()
    assert fields[1:4] == [b"1", b"2", b"0"]


def test_the_network_is_shown_when_it_is_the_boxes_own(box: Box, inside: tuple[int, int]) -> None:
    rows = box.read(b"/proc/1/net/tcp").splitlines()
    assert len(rows) == 2 and rows[1].split()[1:3] == [b"00000000:10E1", b"00000000:0000"]
    unix = box.read(b"/proc/1/net/unix")
    assert b"@abstract" in unix and b"host-socket" not in unix and len(unix.splitlines()) >= 3
    assert box.read(b"/proc/1/net/netlink").count(b"\n") == 1

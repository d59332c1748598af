"""Of the descriptors husk was started with, a guest gets only 0, 1 and 2, and through them it reaches nothing else
(given.c)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import husk as api
from husk.sandbox.errors import UsageError
from husk.sandbox.stdio.socket_streams import relay_sockets
from tests.escape.test_escape import ESCAPE
from tests.lib.harness import NATIVE_ONLY, native_command
from tests.lib.running import PIPE, Result, finish, husk, husk_process, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

# Closes two of the three and leaves a file, a directory, a pipe and a socket open that the guest must not get.
CLOSED = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh"]
OPENED = [sys.executable, "-c", (
    "import os, socket, sys\n"
    "ends = [os.open('/etc/passwd', 0), os.open('/', 0), *os.pipe(), socket.socket().detach()]\n"
    "for number, fd in enumerate(ends, 20): os.dup2(fd, number)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)]  # fmt: skip


def boxed(programs: Path, *words: str) -> list[str]:
    return ["run", "--mount", f"{programs}:{ESCAPE}:ro", "--", f"{ESCAPE}/given", *words]


def with_input(programs: Path, given: int, *words: str) -> Result:
    with husk_process(boxed(programs, *words), stdin=given, stdout=PIPE, stderr=PIPE) as running:
        return finish(running.process, "husk", b"", 60)


def natively(programs: Path, given: int, *words: str) -> str:
    command = native_command([str(programs / "given"), *words])
    return subprocess.run(command, stdin=given, capture_output=True, text=True, check=True, timeout=60).stdout


def test_what_was_closed_is_nothing_of_husks(programs: Path) -> None:
    done = husk(boxed(programs, "list"), wrapper=CLOSED)
    assert (done.status, done.out) == (0, "0: null\n1: pipe\n2: null\nmore: 0\n")
    bare = subprocess.run([*CLOSED, str(programs / "given"), "list"], capture_output=True, text=True, check=True)
    assert bare.stdout == "0: closed\n1: pipe\n2: closed\nmore: 0\n"


def test_other_descriptors_stay_outside(programs: Path) -> None:
    done = husk(boxed(programs, "list"), wrapper=OPENED)
    assert (done.status, done.out) == (0, "0: pipe\n1: pipe\n2: pipe\nmore: 0\n"), done.err
    bare = subprocess.run(
        [*OPENED, str(programs / "given"), "list"], input="", capture_output=True, text=True, check=True
    )
    assert bare.stdout == "0: pipe\n1: pipe\n2: pipe\nmore: 5\n"


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        outer = socket.create_connection(server.getsockname())
        return outer, server.accept()[0]


def test_a_network_socket_as_input_leads_to_its_peer_alone(programs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as victim:
        victim.setblocking(False)
        port = str(victim.getsockname()[1])
        for inside in (True, False):
            outer, inner = connected()
            with outer, inner:
                outer.sendall(b"twelve bytes")
                outer.shutdown(socket.SHUT_WR)
                if inside:
                    done = with_input(programs, inner.fileno(), "turn", port)
                    assert done.status == 0, done.err
                    with pytest.raises(BlockingIOError):
                        victim.accept()
                    inner.close()
                    assert outer.makefile().read() == "12 read\nturned", "what it sent went to its own peer"
                else:
                    natively(programs, inner.fileno(), "turn", port)
                    victim.settimeout(60)
                    with victim.accept()[0] as reached:
                        assert reached.recv(100) == b"turned"


def test_much_goes_both_ways(programs: Path) -> None:
    """husk copies the bytes between the two sides. None may be lost, whichever side is slower."""
    outer, inner = connected()
    size = 3_000_000
    with outer, inner:
        command = ["run", "--", "/bin/sh", "-c", f"head -c {size} /dev/zero; wc -c >&2"]
        with husk_process(command, stdin=inner.fileno(), stdout=inner.fileno(), stderr=PIPE) as running:
            inner.close()
            outer.settimeout(60)
            got = 0
            while got < size:
                got += len(outer.recv(1 << 16))
            outer.sendall(bytes(size))
            outer.shutdown(socket.SHUT_WR)
            assert running.process.stderr is not None
            assert running.process.stderr.read() == b"%d\n" % size
            assert running.process.wait(timeout=60) == 0
            assert outer.recv(1) == b""


def test_sockets_that_cannot_be_relayed_are_refused(programs: Path) -> None:
    alone, unix = socket.socket(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with alone, unix, socket.create_server(("127.0.0.1", 0)) as listening:
        for given in (alone, unix, listening):
            with pytest.raises(UsageError, match="standard output is a socket"):
                relay_sockets([0, given.fileno(), 2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        done = with_input(programs, datagram.fileno(), "list")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("husk: standard input is a socket") and done.err.count("\n") == 1


def test_no_name_of_the_hosts_is_taken(programs: Path) -> None:
    """A Unix stream is handed over as it is, and belongs to the host's network namespace."""
    name = f"husk-given-{os.getpid()}-{os.urandom(4).hex()}"
    for inside in (True, False):
        outer, inner = socket.socketpair()
        with outer, inner, socket.socket(socket.AF_UNIX) as other:
            if inside:
                with husk_process(boxed(programs, "name", name), stdin=inner.fileno(), stdout=PIPE) as running:
                    assert running.process.stdout is not None
                    said = running.process.stdout.readline()
                    assert said == (b"named: yes\n" if setting() == "bare" else b"named: EPERM\n")
                    other.bind("\0" + name)
                    inner.close()
                    outer.close()
                    assert running.process.wait(timeout=60) == 0
            else:
                command = native_command([str(programs / "given"), "name", name])
                with subprocess.Popen(command, stdin=inner.fileno(), stdout=PIPE) as process:
                    assert process.stdout is not None and process.stdout.readline() == b"named: yes\n"
                    with pytest.raises(OSError, match="in use"):
                        other.bind("\0" + name)
                    inner.close()
                    outer.close()


def test_a_directory_as_input_shows_nothing(programs: Path, place: Path) -> None:
    """Through the Python interface: the interpreter of the `husk` command refuses to start on one."""
    (place / "secret").write_text("of the host\n")
    place.chmod(0o777)
    fd = os.open(place, os.O_RDONLY)
    try:
        with api.Sandbox(mounts=[f"{programs}:{ESCAPE}:ro"], namespaces=setting() == "walled") as box:
            process = box.popen([f"{ESCAPE}/given", "directory", "secret"], stdin=fd, stdout=PIPE, text=True)
            out, _ = process.communicate()
        assert len(out.splitlines()) == 8 and "done" not in out, out
        assert os.listdir(place) == ["secret"]
        assert natively(programs, fd, "directory", "secret").count(": done\n") == 8
        assert os.listdir(place) == ["made"]
    finally:
        os.close(fd)

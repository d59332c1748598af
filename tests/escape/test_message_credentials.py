"""Who a message is from. A guest's own thread sends where the receiver asks for credentials, with a header in memory
that only husk can write to: nothing a guest does may put another header in its place. And no guest can claim to be
another process or user towards a server of the host that it may reach."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from tests.escape.test_as_caller import USER, as_user
from tests.escape.test_escape import ESCAPE, unprotected
from tests.lib.build_guests import guest_programs
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

RULE = ["--allow-net", "192.0.2.1:9"]  # with a rule husk sends in the guest's place, with namespaces too
SCM_CREDENTIALS = 2


def own_state(place: Path) -> str:
    state = place / "state"
    state.mkdir()
    os.chown(state, USER, USER)
    return str(state)


def asking_server(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    server.bind(str(path))
    path.chmod(0o777)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return server


def heard(server: socket.socket) -> list[tuple[bytes, tuple[int, int, int]]]:
    """What came, and the pid, uid and gid that it came with."""
    found: list[tuple[bytes, tuple[int, int, int]]] = []
    while True:
        try:
            data, control, _, _ = server.recvmsg(100, 1000)
        except BlockingIOError:
            return found
        ((_, _, credentials),) = [each for each in control if each[1] == SCM_CREDENTIALS]
        pid, uid, gid = struct.unpack("3i", credentials)
        found.append((data, (pid, uid, gid)))


def test_a_sealed_header_cannot_be_exchanged(programs: Path, place: Path) -> None:
    place.chmod(0o755)
    with asking_server(place / "server") as server:
        program = ["sealed_race", str(place / "server")]
        options = [*RULE, "--mount", f"{programs}:{ESCAPE}:ro"]
        result = husk(["run", *options, "--", f"{ESCAPE}/{program[0]}", program[1]])
        assert result.status == 0, result.err
        ways = ("header and descriptor", "other pages", "stolen pages", "instruction")
        assert result.out.splitlines() == [f"{way}: 0" for way in ways], result.err
        assert heard(server) == []
        if setting() == "walled":  # once will do
            unprotected(programs, program, place)
            assert heard(server)


def test_a_program_gets_no_send_with_the_number_of_the_thread_that_it_replaced(programs: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as server:
        server.bind(("127.0.0.1", 0))
        options = [*RULE, "--mount", f"{programs}:{ESCAPE}:ro"]
        result = husk(["run", *options, "--", f"{ESCAPE}/sealed_exec", str(server.getsockname()[1])])
        assert (result.status, result.out) == (0, "caught and executed: 12\n"), result.err
        with pytest.raises(BlockingIOError):
            server.recv(100)


CLAIMS = """
import os, socket, struct, sys
host = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
host.connect("/given/server")
def claim(label, pid, uid, gid):
    try:
        host.sendmsg([label.encode()], [(socket.SOL_SOCKET, 2, struct.pack("3i", pid, uid, gid))])
        print(label, "sent")
    except OSError as error:
        print(label, "refused")
me = os.getpid(), os.getuid(), os.getgid()
claim("own", *me)
claim("first", 1, *me[1:])
claim("parent", os.getppid(), *me[1:])
claim("none", 0, *me[1:])
for pid in sys.argv[1:]:
    claim("host", int(pid), *me[1:])
claim("root", me[0], 0, me[2])
claim("group", *me[:2], 0)
claim("all", 1, 0, 0)
host.sendmsg([b"unasked"])
if child := os.fork():
    os.waitpid(child, 0)
else:
    claim("child of", *me)
"""


@pytest.mark.parametrize("root", [True, False], ids=["as root", "as a user"])
@pytest.mark.needs("python3", "setpriv", "unshare")
def test_no_false_credentials_reach_a_server_of_the_host(place: Path, root: bool) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to be two users")
    given = place / "given"
    given.mkdir()
    given.chmod(0o777)
    with asking_server(given / "server") as server:
        options = [*RULE, "--mount", f"{given}:/given:rw"]
        command = ["run", *options, "--", "/usr/bin/python3", "-c", CLAIMS, str(os.getpid())]
        if root:
            result = husk(command)
        else:
            result = husk(command, wrapper=as_user([], place), env={"HUSK_STATE": own_state(place)})
        assert result.status == 0, result.err
        said = dict(line.rsplit(" ", 1) for line in result.out.splitlines())
        assert said.pop("own") == "sent" and set(said.values()) == {"refused"}, result.out
        came = heard(server)
        assert [data for data, _ in came] == [b"own", b"unasked"]
        for _, (pid, uid, gid) in came:
            assert pid not in (0, 1, os.getpid()) and uid != 0 and gid != 0, came
        assert came[0][1] == came[1][1]  # the guest itself, not husk, sends what claims nothing


@pytest.mark.parametrize("options", [[], RULE], ids=["no rule", "a rule"])
@pytest.mark.needs("setpriv", "unshare")
def test_the_transcript_as_an_ordinary_user(place: Path, options: list[str]) -> None:
    """tests/box compares it as root, where husk could also send with credentials that it claims."""
    if os.getuid() != 0:
        pytest.skip("needs root, to be another user; tests/box has the same program")
    program = guest_programs() / "sock_credentials"
    native = subprocess.run(as_user([str(program)], place), check=True, capture_output=True, text=True, timeout=60)
    command = ["run", *options, "--mount", f"{program.parent}:/guests:ro", "--", "/guests/sock_credentials"]
    result = husk(command, wrapper=as_user([], place), env={"HUSK_STATE": own_state(place)})
    assert (result.status, result.out) == (0, native.stdout), result.err

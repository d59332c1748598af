"""Tries to reach servers of the host from a box without any rule: by Unix names, by loopback, by races with husk's
check. And what servers see that the box may reach."""

from __future__ import annotations

import json
import os
import random
import select
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.escape.test_escape import boxed, unprotected
from tests.lib.harness import NATIVE_ONLY, native_command
from tests.lib.running import PIPE, husk, husk_process, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

SO_PEERGROUPS = 59


@pytest.mark.needs("python3")
@pytest.mark.parametrize("options", [[], ["--net", "host"]], ids=["private", "host"])
def test_the_hosts_sockets_are_not_listed(options: list[str]) -> None:
    """Neither by /proc/net, nor by what emulated netlink answers."""
    with socket.socket() as server, socket.socket(socket.AF_UNIX) as named:
        server.bind(("127.0.0.1", 0))
        server.listen()
        named.bind("\0husk-escape-listed")
        tables = ["/proc/net/tcp", "/proc/net/udp", "/proc/net/tcp6", "/proc/net/udp6", "/proc/net/unix"]
        result = husk(["run", *options, "--", "/bin/cat", *tables])
        assert result.status == 0 and "local_address" in result.out, result.err
        assert f":{server.getsockname()[1]:04X}" not in result.out and "escape-listed" not in result.out
        assert result.out.count("\n") <= 10, result.out  # five headings; cat holds no socket


# Joins a group, sends to it and to all by every interface it can name, and tells what it heard.
IN_A_GROUP = """
import socket, sys
group, port = "239.255.66.6", int(sys.argv[1])
def made():
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    return one
member = made()
member.bind(("", port))
for interface in ("127.0.0.1", "0.0.0.0"):
    try: member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                           socket.inet_aton(group) + socket.inet_aton(interface))
    except OSError: pass
print("up", flush=True)
sys.stdin.readline()
for interface in ("127.0.0.1", "0.0.0.0", sys.argv[2]):
    for to in (group, "224.0.0.1", "255.255.255.255", "127.255.255.255", sys.argv[3]):
        sender = made()
        try:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
        except OSError: pass
        for device in (b"lo", b"eth0"):
            try: sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
            except OSError: pass
        try: sender.sendto(b"guest", (to, port))
        except OSError: pass
        for number in range(1, 6):
            info = number.to_bytes(4, "little") + socket.inet_aton(interface) + bytes(4)
            try: sender.sendmsg([b"guest"], [(socket.IPPROTO_IP, 8, info)], 0, (to, port))
            except OSError: pass
member.settimeout(0.3)
heard = set()
try:
    while True: heard.add(member.recv(100))
except OSError: pass
print(sorted(heard), flush=True)
"""


@pytest.mark.needs("python3")
@pytest.mark.parametrize("options", [[], ["--allow-net", "192.0.2.99"]], ids=["private", "rules"])
def test_groups_and_broadcasts_stay_in_the_box(options: list[str]) -> None:
    """The host's members and its broadcast listeners hear nothing of a guest, and a guest nothing of the host."""
    with ExitStack() as opened:
        host = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        host.bind(("", 0))
        port, group = host.getsockname()[1], socket.inet_aton("239.255.66.6")
        host.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        host.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + socket.inet_aton("127.0.0.1"))
        host.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        with suppress(OSError):  # a host without a network
            host.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + bytes(4))
        command = ["run", *options, "--", "/usr/bin/python3", "-c", IN_A_GROUP, str(port), *_host_network()]
        running = opened.enter_context(husk_process(command, stdin=PIPE, stdout=PIPE)).process
        assert running.stdin is not None and running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        for to in ("239.255.66.6", "127.255.255.255"):
            host.sendto(b"host", (to, port))
        running.stdin.write(b"go\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"[b'guest']\n"
        running.stdin.close()
        host.setblocking(False)
        heard = set()
        with suppress(BlockingIOError):
            while True:
                heard.add(host.recv(100))
        assert heard <= {b"host"}


def _host_network() -> tuple[str, str]:
    """An address of this machine that is not loopback, and the broadcast address of its network, as near as can be."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            own = str(probe.getsockname()[0])
        except OSError:
            own = "127.0.0.1"
    return own, own.rpartition(".")[0] + ".255"


class Servers:
    """One of every kind, open to every user of the host. What they received is checked afterwards."""

    def __init__(self, directory: Path, *, low: bool = False) -> None:
        """`low`: at ports below those that the host gives to clients, where husk draws ports for boxes."""
        self.name, self.path = f"husk-escape-{os.getpid()}-{os.urandom(4).hex()}", directory / "server"
        directory.chmod(0o755)
        self.sockets: list[socket.socket] = []
        for address in ("\0" + self.name, str(self.path)):
            self._listen(socket.AF_UNIX, address, address + "-dgram")
        # On every address: a box must not reach them by one of its own addresses, either.
        while True:
            port = random.randrange(22000, 32000) if low else 0
            try:
                self._listen(socket.AF_INET, ("0.0.0.0", port), ("0.0.0.0", port))
                break
            except OSError:  # taken
                del self.sockets[4:]
        for path in (self.path, Path(f"{self.path}-dgram")):
            path.chmod(0o777)
        self.ports = [str(each.getsockname()[1]) for each in self.sockets[-2:]]

    def _listen(self, family: int, stream: object, datagram: object) -> None:
        for kind, address in ((socket.SOCK_STREAM, stream), (socket.SOCK_DGRAM, datagram)):
            each = socket.socket(family, kind | socket.SOCK_NONBLOCK)
            each.bind(address)  # type: ignore[arg-type]
            if kind == socket.SOCK_STREAM:
                each.listen(64)
            self.sockets.append(each)

    def wait(self) -> None:
        """Wait until each has received something: the network may deliver after the sender has ended."""
        for each in self.sockets:
            assert select.select([each], [], [], 60)[0], each

    def heard(self) -> int:
        """How many of them received anything."""
        count = 0
        for each in self.sockets:
            try:
                if each.type & 0xF == socket.SOCK_STREAM:
                    each.accept()[0].close()
                else:
                    each.recv(100)
                count += 1
            except BlockingIOError:
                pass
        return count


@pytest.fixture
def servers(place: Path, request: pytest.FixtureRequest) -> Iterator[Servers]:
    made = Servers(place, low=getattr(request, "param", False))
    yield made
    for each in made.sockets:
        each.close()


@pytest.mark.parametrize("servers", [False, True], indirect=True, ids=["at a high port", "at a low port"])
def test_no_server_of_the_host_can_be_reached(programs: Path, place: Path, servers: Servers) -> None:
    arguments = ["abstract_out", servers.name, str(servers.path), *servers.ports]
    natively = unprotected(programs, arguments, place)
    servers.wait()
    assert servers.heard() == 6, natively.out
    while servers.heard():
        pass
    done = boxed(programs, arguments)
    assert servers.heard() == 0, done.out
    # Nor with rules that name none of them.
    options = ["--allow-net", "*", "--mount", f"{programs}:/escape:ro"]
    wide = husk(["run", *options, "--", "/escape/abstract_out", *arguments[1:]])
    assert wide.status == 0 and servers.heard() == 0, wide.out


def both_kinds() -> tuple[socket.socket, socket.socket]:
    """A stream and a datagram server at one port of all addresses, IPv4 and, where the host has it, IPv6."""
    family, everywhere = (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")
    while True:
        stream, datagram = (socket.socket(family, kind | socket.SOCK_NONBLOCK) for kind in (1, 2))
        if family == socket.AF_INET6:
            for each in (stream, datagram):
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        stream.bind((everywhere, 0))
        try:
            datagram.bind((everywhere, stream.getsockname()[1]))
            stream.listen(64)
            return stream, datagram
        except OSError:  # taken for datagrams
            stream.close()
            datagram.close()


def heard(pair: tuple[socket.socket, socket.socket]) -> int:
    count = 0
    try:
        while True:
            pair[0].accept()[0].close()
            count += 1
    except BlockingIOError:
        pass
    try:
        while True:
            pair[1].recv(10)
            count += 1
    except BlockingIOError:
        return count


@pytest.mark.parametrize("also", [[], ["--allow-net", "*"]])
def test_a_rule_opens_what_it_names_and_nothing_else(programs: Path, place: Path, also: list[str]) -> None:
    """By any name, family or call: husk copies the address, judges the copy, and connects to the copy."""
    opened, shut = both_kinds(), both_kinds()
    with opened[0], opened[1], shut[0], shut[1]:
        ports = [str(pair[0].getsockname()[1]) for pair in (opened, shut)]
        rules = ["--allow-net", f"127.0.0.1:{ports[0]}", *also]
        options = [*rules, "--mount", f"{programs}:/escape:ro"]
        done = husk(["run", *options, "--", "/escape/allowed_only", *ports])
        assert (done.status, done.out.splitlines()[0]) == (0, "open: connected"), done.err
        assert heard(shut) == 0, done.out
        assert heard(opened) > 3
        if not also and setting() == "walled":  # once will do
            unprotected(programs, ["allowed_only", *ports], place)
            assert heard(shut) > 10


def test_a_message_changed_after_husks_look(programs: Path, servers: Servers) -> None:
    done = boxed(programs, ["send_race", f"{servers.path}-dgram"])
    assert done.out == "done\n"
    assert servers.heard() == 0


def test_a_descriptor_cannot_be_passed_out(programs: Path, place: Path) -> None:
    """A guest can connect to a host's server below a mount, as docs/security.md says. So by default there must be none:
    nothing outside the box's own tree has a name."""
    result = husk(
        [
            "run",
            "--",
            "/usr/bin/python3",
            "-c",
            (
                "import os, socket\n"
                "for path in ('/run/docker.sock', '/run/systemd/notify', '/run/dbus/system_bus_socket', '/dev/log'):\n"
                "    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                "    print(s.connect_ex(path) != 0, end=' ')\n"
            ),
        ]
    )
    assert result.out == "True True True True ", result.err


BOTH_ENDS = """
import os, socket
caller, listener = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
caller.connect("/given/server")
caller.sendall(b"I")
listener.bind("/given/guest")
os.chmod("/given/guest", 0o777)
listener.listen()
print("listens", flush=True)
listener.accept()[0].recv(1)
"""


def test_servers_and_callers_of_the_host_see_the_boxs_user(place: Path) -> None:
    """Not husk's credentials: husk may be root, and servers may trust root."""
    place.chmod(0o777)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(place / "server"))
    (place / "server").chmod(0o777)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    server.settimeout(60)
    server.listen()
    command = ["run", "--mount", f"{place}:/given:rw", "--", "/usr/bin/python3", "-c", BOTH_ENDS]
    with server, husk_process(command, stdout=PIPE) as running:
        connection = server.accept()[0]
        with connection, socket.socket(socket.AF_UNIX) as caller:
            _, ((_, _, credentials),), _, _ = connection.recvmsg(1, 1000)
            guest = os.stat(f"/proc/{struct.unpack('3i', credentials)[0]}")
            assert guest.st_uid != 0 and guest.st_gid != 0
            assert peer(connection) == (guest.st_uid, guest.st_gid)
            if os.geteuid() == 0:
                assert connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 1000) == b""
            assert running.process.stdout is not None and running.process.stdout.readline() == b"listens\n"
            caller.connect(str(place / "guest"))
            assert peer(caller) == (guest.st_uid, guest.st_gid)
            caller.sendall(b"I")
            assert running.process.wait(60) == 0


def peer(connection: socket.socket) -> tuple[int, int]:
    _, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid, gid


@pytest.mark.needs("python3")
def test_rules_show_no_interface_of_the_host() -> None:
    """With rules husk makes the box's network sockets in the host's namespace, where the host would list its own."""
    ask = (
        "import array, fcntl, socket, struct\n"
        "room = array.array('B', bytes(4096))\n"
        "for kind in (socket.AF_INET, socket.AF_UNIX):\n"
        "    asked = struct.pack('iL', 4096, room.buffer_info()[0])\n"
        "    size = struct.unpack('iL', fcntl.ioctl(socket.socket(kind), 0x8912, asked))[0]\n"
        "    print(size // 40, bytes(room[:2]))\n"
    )
    result = husk(["run", "--allow-net", "192.0.2.1:9", "--", "python3", "-c", ask])
    assert result.out.splitlines() == ["1 b'lo'", "1 b'lo'"], result.err


@pytest.mark.parametrize(("mode", "allowed", "reached"), [
    ("ro", False, False), ("cow", False, False), ("ro", True, True), ("cow", True, True), ("rw", False, True),
])
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_sockets_of_the_host_below_mounts(place: Path, mode: str, allowed: bool, reached: bool, kind: int) -> None:
    """A server acts on what it is told: `ro` and `cow` must not lead to one that was not named."""
    place.chmod(0o777)
    (place / "link").symlink_to("server")
    code = (
        "import socket\n"
        "for name in ('/given/server', '/given/link', '/given/../given/server'):\n"
        f"    one = socket.socket(socket.AF_UNIX, {kind})\n"
        "    print(one.connect_ex(name), end=' ')\n"
        f"try: print(socket.socket(socket.AF_UNIX, {kind}).sendto(b'x', '/given/server'))\n"
        "except OSError as error: print(error.errno)\n"
    )
    options = ["--allow-socket", "/given/server"] if allowed else []
    mount = ["--mount", f"{place}:/given:{mode}"]
    with socket.socket(socket.AF_UNIX, kind) as server:
        server.bind(str(place / "server"))
        (place / "server").chmod(0o777)
        if kind == socket.SOCK_STREAM:
            server.listen()
        result = husk(["run", "--json", *mount, *options, "--", "/usr/bin/python3", "-c", code])
    said = json.loads(result.out)
    expected = "0 0 0 " if reached else "13 13 13 "
    assert said["stdout"].startswith(expected), said
    assert said["host_sockets"] == (["/given/server"] if reached else [])
    refused = [item["allow"] for item in said["refusals"]]
    assert refused == ([] if reached else ["--allow-socket /given/server"])
    if kind == socket.SOCK_DGRAM:
        assert said["stdout"] == expected + ("1\n" if reached else "13\n")


# Changes what the box says of two sockets of the host, and gives one the name of the other.
UNDER_ANOTHER_NAME = """
import os, socket
def reach(name):
    return socket.socket(socket.AF_UNIX).connect_ex("/given/" + name)
found = [reach("closed")]
os.chmod("/given/closed", 0o777)
found.append(reach("closed"))
os.utime("/given/closed")
os.link("/given/closed", "/given/linked")
found += [reach("closed"), reach("linked"), reach("open")]
os.rename("/given/open", "/given/moved")
os.rename("/given/closed", "/given/open")
found += [reach("open"), reach("moved")]
print(found)
"""


@pytest.mark.needs("python3")
def test_no_other_socket_of_the_host_gets_an_allowed_name(place: Path) -> None:
    """Below a `cow` mount a guest may rename: what is allowed is what has the name on the host."""
    place.chmod(0o777)
    mount = ["--mount", f"{place}:/given:cow", "--allow-socket", "/given/open"]
    with socket.socket(socket.AF_UNIX) as closed, socket.socket(socket.AF_UNIX) as opened:
        for name, server in (("closed", closed), ("open", opened)):
            server.bind(str(place / name))
            (place / name).chmod(0o777)
            server.listen()
        result = husk(["run", *mount, "--", "/usr/bin/python3", "-c", UNDER_ANOTHER_NAME])
        assert result.out == "[13, 13, 13, 13, 0, 13, 0]\n", result.err
        opened.settimeout(0)
        closed.settimeout(0)
        opened.accept()[0].close()
        with pytest.raises(BlockingIOError):
            closed.accept()


def test_a_service_that_starts_at_the_port_of_a_connected_socket(programs: Path, place: Path) -> None:
    """The guest's socket sends without husk. The port it is connected to must not become a host service's."""

    def attack(command: list[str], running: subprocess.Popen[bytes]) -> bytes:
        assert running.stdin is not None and running.stdout is not None
        port = int(running.stdout.readline())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as service:
            try:
                service.bind(("0.0.0.0", port))
            except OSError:  # husk holds it
                return b""
            running.stdin.write(b"go\n")
            running.stdin.flush()
            assert running.stdout.readline() == b"sent\n", command
            try:
                return service.recv(100)
            except BlockingIOError:
                return b""

    program = native_command([str(programs / "late_service")])
    with subprocess.Popen(program, stdin=PIPE, stdout=PIPE) as natively:
        assert attack(program, natively) == b"escaped"
    command = ["run", "--mount", f"{programs}:/escape:ro", "--", "/escape/late_service"]
    with husk_process(command, stdin=PIPE, stdout=PIPE) as running:
        assert attack(command, running.process) == b""
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert running.process.wait(60) == 0

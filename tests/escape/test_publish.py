"""`--publish` between a hostile guest and hostile callers: what husk holds is bounded, and nothing outlasts the box.

The guest binds, closes and binds again, never accepts, answers with rubbish, dies. Callers flood the port, go away in
the middle, or never say anything.
"""

from __future__ import annotations

import _socket
import errno
import json
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from husk.kernel.net import publishing
from husk.kernel.net.publishing import Published, Relays
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PATIENCE, PIPE, Running, husk, husk_process, scratch, until

boxed = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
    pytest.mark.needs("python3"),
]
PYTHON = "/usr/bin/python3"
HEAD = "import os, socket, sys, threading, time\ns = socket.socket(); s.bind(('0.0.0.0', 8000))\n"
# Answers each caller with what it said, after half of a megabyte of rubbish.
ECHO = (
    HEAD
    + """
s.listen(100); print("up", flush=True)
def serve(c):
    with c:
        c.sendall(os.urandom(1 << 19)); c.sendall(c.recv(100) + b"!")
while True:
    threading.Thread(target=serve, args=s.accept()[:1], daemon=True).start()
"""
)
DEAF = HEAD + "s.listen(0); print('up', flush=True); time.sleep(1000)"
RACING = (
    HEAD
    + """
print("up", flush=True)
while True:
    s.listen(5); s.settimeout(0.002)
    try: c, _ = s.accept(); c.sendall(b"hello"); c.close()
    except OSError: pass
    s.close(); s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try: s.bind(("127.0.0.1", 8000))
    except OSError: pass
"""
)


class Box:
    def __init__(self, running: Running, port: int) -> None:
        self.running, self.port = running, port

    def call(self, seconds: float = PATIENCE) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), seconds)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.running.process.pid}/fd"))

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.running.process.pid}/task"))

    def memory(self) -> int:
        """Kilobytes that husk itself holds."""
        status = Path(f"/proc/{self.running.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])


@contextmanager
def published(script: str) -> Iterator[Box]:
    with scratch() as place:
        log = place / "events"
        command = ["run", "--events", str(log), "--publish", "0:8000", "--", PYTHON, "-c", script]
        with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
            assert running.process.stdout is not None and running.process.stdout.readline() == b"up\n"
            events = [json.loads(line) for line in log.read_text().splitlines()]
            (told,) = [event["host"] for event in events if event["event"] == "publish"]
            yield Box(running, int(told.rpartition(":")[2]))


def everything(caller: socket.socket) -> bytes:
    with caller:
        caller.sendall(b"word")
        caller.shutdown(socket.SHUT_WR)
        said = b""
        while piece := caller.recv(1 << 16):
            said += piece
        return said


class Tests:
    pytestmark = boxed

    def test_a_flood_is_bounded(self) -> None:
        """More callers than there are places: husk holds few descriptors, threads and bytes, and then goes on."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        try:
            with published(ECHO) as box, ExitStack() as callers:
                before = box.memory()
                held = [callers.enter_context(box.call()) for _ in range(publishing.MOST_CONNECTIONS + 150)]
                time.sleep(1)  # each guest thread fills what it can
                assert box.descriptors() < 2 * publishing.MOST_CONNECTIONS + 100
                assert box.threads() < 2 * publishing.MOST_CONNECTIONS + 50
                assert box.memory() - before < 60 << 10
                for each in held:
                    each.close()
                assert until(lambda: box.descriptors() < 150), "callers that left keep their descriptors"
                assert until(lambda: everything(box.call())[-5:] == b"word!")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_a_server_that_never_accepts_holds_up_no_one_for_ever(self) -> None:
        """Its queue is full, and a connection to it hangs. Another caller is still received and hung up on."""
        with published(DEAF) as box, ExitStack() as callers:
            held = [callers.enter_context(box.call()) for _ in range(8)]
            assert len(held) == 8 and until(lambda: box.threads() > 8)
            began = time.monotonic()
            box.running.process.terminate()
            box.running.process.wait(PATIENCE)
            assert time.monotonic() - began < 30
            for each in held:
                with suppress(ConnectionError):
                    assert each.recv(10) == b""

    def test_a_server_that_comes_and_goes(self) -> None:
        with published(RACING) as box:
            said = set()
            for _ in range(150):
                with box.call() as caller, suppress(ConnectionError):
                    said.add(caller.recv(100))
            assert said <= {b"", b"hello"}
            assert until(lambda: box.descriptors() < 100) and box.running.process.poll() is None

    def test_callers_that_leave_in_the_middle(self) -> None:
        with published(ECHO) as box:
            before = box.descriptors()
            for turn in range(60):
                caller = box.call()
                if turn % 2:  # a reset instead of an orderly end
                    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                caller.close()
            assert until(lambda: box.descriptors() <= before + 2)
            assert everything(box.call())[-5:] == b"word!"

    def test_only_this_machine_can_call(self) -> None:
        with published(ECHO) as box:
            table = Path("/proc/net/tcp").read_text().splitlines()
            listening = [line.split()[1] for line in table[1:] if line.split()[3] == "0A"]
            assert [each for each in listening if each.endswith(f":{box.port:04X}")] == [f"0100007F:{box.port:04X}"]

    def test_a_port_that_is_taken(self) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            result = husk(["run", "--publish", f"{port}:8000", "--", "true"])
        assert result.status == 125
        assert result.err == f"husk: --publish 127.0.0.1:{port}: Address already in use; another program has it.\n"


class Network:
    """Where the box's server is, without a box."""

    class ports:
        @staticmethod
        def host_ip(_: int) -> bytes:
            return b"\x7f\0\0\1"

    def __init__(self, server: socket.socket) -> None:
        self.where: bytes = b"\2\0" + server.getsockname()[1].to_bytes(2, "big") + b"\x7f\0\0\1" + bytes(8)

    def listener(self, ip: bytes, port: int) -> bytes:
        return self.where


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen(10)
        yield made


def test_connections_end_with_the_box(server: socket.socket) -> None:
    """A caller that never closes keeps neither descriptors nor threads of a program that goes on without the box."""
    relays = Relays()
    port = Published(Network(server), relays, "127.0.0.1", 0, 8000)  # type: ignore[arg-type]
    with socket.create_connection(port.host, PATIENCE) as caller:
        inside, _ = server.accept()
        with inside:
            inside.sendall(b"hello")
            assert caller.recv(10) == b"hello"
            relays.close()
            port.close()
            assert caller.recv(10) == b"" and inside.recv(10) == b""
    assert until(lambda: not relays._open)


def test_a_host_without_descriptors_for_a_while(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many open files is no reason to stop listening for good."""
    failures = [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED]
    seen = threading.Event()

    class Failing(_socket.socket):
        def _accept(self) -> tuple[int, object]:
            if failures:
                seen.set()
                raise OSError(failures.pop(), "for a while")
            accepted: tuple[int, object] = super()._accept()  # type: ignore[misc]
            return accepted

    names = SimpleNamespace(**{**vars(_socket), "socket": Failing})
    monkeypatch.setattr("husk.kernel.net.publishing._socket", names)
    relays = Relays()
    port = Published(Network(server), relays, "127.0.0.1", 0, 8000)  # type: ignore[arg-type]
    try:
        with socket.create_connection(port.host, PATIENCE) as caller:
            inside, _ = server.accept()
            with inside:
                inside.sendall(b"hello")
                assert caller.recv(10) == b"hello" and not failures and seen.is_set()
    finally:
        port.close()
        relays.close()


def test_places_are_for_all_ports_of_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "MOST_CONNECTIONS", 2)
    relays = Relays()
    assert [relays.enter() for _ in range(3)] == [True, True, False]
    relays.leave()
    assert relays.enter()
    relays.close()
    relays.leave()
    assert not relays.enter()

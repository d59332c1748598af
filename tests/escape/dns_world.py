"""A world of its own for a command: `dns_world.py ANSWERS LOG COMMAND...` runs it where names lead where ANSWERS says.

Started in new network and mount namespaces (see `in_world`). A second network namespace, behind a pair of virtual
interfaces, is the outside: public addresses, the cloud's metadata address, and a live DNS server (UDP and TCP) that
the C library of this world asks. Every TCP server on port 80, outside and on this machine, says where it was reached.

ANSWERS is a JSON object from name to turns; each turn is a list of addresses and of `CNAME name`. Each question for a
name and type gets the next turn, the last one for ever, with a TTL of 0. A name with no turn does not exist; an empty
turn is a server failure. LOG gets each name that was asked for.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

CLONE_NEWNET, PR_SET_PDEATHSIG = 0x40000000, 1
OUTSIDE = ("192.0.2.7", "192.0.2.8", "192.0.2.9", "192.0.2.53")
PRIVATE = ("169.254.169.254", "10.0.0.1")
OUTSIDE6 = ("2001:db8:1::7",)
HERE, HERE6, ROUTED_NET = "192.0.2.1", "2001:db8:1::1", "2001:db8:2::/64"
A, CNAME, AAAA = 1, 5, 28


def in_world(answers: dict[str, list[list[str]]], log: Path) -> list[str]:
    """The words to put before a command."""
    user = [] if os.getuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    return ["unshare", *user, "--net", "--mount", "--", sys.executable, __file__, json.dumps(answers), str(log)]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def serve(family: int, where: str) -> None:
    """On port 80 of every address: say where it was reached."""
    server = socket.socket(family)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind(("", 80))
    server.listen(100)

    def answer() -> None:
        while True:
            caller, _ = server.accept()
            caller.sendall(f"{where} {caller.getsockname()[0]}".encode())
            caller.close()

    threading.Thread(target=answer, daemon=True).start()


class Names:
    def __init__(self, answers: dict[str, list[list[str]]], log: Path) -> None:
        self.answers, self.log, self.turns = answers, log, Counter[tuple[str, int]]()
        self.lock = threading.Lock()

    def reply(self, question: bytes, *, udp: bool) -> bytes:
        at, labels = 12, []
        while size := question[at]:
            labels.append(question[at + 1 : at + 1 + size].decode())
            at += 1 + size
        name, kind = ".".join(labels).lower(), struct.unpack_from(">H", question, at + 1)[0]
        asked = question[12 : at + 5]
        with self.lock:
            with self.log.open("a") as log:
                log.write(name + "\n")
            turns = self.answers.get(name)
            turn = turns[min(self.turns[name, kind], len(turns) - 1)] if turns else []
            if not udp or len(turn) < 30:
                self.turns[name, kind] += 1
        code = 3 if turns is None else 0 if turn else 2
        truncated = udp and len(turn) >= 30
        records = [] if truncated else self.records(turn, kind)
        flags = 0x8180 | code | (0x0200 if truncated else 0)
        return question[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + asked + b"".join(records)

    def records(self, turn: list[str], kind: int) -> list[bytes]:
        """A chain of aliases is followed here, as a recursive server does it."""
        made, owner = [], b"\xc0\x0c"
        while turn and turn[0].startswith("CNAME "):
            target = turn[0].split()[1]
            text = b"".join(bytes((len(label),)) + label.encode() for label in target.split(".")) + b"\0"
            made.append(owner + struct.pack(">HHIH", CNAME, 1, 0, len(text)) + text)
            owner, turn = text, self.answers[target][0]
        for each in turn:
            family = socket.AF_INET6 if ":" in each else socket.AF_INET
            if kind == (AAAA if ":" in each else A):
                data = socket.inet_pton(family, each)
                made.append(owner + struct.pack(">HHIH", kind, 1, 0, len(data)) + data)
        return made

    def serve(self) -> None:
        udp, tcp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket()
        for each in (udp, tcp):
            each.bind(("192.0.2.53", 53))
        tcp.listen(10)

        def datagrams() -> None:
            while True:
                question, asker = udp.recvfrom(4096)
                udp.sendto(self.reply(question, udp=True), asker)

        def streams() -> None:
            while True:
                caller, _ = tcp.accept()
                while size := caller.recv(2):
                    reply = self.reply(caller.recv(int.from_bytes(size, "big")), udp=False)
                    caller.sendall(len(reply).to_bytes(2, "big") + reply)
                caller.close()

        for body in (datagrams, streams):
            threading.Thread(target=body, daemon=True).start()


def outside(names: Names, ready: int, go: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if libc.unshare(CLONE_NEWNET):
        os._exit(1)
    os.write(ready, b".")
    os.read(go, 1)
    ip("link", "set", "lo", "up")
    ip("link", "set", "out", "up")
    for each in (*OUTSIDE, *PRIVATE):
        ip("addr", "add", f"{each}/{32 if each in PRIVATE else 24}", "dev", "out")
    for each in OUTSIDE6:
        ip("addr", "add", f"{each}/64", "dev", "out", "nodad")
    serve(socket.AF_INET, "outside")
    serve(socket.AF_INET6, "outside")
    names.serve()
    os.write(ready, b".")
    signal.pause()


def main(answers: str, log: str, command: Sequence[str]) -> int:
    (ready, tell_ready), (go, tell_go) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            outside(Names(json.loads(answers), Path(log)), tell_ready, go)
        finally:
            os._exit(1)
    os.close(tell_ready)
    try:
        assert os.read(ready, 1), "no second network namespace"
        ip("link", "set", "lo", "up")
        ip("link", "add", "in", "type", "veth", "peer", "name", "out", "netns", str(child))
        ip("link", "set", "in", "up")
        os.write(tell_go, b".")
        ip("addr", "add", f"{HERE}/24", "dev", "in")
        ip("addr", "add", f"{HERE6}/64", "dev", "in", "nodad")
        for each in PRIVATE:
            ip("route", "add", each, "dev", "in")
        ip("-6", "route", "add", "local", ROUTED_NET, "dev", "lo")  # a whole network that leads here
        serve(socket.AF_INET, "HOST")
        serve(socket.AF_INET6, "HOST")
        assert os.read(ready, 1), "the outside did not start"
        names = Path(log).with_suffix(".resolv")
        names.write_text("nameserver 192.0.2.53\noptions timeout:5 attempts:1\n")
        subprocess.run(["mount", "--bind", str(names), "/etc/resolv.conf"], check=True)
        drop = [] if os.getuid() == 0 else ["setpriv", "--inh-caps=-all", "--ambient-caps=-all", "--"]
        return subprocess.run([*drop, *command], check=False).returncode
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))

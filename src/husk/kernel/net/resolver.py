"""kernel: the DNS resolver inside a box, at 127.0.0.53, over UDP and TCP. It answers A and AAAA for allowed names only.

Here: the parts of DNS's wire format (RFC 1035) that this needs, and the threads that serve it. husk.kernel.net.egress
decides which names and addresses are allowed. A name that is not allowed does not exist for the guest (NXDOMAIN):
REFUSED would make C libraries ask again and again.
"""

from __future__ import annotations

import _socket
import struct

from husk.kernel.net.socket_filter import set_source_filter
from husk.native.threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.net.egress import Egress
    from husk.kernel.net.ports import Ports

ADDRESS, PORT = b"\x7f\0\0\x35", 53
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_NAME, NOT_IMPLEMENTED = 0, 1, 2, 3, 4
A, AAAA, INTERNET = 1, 28, 1
RESPONSE, RECURSION_AVAILABLE = 0x8000, 0x0080
SECONDS, MOST_ANSWERS, MOST_AT_ONCE, PATIENCE = 60, 14, 64, 10.0


class Resolver:
    """Serves until it is closed. Each query takes a thread while the host resolves it."""

    def __init__(self, egress: Egress, ports: Ports) -> None:
        self._egress, self._busy = egress, 0
        slot = ports.slot(ADDRESS)
        self._udp = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
        self._tcp = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        for each, kind in ((self._udp, _socket.SOCK_DGRAM), (self._tcp, _socket.SOCK_STREAM)):
            set_source_filter(each.fileno(), ports.block, [])
            ports.bind(each.fileno(), _socket.AF_INET, kind, slot, PORT)
        self._tcp.listen(16)
        try:
            start_thread(self._serve_udp)
            start_thread(self._serve_tcp)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        for each in (self._udp, self._tcp):
            try:
                each.shutdown(_socket.SHUT_RDWR)  # wakes the threads that wait in it
            except OSError:
                pass
            each.close()

    def _serve_udp(self) -> None:
        try:
            while True:
                question, asker = self._udp.recvfrom(4096)
                if self._busy < MOST_AT_ONCE and question:
                    self._begin(self._answer_udp, question, asker)
        except OSError:
            pass  # closed

    def _answer_udp(self, question: bytes, asker: tuple[str, int]) -> None:
        try:
            self._udp.sendto(self.answer(question), asker)
        except (OSError, ValueError):
            pass
        finally:
            self._busy -= 1

    def _serve_tcp(self) -> None:
        try:
            while True:
                fd, _ = self._tcp._accept()  # type: ignore[attr-defined]  # unlike ours it continues after a signal
                if self._busy >= MOST_AT_ONCE:
                    _socket.close(fd)
                    continue
                connection = _socket.socket(fileno=fd)
                if not self._begin(self._answer_tcp, connection):
                    connection.close()
        except OSError:
            pass

    def _begin(self, body: Callable[..., None], *words: object) -> bool:
        self._busy += 1
        try:
            start_thread(body, *words)
        except OSError:  # the guest will ask again
            self._busy -= 1
            return False
        return True

    def _answer_tcp(self, connection: _socket.socket) -> None:
        try:
            connection.settimeout(PATIENCE)
            while head := _exactly(connection, 2):
                question = _exactly(connection, int.from_bytes(head, "big"))
                answer = self.answer(question)
                connection.sendall(len(answer).to_bytes(2, "big") + answer)
        except (OSError, ValueError):
            pass
        finally:
            connection.close()
            self._busy -= 1

    def answer(self, question: bytes) -> bytes:
        """The reply to a query; ValueError for anything else."""
        if len(question) < 12:
            raise ValueError("too short for a query")
        number, flags, count = struct.unpack_from(">HHH", question)
        if flags & RESPONSE:
            raise ValueError("not a query")
        if flags & 0x7800:
            return _reply(number, flags, NOT_IMPLEMENTED, b"", [])
        try:
            if count != 1:
                raise ValueError("one question at a time")
            name, end = read_name(question, 12)
            kind, group = struct.unpack_from(">HH", question, end)
        except (ValueError, struct.error):
            return _reply(number, flags, FORMAT_ERROR, b"", [])
        asked = question[12 : end + 4]
        if group != INTERNET or not name:
            return _reply(number, flags, NO_NAME, asked, [])
        try:
            found = self._egress.resolve(name)
        except OSError as error:
            code = (
                NO_NAME if error.args and error.args[0] in (_socket.EAI_NONAME, _socket.EAI_NODATA) else SERVER_FAILURE
            )
            return _reply(number, flags, code, asked, [])
        wanted = [ip for ip in found if len(ip) == (4 if kind == A else 16 if kind == AAAA else 0)]
        return _reply(number, flags, NO_ERROR if found else NO_NAME, asked, wanted[:MOST_ANSWERS])


def _reply(number: int, flags: int, code: int, asked: bytes, found: list[bytes]) -> bytes:
    head = struct.pack(
        ">HHHHHH", number, RESPONSE | RECURSION_AVAILABLE | flags & 0x7900 | code, 1 if asked else 0, len(found), 0, 0
    )
    body = b"".join(
        struct.pack(">HHHIH", 0xC00C, A if len(ip) == 4 else AAAA, INTERNET, SECONDS, len(ip)) + ip for ip in found
    )
    return head + asked + body


def read_name(message: bytes, at: int) -> tuple[str, int]:
    """A name and the offset behind it. Compression pointers are an error: a query has no earlier name to point to."""
    labels: list[str] = []
    while True:
        if at >= len(message):
            raise ValueError("the name has no end")
        size = message[at]
        if size == 0:
            break
        label = message[at + 1 : at + 1 + size]
        if size > 63 or len(label) != size or not all(33 <= byte < 127 and byte != 46 for byte in label):
            raise ValueError("no label")
        labels.append(label.decode("ascii"))
        at += 1 + size
    name = ".".join(labels)
    if len(name) > 253:
        raise ValueError("too long for a name")
    return name, at + 1


def _exactly(connection: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            return b""
        data += piece
    return data

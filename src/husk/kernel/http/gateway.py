"""kernel: the HTTP server inside a box that leads to the hosts of `--allow-http`, and adds what `--inject` says.

The guest speaks plain HTTP with husk, at 127.0.0.80, which is what the hosts' names lead to inside. husk judges each
request, and speaks with the real host itself, over TLS where the rule says https. There is one connection to the host
for each request: nothing of one request can be taken for another. Redirects go back to the guest, without the secret.

Guest and host are strangers both: descriptors, threads and memory stay bounded, and nothing outlasts the box.
"""

from __future__ import annotations

import _socket
import socket

from husk.kernel.http.http_message import (
    OVERRIDING,
    Headers,
    Incoming,
    Request,
    Response,
    WrongMessage,
    body_size,
    host_of,
    keeps_alive,
    parse_request,
    parse_response,
    passed_on,
    values,
)
from husk.kernel.http.upstream import Unreachable, Upstream
from husk.kernel.net.port_owners import client_inode
from husk.kernel.net.publishing import BACKLOG, Relays
from husk.kernel.net.socket_filter import set_source_filter
from husk.native.threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from husk.kernel.http.http_rules import Service
    from husk.kernel.net.mapped import MappedNetwork

    class Told(Protocol):
        def refused(self, by: str, error: str, what: str, why: str, allow: str) -> None: ...
        def requested(self, method: str, url: str, status: int) -> None: ...


ADDRESS = b"\x7f\0\0\x50"
# Seconds: for the head of a request; of silence within one; of silence from the host (models think for minutes); for a
# client that takes no bytes.
HEAD, SILENCE, THINKING, SLOW = 30.0, 60.0, 900.0, 60.0
NO_BODY, NO_ANSWER = (204, 304), 0
STATUS = {400: "Bad Request", 403: "Forbidden", 408: "Request Timeout", 414: "URI Too Long", 421: "Misdirected Request",
          431: "Request Header Fields Too Large", 502: "Bad Gateway", 504: "Gateway Timeout"}  # fmt: skip


LEAK = "it holds the secret that husk sent there"


class Leak(Exception):
    """The host sends a secret back."""


class Gateway:
    """Serves until it is closed."""

    __slots__ = ("_listeners", "_network", "_relays", "_services", "_told", "_upstream")

    def __init__(self, network: MappedNetwork, services: list[Service], upstream: Upstream, told: Told) -> None:
        self._network, self._services, self._upstream, self._told = network, services, upstream, told
        self._relays = Relays()
        self._listeners: list[_socket.socket] = []
        try:
            for port in {each.inside for each in services}:
                self._listen(port)
        except BaseException:
            self.close()
            raise

    def _listen(self, port: int) -> None:
        ports = self._network.ports
        made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self._listeners.append(made)
        set_source_filter(made.fileno(), ports.block, [])
        ports.bind(made.fileno(), _socket.AF_INET, _socket.SOCK_STREAM, ports.slot(ADDRESS), port)
        made.listen(BACKLOG)
        start_thread(self._relays.serve, made, lambda caller: self._carry(caller, port))

    def close(self) -> None:
        for each in self._listeners:
            try:
                each.shutdown(_socket.SHUT_RDWR)  # wakes the thread that waits in it
            except OSError:
                pass
            each.close()
        self._relays.close()

    def _carry(self, caller: int, port: int) -> None:
        guest = socket.socket(fileno=caller)
        relays = self._relays
        try:
            relays.hold(guest)
            if self._is_of_the_box(guest):
                guest.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
                incoming = Incoming(guest, SILENCE)
                while self._answer_one(guest, incoming, port):
                    pass
        except (OSError, ValueError):  # either end is gone; ValueError: of a TLS connection that `close` shut down
            pass
        finally:
            relays.drop(guest)
            relays.leave()

    def _is_of_the_box(self, guest: socket.socket) -> bool:
        """Other users of the machine could find the port on the host's loopback, and use the credentials."""
        (own, own_port), (peer, peer_port) = guest.getsockname()[:2], guest.getpeername()[:2]
        here, there = (_socket.inet_pton(_socket.AF_INET, text) for text in (own, peer))
        return self._network.was_connected(client_inode((there, peer_port), (here, own_port)))

    # -- one request -------------------------------------------------------------------------------------------
    def _answer_one(self, guest: socket.socket, incoming: Incoming, port: int) -> bool:
        """False: the connection is over."""
        try:
            head = incoming.head(HEAD)
            if not head:
                return False
            request = parse_request(head)
            size = body_size(request.headers, request.modern)
            host = host_of(request)
        except WrongMessage as wrong:
            return _say(guest, wrong.status, f"husk: {wrong.why}.")
        except TimeoutError:
            return _say(guest, 408, "husk: the request took too long.")
        service = next((each for each in self._services if each.answers_to(host, port)), None)
        if service is None:
            why = "no --allow-http rule names that host"
            self._refuse(f"{request.method} http://{host}{request.path}", why, "")
            return _say(guest, 421, f"husk: {why}.")
        url = f"{service.origin}{request.path}"
        refusal = service.refusal(request.method, request.path)
        if refusal is not None:
            why, allow = refusal
            self._refuse(f"{request.method} {url}", why, allow)
            self._told.requested(request.method, url, 403)
            return _say(guest, 403, f"husk: {request.method} {request.path}: {why}.")
        status, alive = NO_ANSWER, False
        try:
            status, alive = self._forward(guest, incoming, service, request, size)
        finally:  # a guest that does not wait for the answer has asked all the same
            self._told.requested(request.method, url, status)
        return alive

    def _forward(
        self, guest: socket.socket, incoming: Incoming, service: Service, request: Request, size: int | None
    ) -> tuple[int, bool]:
        """The status that the guest was told, and whether its connection goes on."""
        outer: socket.socket | None = None
        try:
            plain = outer = self._upstream.connect(service, self._relays)
            if service.scheme == "https":
                outer = self._upstream.protect(service, plain)
                self._relays.exchange(plain, outer)
            outer.settimeout(SILENCE)
            outer.sendall(_request_head(service, request, size))
            if any(value.lower() == b"100-continue" for value in values(request.headers, b"expect")):
                guest.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            try:
                self._send_body(outer, incoming, size)
            except WrongMessage as wrong:
                return 400, _say(guest, 400, f"husk: {wrong.why}.")
            answer = Incoming(outer, THINKING)
            response = _final_response(answer)
            length = body_size(response.headers)
            lines = [response.reason, *(b"%b: %b" % header for header in response.headers)]
            if any(secret in line for secret in service.secrets for line in lines):
                self._refuse_leak(service, request)
                return 502, _say(guest, 502, f"husk: {LEAK}.")
        except Unreachable as error:
            if error.refused:
                self._refuse(f"{request.method} {service.origin}{request.path}", error.why, error.allow)
            return (status := 403 if error.refused else 502), _say(guest, status, f"husk: {error.why}.")
        except WrongMessage as wrong:
            return 502, _say(guest, 502, f"husk: {service.authority}: {wrong.why}.")
        except TimeoutError:
            return 504, _say(guest, 504, f"husk: {service.authority} takes too long.")
        else:
            # From here on the guest has the beginning of an answer: what goes wrong can only cut it off.
            return response.status, self._send_back(guest, service, request, response, answer, length)
        finally:
            if outer is not None:
                self._relays.drop(outer)

    def _send_body(self, outer: socket.socket, incoming: Incoming, size: int | None) -> None:
        pieces: Iterator[bytes] = incoming.chunks() if size is None else incoming.exactly(max(size, 0))
        try:
            for piece in pieces:
                outer.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if size is None else piece)
            if size is None:
                outer.sendall(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # the host may have answered already: it wants no more of this body

    def _send_back(
        self,
        guest: socket.socket,
        service: Service,
        request: Request,
        response: Response,
        answer: Incoming,
        size: int | None,
    ) -> bool:
        bare = request.method == "HEAD" or response.status in NO_BODY
        chunked = not bare and (size is None or size < 0) and request.modern
        alive = keeps_alive(request.headers, request.modern) and (bare or chunked or (size is not None and size >= 0))
        headers = [(name, _inside(service, name, value)) for name, value in passed_on(response.headers)]
        if chunked:
            headers.append((b"Transfer-Encoding", b"chunked"))
        elif size is not None and size >= 0:
            headers.append((b"Content-Length", b"%d" % size))
        headers.append((b"Connection", b"keep-alive" if alive else b"close"))
        guest.settimeout(SLOW)
        guest.sendall(_head(b"HTTP/1.1 %d %b" % (response.status, response.reason), headers))
        if bare:
            return alive
        whole = answer.chunks(lenient=True)
        pieces = whole if size is None else answer.to_the_end() if size < 0 else answer.exactly(size)
        try:
            for piece in _without(pieces, service.secrets):
                guest.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        except (WrongMessage, TimeoutError):
            return False
        except Leak:
            self._refuse_leak(service, request)
            return False
        if chunked:
            guest.sendall(b"0\r\n\r\n")
        return alive

    def _refuse_leak(self, service: Service, request: Request) -> None:
        self._refuse(f"answer of {service.origin}{request.path}", LEAK, "")

    def _refuse(self, what: str, why: str, allow: str) -> None:
        self._told.refused("http", "EACCES", what, why, allow)


def _request_head(service: Service, request: Request, size: int | None) -> bytes:
    own = frozenset(each.header.lower().encode() for each in service.inject) | {b"host", b"expect"} | OVERRIDING
    headers = passed_on(request.headers, own)
    if service.inject:  # else an answer that holds the secret would not be noticed
        headers = [(name, value) for name, value in headers if name.lower() != b"accept-encoding"]
        headers.append((b"Accept-Encoding", b"identity"))
    headers.insert(0, (b"Host", service.authority.encode()))
    headers += [(each.header.encode(), each.value.encode()) for each in service.inject]
    if size is None:
        headers.append((b"Transfer-Encoding", b"chunked"))
    elif size >= 0:
        headers.append((b"Content-Length", b"%d" % size))
    headers.append((b"Connection", b"close"))
    return _head(f"{request.method} {request.target} HTTP/1.1".encode(), headers)


def _final_response(answer: Incoming) -> Response:
    for _ in range(8):
        head = answer.head(THINKING)
        if not head:
            raise WrongMessage("it ended the connection without an answer")
        response = parse_response(head)
        if response.status >= 200:
            return response
        if response.status == 101:
            break
    raise WrongMessage("it wants to speak something else than HTTP")


def _inside(service: Service, name: bytes, value: bytes) -> bytes:
    """Where the host sends the client elsewhere on itself, the client must come back here."""
    origin = service.origin.encode()
    if service.scheme != "https" or name.lower() not in (b"location", b"content-location"):
        return value
    if value != origin and not value.startswith((origin + b"/", origin + b"?")):
        return value
    return b"http" + value[5:]


def _without(pieces: Iterator[bytes], secrets: list[bytes]) -> Iterator[bytes]:
    """The pieces, as long as no secret is in them. What may be the beginning of one waits for the next piece."""
    held = b""
    for piece in pieces:
        data = held + piece
        if any(secret in data for secret in secrets):
            raise Leak
        keep = max((_overlap(data, secret) for secret in secrets), default=0)
        held, data = data[len(data) - keep :], data[: len(data) - keep]
        if data:
            yield data
    if held:
        yield held


def _overlap(data: bytes, secret: bytes) -> int:
    """How many bytes at the end of `data` are the beginning of `secret`."""
    return next((size for size in range(min(len(secret) - 1, len(data)), 0, -1) if data.endswith(secret[:size])), 0)


def _head(first: bytes, headers: Headers) -> bytes:
    return b"".join((first, b"\r\n", *(b"%b: %b\r\n" % header for header in headers), b"\r\n"))


def _say(guest: socket.socket, status: int, text: str) -> bool:
    """An answer of husk's own. The connection ends with it: what follows may be anything."""
    body = text.encode() + b"\n"
    headers = [
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Content-Length", b"%d" % len(body)),
        (b"Connection", b"close"),
    ]
    guest.settimeout(SLOW)
    guest.sendall(_head(f"HTTP/1.1 {status} {STATUS[status]}".encode(), headers) + body)
    guest.shutdown(_socket.SHUT_WR)
    # Closing with unread bytes would reset the connection, and the answer might be lost.
    guest.settimeout(2.0)
    try:
        for _ in range(64):
            if not guest.recv(65536):
                break
    except OSError:
        pass
    return False

"""kernel: reading HTTP/1.1 messages from a stranger: heads, bodies and where they end. Nothing is forwarded here.

Everything is bounded, and what two servers could read differently is refused, because request smuggling lives on it:
bare line feeds, folded lines, spaces before a colon, two lengths, a length beside chunks, other transfer codings.
"""

from __future__ import annotations

import time

from husk.kernel.http.http_rules import TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.kernel.http.upstream import Stream

MOST_HEAD, MOST_HEADERS, MOST_TARGET = 65536, 128, 8192
PIECE = 65536
LONGEST_SIZE = 15  # digits of a length
# Of one connection, not of the message (RFC 9110, 7.6.1); and what a proxy would be told.
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade".split()
)
# Some servers take method, path or host from these in place of the request's own.
OVERRIDING = frozenset(
    b"x-http-method x-http-method-override x-method-override x-original-url x-rewrite-url forwarded x-forwarded-host"
    b" x-forwarded-server x-forwarded-prefix x-forwarded-proto x-forwarded-port x-forwarded-uri".split()
)

Headers = list[tuple[bytes, bytes]]


class WrongMessage(Exception):
    """`status` is what the guest is told where its request was wrong."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.why, self.status = why, status


class Incoming:
    """Bytes from a connection, read in pieces. `seconds`: how long the other end may be silent."""

    __slots__ = ("_buffer", "_seconds", "_stream")

    def __init__(self, stream: Stream, seconds: float) -> None:
        self._stream, self._buffer, self._seconds = stream, b"", seconds

    def head(self, seconds: float) -> bytes:
        """Up to the empty line, which must come within that time, however the bytes trickle; b"" if the other end left
        before the first byte."""
        until = time.monotonic() + seconds
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MOST_HEAD:
                raise WrongMessage("the headers are too long", 431)
            piece = self._receive(until - time.monotonic())
            if not piece:
                if self._buffer:
                    raise WrongMessage("it ends within its headers")
                return b""
            self._buffer += piece
        if end > MOST_HEAD:
            raise WrongMessage("the headers are too long", 431)
        found, self._buffer = self._buffer[: end + 2], self._buffer[end + 4 :]
        return found

    def line(self, most: int = LONGEST_SIZE) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > most + 2:
                raise WrongMessage("a chunk has no size")
            self._buffer += self._some()
        found, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return found

    def exactly(self, size: int) -> Iterator[bytes]:
        while size > 0:
            piece = self._buffer or self._some()
            piece, self._buffer = piece[:size], piece[size:]
            size -= len(piece)
            yield piece

    def to_the_end(self) -> Iterator[bytes]:
        if self._buffer:
            yield self._buffer
        self._buffer = b""
        while piece := self._receive(self._seconds):
            yield piece

    def chunks(self, *, lenient: bool = False) -> Iterator[bytes]:
        """`lenient`, for answers: extensions and trailers are left out. In a request they are a mistake."""
        most = MOST_TARGET if lenient else LONGEST_SIZE
        while True:
            text = self.line(most)
            if lenient:
                text = text.partition(b";")[0].rstrip(b" \t")
            if not text or len(text) > LONGEST_SIZE or not all(byte in b"0123456789abcdefABCDEF" for byte in text):
                raise WrongMessage("a chunk has no plain size")
            size = int(text, 16)
            yield from self.exactly(size)
            if size == 0 and lenient:
                for _ in range(MOST_HEADERS):
                    if not self.line(most):
                        return
            if self.line() != b"":
                raise WrongMessage("a chunk is longer than it says, or trailers follow")
            if size == 0:
                return

    def _some(self) -> bytes:
        piece = self._receive(self._seconds)
        if not piece:
            raise WrongMessage("it ends too early")
        return piece

    def _receive(self, seconds: float) -> bytes:
        if seconds <= 0:
            raise TimeoutError("it took too long")
        self._stream.settimeout(seconds)
        return self._stream.recv(PIECE)


class Request:
    __slots__ = ("headers", "method", "modern", "path", "target")

    def __init__(self, method: str, target: str, modern: bool, headers: Headers) -> None:
        self.method, self.target, self.modern, self.headers = method, target, modern, headers
        self.path = target.partition("?")[0]


class Response:
    __slots__ = ("headers", "reason", "status")

    def __init__(self, status: int, reason: bytes, headers: Headers) -> None:
        self.status, self.reason, self.headers = status, reason, headers


def parse_request(head: bytes) -> Request:
    first, *lines = _lines(head)
    words = first.split(b" ")
    if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise WrongMessage("the first line is not METHOD PATH HTTP/1.1")
    method, target = words[0], words[1]
    if not method or not set(method) <= TOKEN:
        raise WrongMessage("there is no method")
    if len(target) > MOST_TARGET:
        raise WrongMessage("the path is too long", 414)
    # A host within the request line could be another than that in Host.
    if not target.startswith(b"/") or not all(33 <= byte < 127 and byte != 35 for byte in target):
        raise WrongMessage("a request to husk names a path, which begins with /")
    return Request(method.decode(), target.decode(), words[2] == b"HTTP/1.1", _headers(lines))


def parse_response(head: bytes) -> Response:
    first, *lines = _lines(head)
    words = first.split(b" ", 2)
    if len(words) < 2 or words[0] not in (b"HTTP/1.1", b"HTTP/1.0") or len(words[1]) != 3 or not words[1].isdigit():
        raise WrongMessage("the answer is not HTTP/1.1")
    return Response(int(words[1]), words[2] if len(words) > 2 else b"", _headers(lines))


def _lines(head: bytes) -> list[bytes]:
    lines = head.split(b"\r\n")[:-1]
    if not lines or any(byte in head.replace(b"\r\n", b"") for byte in (b"\r", b"\n", b"\0")):
        raise WrongMessage("a line does not end in CR LF, or holds a control character")
    return lines


def _headers(lines: list[bytes]) -> Headers:
    if len(lines) > MOST_HEADERS:
        raise WrongMessage("there are too many headers", 431)
    found = []
    for line in lines:
        name, colon, value = line.partition(b":")
        # A name with a space before its colon, or a line that continues the last one, has a byte that no name has.
        if not colon or not name or not set(name) <= TOKEN:
            raise WrongMessage("a header has no proper name")
        value = value.strip(b" \t")
        if any((byte < 32 and byte != 9) or byte == 127 for byte in value):
            raise WrongMessage("a header holds a control character")
        found.append((name, value))
    return found


def values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key.lower() == name]


def host_of(request: Request) -> str:
    """What Host says. Exactly one there must be."""
    found = values(request.headers, b"host")
    if len(found) != 1 or not found[0] or not found[0].isascii() or b"," in found[0] or b" " in found[0]:
        raise WrongMessage("a request names one Host")
    return found[0].decode()


def body_size(headers: Headers, modern: bool = True) -> int | None:
    """How long the body is; None: it comes in chunks; -1: nothing is said."""
    lengths, codings = values(headers, b"content-length"), values(headers, b"transfer-encoding")
    if codings:
        if lengths or len(codings) != 1 or codings[0].lower() != b"chunked" or not modern:
            raise WrongMessage("two things say where the body ends, or it has an unknown transfer coding")
        return None
    if not lengths:
        return -1
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > LONGEST_SIZE:
        raise WrongMessage("the length of the body is no number")
    return int(lengths[0])


def passed_on(headers: Headers, without: frozenset[bytes] = frozenset()) -> Headers:
    """The headers that belong to the message. Names with an underscore are left out: many servers take `_` for `-`."""
    named = {word.strip().lower() for value in values(headers, b"connection") for word in value.split(b",")}
    dropped = HOP_BY_HOP | named | without | {b"content-length"}
    return [(name, value) for name, value in headers if name.lower() not in dropped and b"_" not in name]


def keeps_alive(headers: Headers, modern: bool) -> bool:
    words = {word.strip().lower() for value in values(headers, b"connection") for word in value.split(b",")}
    return modern and b"close" not in words

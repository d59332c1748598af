"""Messages as a hostile guest or host writes them: what can be read in two ways is not read at all."""

from __future__ import annotations

import pytest

from husk.kernel.http.gateway import Leak, _without
from husk.kernel.http.http_message import (
    MOST_HEAD,
    Incoming,
    WrongMessage,
    body_size,
    host_of,
    parse_request,
    parse_response,
    passed_on,
)


class Bytes:
    """A connection that brings what it was given, in pieces of a size."""

    def __init__(self, data: bytes, size: int = 7) -> None:
        self.data, self.size = data, size

    def recv(self, size: int, /) -> bytes:
        piece, self.data = self.data[: min(size, self.size)], self.data[min(size, self.size) :]
        return piece

    def sendall(self, data: bytes, /) -> None: ...

    def settimeout(self, seconds: float | None, /) -> None: ...


GOOD = b"GET /a?b=1 HTTP/1.1\r\nHost: h\r\nX-A:  b \r\n"


def test_a_plain_request() -> None:
    request = parse_request(GOOD)
    assert (request.method, request.target, request.path, request.modern) == ("GET", "/a?b=1", "/a", True)
    assert request.headers == [(b"Host", b"h"), (b"X-A", b"b")] and host_of(request) == "h"


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a HTTP/1.1\nHost: h\r\n",
        b"GET /a HTTP/1.1\r\nHost: h\nX: 1\r\n",
        b"GET /a HTTP/1.1\r\nHost: h\rX: 1\r\n",
        b"GET /a HTTP/1.1\r\nHost: h\r\n X: folded\r\n",
        b"GET /a HTTP/1.1\r\nHost : h\r\n",
        b"GET /a HTTP/1.1\r\nHost: h\0\r\n",
        b"GET /a HTTP/1.1\r\nHost: h\x01\r\n",
        b"GET /a HTTP/1.1\r\nHost h\r\n",
        b"GET /a HTTP/1.1\r\n: h\r\n",
        b"GET  /a HTTP/1.1\r\nHost: h\r\n",
        b"GET /a b HTTP/1.1\r\nHost: h\r\n",
        b"GET /a HTTP/2.0\r\nHost: h\r\n",
        b"GET /a\r\nHost: h\r\n",
        b"GET http://other/a HTTP/1.1\r\nHost: h\r\n",
        b"GET //\x80 HTTP/1.1\r\nHost: h\r\n",
        b"GET /a#b HTTP/1.1\r\nHost: h\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: h\r\n",
        b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n",
        b"G(T /a HTTP/1.1\r\nHost: h\r\n",
        b"GET /a HTTP/1.1\r\n" + b"X: 1\r\n" * 200,
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: h\r\n",
    ],
)
def test_requests_that_are_refused(head: bytes) -> None:
    with pytest.raises(WrongMessage):
        parse_request(head)


@pytest.mark.parametrize("hosts", [[], [b"h", b"h"], [b"h", b"g"], [b"h, g"], [b""], [b"h g"]])
def test_a_request_has_one_host(hosts: list[bytes]) -> None:
    head = b"GET /a HTTP/1.1\r\n" + b"".join(b"Host: %b\r\n" % host for host in hosts)
    with pytest.raises(WrongMessage, match="one Host"):
        host_of(parse_request(head))


@pytest.mark.parametrize(
    "headers",
    [
        [(b"Content-Length", b"1"), (b"Content-Length", b"1")],
        [(b"Content-Length", b"1, 1")],
        [(b"Content-Length", b"+1")],
        [(b"Content-Length", b"-1")],
        [(b"Content-Length", b"0x1")],
        [(b"Content-Length", b"9" * 30)],
        [(b"Content-Length", b"1"), (b"Transfer-Encoding", b"chunked")],
        [(b"Transfer-Encoding", b"chunked"), (b"transfer-encoding", b"identity")],
        [(b"Transfer-Encoding", b"gzip, chunked")],
        [(b"Transfer-Encoding", b"xchunked")],
        [(b"Transfer-Encoding", b"chunked;q=1")],
        [(b"Transfer-Encoding", b"")],
    ],
)
def test_two_ends_of_a_body_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(WrongMessage):
        body_size(headers)


def test_where_a_body_ends() -> None:
    assert body_size([(b"Transfer-Encoding", b"Chunked")]) is None
    assert body_size([(b"content-length", b"17")]) == 17 and body_size([]) == -1
    with pytest.raises(WrongMessage):
        body_size([(b"Transfer-Encoding", b"chunked")], modern=False)


def test_chunks() -> None:
    incoming = Incoming(Bytes(b"5\r\nhello\r\n1A\r\n" + b"x" * 26 + b"\r\n0\r\n\r\nGET /next"), 1.0)
    assert b"".join(incoming.chunks()) == b"hello" + b"x" * 26
    assert b"".join(incoming.to_the_end()) == b"GET /next"


def test_chunks_of_an_answer_may_have_extensions_and_trailers() -> None:
    data = b"5;a=b\r\nhello\r\n1 \r\n!\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\nrest"
    incoming = Incoming(Bytes(data), 1.0)
    assert b"".join(incoming.chunks(lenient=True)) == b"hello!" and b"".join(incoming.to_the_end()) == b"rest"


@pytest.mark.parametrize(
    "data",
    [b"5;a=b\r\nhello\r\n0\r\n\r\n", b"5\r\nhello!\r\n0\r\n\r\n", b"-5\r\n", b" 5\r\nhello\r\n", b"5\nhello\n0\n\n",
     b"\r\n", b"0\r\nX-Trailer: 1\r\n\r\n", b"f" * 40 + b"\r\n", b"5\r\nhel"],
)  # fmt: skip
def test_chunks_that_are_refused(data: bytes) -> None:
    with pytest.raises(WrongMessage):
        b"".join(Incoming(Bytes(data), 1.0).chunks())


def test_a_head_is_bounded_in_size_and_in_time() -> None:
    with pytest.raises(WrongMessage, match="too long"):
        Incoming(Bytes(b"GET / HTTP/1.1\r\nX: " + b"a" * 2 * MOST_HEAD, 4096), 1.0).head(5.0)
    with pytest.raises(TimeoutError):
        Incoming(Bytes(b"GET / HTTP/1.1\r\n", 1), 60.0).head(0.0)
    assert Incoming(Bytes(b""), 1.0).head(5.0) == b""


def test_only_headers_of_the_message_are_passed_on() -> None:
    given = [(b"Connection", b"x-one, keep-alive"), (b"X-One", b"1"), (b"Content_Length", b"5"), (b"Upgrade", b"h2c"),
             (b"Proxy-Authorization", b"a"), (b"TE", b"trailers"), (b"X-Two", b"2"), (b"Content-Length", b"5")]
    assert passed_on(given) == [(b"X-Two", b"2")]


@pytest.mark.parametrize(
    "head", [b"HTTP/3 200 OK\r\n", b"HTTP/1.1 20 OK\r\n", b"ICY 200 OK\r\n", b"HTTP/1.1 200 OK\nA: b\r\n"]
)
def test_answers_that_are_refused(head: bytes) -> None:
    with pytest.raises(WrongMessage):
        parse_response(head)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_secret_in_an_answer_is_noticed_however_it_is_cut(size: int) -> None:
    data = b"before s3cret-s3cret-value after"
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    sent = b""
    with pytest.raises(Leak):
        for piece in _without(iter(pieces), [b"s3cret-value"]):
            sent += piece
    assert b"s3cret-v" not in sent
    harmless = b"ends with s3cret"
    assert b"".join(_without(iter([harmless]), [b"s3cret-value"])) == harmless

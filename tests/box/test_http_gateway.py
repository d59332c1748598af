"""The HTTP gateway of a box: requests by method and path, credentials that the guest never sees, and what a hostile
guest, a hostile host and another user of the machine make of it.

"The outside" is this test's own server, on an address of the host's loopback that the rules name.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import shlex
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from husk import Sandbox as python_sandbox
from husk import UsageError
from husk import run as python_run
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PATIENCE, PIPE, finish, husk, husk_process, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
    pytest.mark.needs("python3"),
]
SECRET = "s3cret-of-the-user-0123456789"
HOST = "127.0.0.9"
NAMES = {"good.test": [HOST]}

# A guest that sends bytes as they are, and prints the status of each answer, and what of the body matters.
CLIENT = """
import re, socket, sys
def ask(raw, wait=10):
    s = socket.create_connection(("127.0.0.9", int(sys.argv[1])), wait)
    s.sendall(raw.replace("\\n", "\\r\\n").replace("LF", "\\n").encode("latin-1"))
    s.shutdown(socket.SHUT_WR)
    data = b""
    while piece := s.recv(65536):
        data += piece
    return data.decode("latin-1")
def status(raw):
    return " ".join(re.findall("HTTP/1.1 ([0-9]+)", ask(raw)))
H = "Host: 127.0.0.9:" + sys.argv[1] + "\\n"
"""


class Seen:
    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []

    @property
    def lines(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.requests]


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: Seen

    def do_GET(self) -> None:
        size = self.headers.get("Content-Length")
        body = self.rfile.read(int(size)) if size else b""
        while self.headers.get("Transfer-Encoding") == "chunked" and (count := int(self.rfile.readline(), 16)) >= 0:
            body += self.rfile.read(count)
            self.rfile.readline()
            if not count:
                break
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen.requests.append((self.command, self.path, headers, body))
        answer = b"hello"
        reason = headers.get("authorization") if self.path == "/a/reason" else None
        self.send_response(302 if self.path == "/a/redirect" else 200, reason)
        if self.path == "/a/redirect":
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        if self.path == "/a/mirror":
            answer = json.dumps(headers).encode()
        if self.path == "/a/slow":
            time.sleep(0.5)
            answer = b"x" * (1 << 22)
        if self.path == "/a/half":
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            self.close_connection = True
            return
        if self.path == "/a/header":
            self.send_header("X-Seen", headers.get("authorization", ""))
        if self.path == "/a/stream":
            self.send_header("Transfer-Encoding", "chunked")
            answer = b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
        else:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_DELETE = do_TRACE = do_GET

    def log_message(self, *_: object) -> None: ...


@contextlib.contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[tuple[int, Seen]]:
    seen = Seen()
    server = http.server.ThreadingHTTPServer((HOST, 0), type("Handler", (Upstream,), {"seen": seen}))
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def outside() -> Iterator[tuple[int, Seen]]:
    with serving() as served:
        yield served


ENV = {"HUSK_TEST_TOKEN": SECRET}


def box(options: list[str], script: str, port: int, env: dict[str, str] | None = None) -> dict[str, Any]:
    command = ["run", "--json", *options, "--", "python3", "-c", CLIENT + script, str(port)]
    told = husk(command, env=ENV | (env or {}))
    assert told.out, told.err
    assert SECRET not in told.out + told.err
    result: dict[str, Any] = json.loads(told.out)
    assert not result["faults"], result["faults"][0]
    return result


def rules(port: int, *texts: str, scheme: str = "http") -> list[str]:
    url = f"{scheme}://{HOST}:{port}"
    made = [word for text in texts for word in ("--allow-http", text.replace("URL", url))]
    return [*made, "--inject", f"{url} Authorization: Bearer {{HUSK_TEST_TOKEN}}"]


def test_requests_by_method_and_path_with_a_credential(outside: tuple[int, Seen]) -> None:
    port, seen = outside
    script = """
print(status("GET /a/x?q=1 HTTP/1.1\\n" + H + "Authorization: Bearer of-the-guest\\n\\n"))
print(status("POST /a/x HTTP/1.1\\n" + H + "Content-Length: 2\\n\\nhi"), status("DELETE /a/x HTTP/1.1\\n" + H + "\\n"))
print(status("GET /b HTTP/1.1\\n" + H + "\\n"), status("TRACE /a/x HTTP/1.1\\n" + H + "\\n"))
print(status("POST /a/c HTTP/1.1\\n" + H + "Transfer-Encoding: chunked\\n\\n2\\nhi\\n0\\n\\n"))
# Two on one connection, and one that husk refuses: the connection ends with it.
print(status("GET /a/1 HTTP/1.1\\n" + H + "\\nGET /a/2 HTTP/1.1\\n" + H + "\\n"))
print(status("GET /b HTTP/1.1\\n" + H + "\\nGET /a/3 HTTP/1.1\\n" + H + "\\n"))
print(ask("GET /a/stream HTTP/1.0\\n" + H + "\\n").split("\\r\\n\\r\\n")[1])
print([line for line in ask("GET /a/redirect HTTP/1.1\\n" + H + "\\n").split("\\r\\n") if line.startswith("Location")])
"""
    result = box(rules(port, "GET,POST URL/a/**"), script, port)
    expected = [
        "200", "200 403", "403 403", "200", "200 200", "403", "abcdef", "['Location: http://127.0.0.1:1/elsewhere']"
    ]  # fmt: skip
    assert result["stdout"].splitlines() == expected, result["stderr"]
    assert seen.lines == [
        "GET /a/x?q=1", "POST /a/x", "POST /a/c", "GET /a/1", "GET /a/2", "GET /a/stream", "GET /a/redirect"
    ]  # fmt: skip
    assert all(headers["authorization"] == f"Bearer {SECRET}" for _, _, headers, _ in seen.requests)
    assert [body for *_, body in seen.requests][1:3] == [b"hi", b"hi"]
    refused = [(item["what"], item["allow"]) for item in result["refusals"]]
    assert (f"GET http://{HOST}:{port}/b", f"--allow-http 'GET http://{HOST}:{port}/b'") in refused


def test_a_hostile_guest(outside: tuple[int, Seen]) -> None:
    """Smuggling, other hosts, paths that lead elsewhere, headers that override, and far too much of everything."""
    port, seen = outside
    script = """
for raw in (
    "GET /a/x HTTP/1.1\\nHost: other.test\\n\\n",
    "GET /a/x HTTP/1.1\\n" + H + H + "\\n",
    "GET /a/x HTTP/1.1\\n\\n",
    "GET http://other.test/a/x HTTP/1.1\\n" + H + "\\n",
    "GET /a/../b HTTP/1.1\\n" + H + "\\n",
    "GET /a/%2e%2e/b HTTP/1.1\\n" + H + "\\n",
    "GET /a//b HTTP/1.1\\n" + H + "\\n",
    "GET /a/x HTTP/1.1\\n" + H + "X: 1LFAuthorization: none\\n\\n",
    "POST /a/x HTTP/1.1\\n" + H + "Content-Length: 4\\nTransfer-Encoding: chunked\\n\\n0\\n\\nGET /b HTTP/1.1\\n\\n",
    "POST /a/x HTTP/1.1\\n" + H + "Content-Length: 0\\nContent-Length: 40\\n\\nGET /b HTTP/1.1\\n" + H + "\\n",
    "POST /a/x HTTP/1.1\\n" + H + "Transfer-Encoding : chunked\\n\\n0\\n\\n",
    "GET /a/x HTTP/1.1\\n" + H + "X: " + "a" * 70000 + "\\n\\n",
    "GET /a/x HTTP/1.1\\n" + H + "X: 1\\n" * 300 + "\\n",
    "GET /a/x HTTP/1.1\\nHost: 127.0.0.9\\n\\n",
):
    print(status(raw), end=" ")
print()
# Let through, without what would mean something else to the server.
print(status("POST /a/x HTTP/1.1\\n" + H + "Connection: authorization, close\\nX-HTTP-Method-Override: DELETE\\n"
             "X-Original-URL: /b\\nContent_Length: 3\\nUpgrade: h2c\\nContent-Length: 0\\n\\n"))
"""
    result = box(rules(port, "GET,POST URL/a/**"), script, port)
    answers = "421 400 400 400 403 403 403 400 400 400 400 431 431 421"
    assert result["stdout"].replace(" \n", "\n").splitlines() == [answers, "200"], result["stderr"]
    ((method, path, headers, body),) = seen.requests
    assert (method, path, body) == ("POST", "/a/x", b"")
    assert headers["authorization"] == f"Bearer {SECRET}" and headers["connection"] == "close"
    assert not {"x-http-method-override", "x-original-url", "content_length", "upgrade"} & headers.keys()


def test_a_host_that_sends_the_secret_back(outside: tuple[int, Seen]) -> None:
    port, seen = outside
    script = """
for path in ("mirror", "header", "reason"):
    answer = ask("GET /a/" + path + " HTTP/1.1\\n" + H + "\\n")
    print("s3cret" in answer, "HTTP/1.1 200" in answer)
"""
    result = box(rules(port, "GET URL/a/**"), script, port)
    # The text was under way when the secret came; of the others nothing was sent yet.
    assert result["stdout"].splitlines() == ["False True", "False False", "False False"], result["stderr"]
    assert seen.lines == ["GET /a/mirror", "GET /a/header", "GET /a/reason"]
    assert {item["reason"] for item in result["refusals"]} == {"it holds the secret that husk sent there"}


def test_a_guest_that_breaks_off_and_a_host_that_does(outside: tuple[int, Seen], tmp_path: Path) -> None:
    """A request that was sent is told, whether or not its sender waits. Half an answer stays half an answer."""
    port, seen = outside
    script = """
import time
s = socket.create_connection(("127.0.0.9", int(sys.argv[1])))
s.sendall(("GET /a/slow HTTP/1.1\\n" + H + "\\n").replace("\\n", "\\r\\n").encode())
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0" + bytes(4))
time.sleep(0.3)
s.close()
half = ask("GET /a/half HTTP/1.1\\n" + H + "\\n")
print(half.count("HTTP/1.1"), half.endswith("\\r\\n\\r\\nhalf"))
print(status("POST /a/x HTTP/1.1\\n" + H + "Transfer-Encoding: chunked\\n\\n2;x\\nhi\\n0\\n\\n"))
time.sleep(0.5)
"""
    events = tmp_path / "events"
    result = box([*rules(port, "GET,POST URL/a/**"), "--events", str(events)], script, port)
    assert result["stdout"].splitlines() == ["1 True", "400"], result["stderr"]
    told = [event for event in map(json.loads, events.read_text().splitlines()) if event["event"] == "http"]
    found = {event["url"].rpartition("/")[2]: event["status"] for event in told}
    assert found == {"slow": 0, "half": 200, "x": 400}
    assert seen.lines[:2] == ["GET /a/slow", "GET /a/half"]


def test_the_secret_is_nowhere_in_the_box_nor_in_the_events(outside: tuple[int, Seen], tmp_path: Path) -> None:
    port, _ = outside
    script = f"""
import glob, os
found = []
for name in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/maps"):
    try:
        found += [name] if b"{SECRET[:6]}" + b"{SECRET[6:]}" in open(name, "rb").read() else []
    except OSError:
        pass
print(found, [key for key in os.environ if "TOKEN" in key], status("GET /a HTTP/1.1\\n" + H + "\\n"))
"""
    events = tmp_path / "events"
    result = box([*rules(port, "GET URL/a"), "--events", str(events)], script, port)
    assert result["stdout"] == "[] [] 200\n", result["stderr"]
    told = [json.loads(line) for line in events.read_text().splitlines()]
    assert SECRET not in events.read_text()
    (request,) = [event for event in told if event["event"] == "http"]
    assert (request["method"], request["url"], request["status"]) == ("GET", f"http://{HOST}:{port}/a", 200)


def test_from_python(outside: tuple[int, Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    port, seen = outside
    monkeypatch.setenv("HUSK_TEST_TOKEN", SECRET)
    url, namespaces = f"http://{HOST}:{port}", setting() == "walled"
    ask = f"import urllib.request as u\nfor x in 'ab': print(u.urlopen('{url}/' + x).read())"
    with python_sandbox(
        allow_http=[f"GET {url}/a"],
        inject=[f"{url} X-Key: {{HUSK_TEST_TOKEN}}"],
        namespaces=namespaces,
    ) as made:
        result = made.run(["python3", "-c", ask], capture_output=True, text=True)
    assert result.stdout == "b'hello'\n" and "HTTP Error 403" in result.stderr
    assert seen.lines == ["GET /a"] and seen.requests[0][2]["x-key"] == SECRET
    assert result.denials[0].allow == f"allow_http=['GET {url}/b']"
    with pytest.raises(UsageError, match=r"^allow_http: 'https://a\.example': write METHODS URL"):
        python_run(["true"], allow_http=["https://a.example"], namespaces=namespaces)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A self-made authority's certificate, and a server's context with a certificate of it for HOST."""
    place = tmp_path_factory.mktemp("tls")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    make += ["-addext", f"subjectAltName=IP:{HOST}", "-keyout", str(place / "key"), "-out", str(place / "cert")]
    subprocess.run(make, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "cert", place / "key")
    return place / "cert", context


def test_tls_to_a_host_whose_certificate_is_checked(authority: tuple[Path, ssl.SSLContext]) -> None:
    certificate, context = authority
    with serving(context) as (port, seen):
        script = 'print(ask("GET /a HTTP/1.1\\n" + H + "\\n").split("\\r\\n\\r\\n")[1])'
        stranger = box(rules(port, "GET URL/a", scheme="https"), script, port)
        assert stranger["stdout"].startswith(f"husk: no TLS with {HOST}:{port}: "), stranger["stdout"]
        assert seen.requests == []
        trusted = box(rules(port, "GET URL/a", scheme="https"), script, port, {"SSL_CERT_FILE": str(certificate)})
        assert trusted["stdout"] == "hello\n", trusted
        assert seen.requests[0][2]["authorization"] == f"Bearer {SECRET}"


def test_a_name_leads_to_husk_and_nowhere_private(
    outside: tuple[int, Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, seen = outside
    script = Path(__file__).parent / "with_names.py"
    monkeypatch.setenv("HUSK_CMD", shlex.join([sys.executable, str(script), json.dumps(NAMES)]))
    guest = f"""
import urllib.request, urllib.error
for url in ("http://good.test:{port}/a", "http://other.test/a"):
    try:
        print(urllib.request.urlopen(url).read())
    except urllib.error.HTTPError as error:
        print(error.code, error.read())
    except OSError as error:
        print("no such name" if "Name" in str(error) else error)
try:
    socket.create_connection(("good.test", 443))
except OSError as error:
    print(error.strerror)
"""
    url = f"http://good.test:{port}/a"
    without = box(["--allow-http", f"GET {url}"], guest, port)
    assert without["stdout"].splitlines()[0].startswith(f'403 b"husk: it leads to {HOST}, which is'), without
    allowed = box(["--allow-http", f"GET {url} via {HOST}"], guest, port)
    assert allowed["stdout"].splitlines() == ["b'hello'", "no such name", "Connection refused"], allowed
    assert any("write http:// in place of https://" in item["reason"] for item in allowed["refusals"])
    assert seen.lines == ["GET /a"] and seen.requests[0][2]["host"] == f"good.test:{port}"


def test_other_processes_of_the_machine_cannot_use_the_credentials(outside: tuple[int, Seen]) -> None:
    port, seen = outside
    before = set(_listening())
    guest = CLIENT + 'print("ready", flush=True); input(); print(status("GET /a HTTP/1.1\\n" + H + "\\n"))'
    command = ["run", *rules(port, "GET URL/a"), "--", "python3", "-c", guest, str(port)]
    with husk_process(command, env=ENV, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
        process = running.process
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        tried = [place for place in _listening() if place not in before and place[0] != HOST]
        for place in tried:  # the box's, and perhaps others that began meanwhile
            _ask_as_a_stranger(*place, f"{HOST}:{port}")
        result = finish(process, "the box", b"\n", PATIENCE)
    assert result.out.endswith("200\n"), result
    assert tried and seen.lines == ["GET /a"]


def _ask_as_a_stranger(address: str, number: int, host: str) -> None:
    """From an address of the box's own block, which any process of the machine can take."""
    with socket.socket() as stranger, contextlib.suppress(OSError):
        stranger.settimeout(2)
        stranger.bind((address.rpartition(".")[0] + ".77", 0))
        stranger.connect((address, number))
        stranger.sendall(f"GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        stranger.recv(100)


def _listening() -> list[tuple[str, int]]:
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A":
            address, _, port = words[1].partition(":")
            text = ".".join(str(byte) for byte in reversed(bytes.fromhex(address)))
            if text.startswith("127."):
                found.append((text, int(port, 16)))
    return found

"""A registry for the tests: it speaks the distribution protocol, with tokens, and misbehaves where a test says so."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests.images.archives import CONFIG, digest

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
USER, SECRET, TOKEN = "me", "secret", "a-token"


class Content:
    """What a registry holds: blobs by digest, manifests by tag and by digest with their media type."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[bytes, str]] = {}

    def blob(self, data: bytes, kind: str = "application/octet-stream") -> dict[str, Any]:
        self.blobs[digest(data)] = data
        return {"digest": digest(data), "size": len(data), "mediaType": kind}

    def put(self, document: dict[str, Any], kind: str, *names: str) -> dict[str, Any]:
        data = json.dumps(document).encode()
        for name in (digest(data), *names):
            self.manifests[name] = data, kind
        return {"digest": digest(data), "size": len(data), "mediaType": kind}

    def image(self, *layers: tuple[bytes, bytes, str], tag: str = "", architecture: str = "amd64") -> dict[str, Any]:
        """Layers as (packed, plain, what their media type adds). Its descriptor, with the platform."""
        config = {"os": "linux", "architecture": architecture, "config": CONFIG,
                  "rootfs": {"type": "layers", "diff_ids": [digest(plain) for _, plain, _ in layers]}}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": self.blob(json.dumps(config).encode()),
                    "layers": [self.blob(packed, LAYER + more) for packed, _, more in layers]}
        found = self.put(manifest, MANIFEST, *([tag] if tag else []))
        return {**found, "platform": {"os": "linux", "architecture": architecture}}

    def index(self, *manifests: dict[str, Any], tag: str) -> None:
        self.put({"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests)}, INDEX, tag)


class Stand:
    """A running stand-in. `twist(handler, kind, name)` may answer in its place, and then returns True."""

    def __init__(self) -> None:
        self.content = Content()
        self.login = ""  # "", "basic" or "bearer"
        self.twist: Callable[[Any, str, str], bool] = lambda *_: False
        self.seen: list[tuple[str, str]] = []  # path and Authorization of each request
        self.address = ""

    def asked(self, part: str) -> list[tuple[str, str]]:
        return [one for one in self.seen if part in one[0]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stand: ClassVar[Stand]

    def log_message(self, *_: object) -> None:
        pass

    def send(self, data: bytes, code: int = 200, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            self.close_connection = True

    def do_GET(self) -> None:
        stand, path = self.stand, urlsplit(self.path)
        said = self.headers.get("Authorization", "")
        stand.seen.append((self.path, said))
        kind, _, name = path.path.rstrip("/").rpartition("/")
        kind = kind.rpartition("/")[2]
        if stand.twist(self, kind, name):
            return
        basic = "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
        if path.path == "/token":
            if said not in ("", basic) or (stand.login and not said):
                self.send(b"", 401)
                return
            scope = parse_qs(path.query)["scope"]
            self.send(json.dumps({"token": TOKEN} if scope == ["repository:a/b:pull"] else {}).encode())
            return
        wanted = {"basic": basic, "bearer": f"Bearer {TOKEN}"}.get(stand.login, said)
        if said != wanted:
            how = 'Basic realm="x"' if stand.login == "basic" else f'Bearer realm="http://{stand.address}/token",service="s"'
            self.send(b"", 401, WWW_Authenticate=how)
        elif kind == "manifests" and name in stand.content.manifests:
            data, media = stand.content.manifests[name]
            self.send(data, Content_Type=media, Docker_Content_Digest=digest(data))
        elif kind == "blobs" and name in stand.content.blobs:
            self.send_range(stand.content.blobs[name])
        else:
            self.send(b"{}", 200 if path.path == "/v2/" else 404)

    def send_range(self, data: bytes) -> None:
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if start:
            self.send(data[start:], 206, Content_Range=f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send(data)


@contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[Stand]:
    stand = Stand()
    handler = type("Handler", (_Handler,), {"stand": stand})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        # The handshake is the connection's own thread's business, and so is its failure.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.daemon_threads = True
    stand.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stand
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def push(content: Content, address: str, repository: str, tag: str) -> None:
    """Put what a stand-in holds into a real registry."""
    base = f"http://{address}/v2/{repository}"

    def send(method: str, url: str, data: bytes, kind: str) -> str:
        request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.headers.get("Location", ""))

    for name, data in content.blobs.items():
        place = send("POST", f"{base}/blobs/uploads/", b"", "application/octet-stream")
        place += f"{'&' if '?' in place else '?'}digest={name}"
        send("PUT", place, data, "application/octet-stream")
    for name, (data, kind) in content.manifests.items():
        if name.startswith("sha256:"):
            send("PUT", f"{base}/manifests/{name}", data, kind)
    data, kind = content.manifests[tag]
    send("PUT", f"{base}/manifests/{tag}", data, kind)

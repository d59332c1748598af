"""Real browsers in a box, started by an ordinary user, with a rule that lets them reach one server of the host. They
load a page and run its script, which tells the server what it made of the page. Chromium's processes know each other by
the credentials of their messages."""

from __future__ import annotations

import http.server
import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.escape.test_as_caller import USER, as_user
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import Result, husk, scratch

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

TIMEOUT = 120.0  # a browser starts a dozen processes; the machine may be busy
PAGE = b"""<!doctype html><title>page</title><h1>loading</h1><script>
function ask(way, where, what) {
    const request = new XMLHttpRequest();
    request.open(way, where, false);
    request.send(what);
    return request.responseText;
}
document.querySelector("h1").textContent = ask("GET", "/data") + " " + 6 * 7;
ask("POST", "/told", document.querySelector("h1").textContent);
</script>"""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told: list[str] = []

    @property
    def page(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/page"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        found = {"/page": (b"text/html", PAGE), "/data": (b"text/plain", b"from the server")}.get(self.path)
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", found[0].decode() if found else "text/plain")
        self.end_headers()
        self.wfile.write(found[1] if found else b"")

    def do_POST(self) -> None:
        self.server.told.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=(0.05,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def browse(server: Server, command: Sequence[str], *options: str) -> Result:
    port = server.page.split(":")[2].split("/")[0]
    words = ["run", "--allow-net", f"127.0.0.1:{port}", *options, "--", *command]
    if os.getuid() != 0:
        return husk(words, timeout=TIMEOUT)
    with scratch() as place:
        state = place / "state"
        state.mkdir()
        os.chown(state, USER, USER)
        return husk(words, wrapper=as_user([], place), env={"HUSK_STATE": str(state)}, timeout=TIMEOUT)


@pytest.mark.needs("chromium")
def test_chromium(server: Server) -> None:
    # Its own sandbox takes user namespaces, which a box does not give. The box is the sandbox.
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--user-data-dir=/tmp/profile"]
    result = browse(server, ["chromium", *words, "--dump-dom", server.page])
    assert "<h1>from the server 42</h1>" in result.out, result.err
    assert server.told == ["from the server 42"]


@pytest.mark.needs("firefox-esr")
def test_firefox(server: Server) -> None:
    result = browse(server, ["firefox-esr", "--headless", "--screenshot", "/tmp/shot.png", server.page])
    assert server.told == ["from the server 42"], result.err


PLAYWRIGHT = """
import sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium")
    page = browser.new_page()
    page.goto(sys.argv[1])
    print(page.inner_text("h1"), page.screenshot()[1:4])
    browser.close()
"""


@pytest.mark.needs("chromium", "python3")
def test_playwright(server: Server) -> None:
    found = importlib.util.find_spec("playwright")
    if found is None or found.origin is None:
        pytest.skip("playwright is not installed beside husk: .venv/bin/pip install playwright")
    if os.path.realpath(sys.executable) != os.path.realpath(shutil.which("python3", path="/usr/bin") or ""):
        pytest.skip("husk's Python is not the guest's, and playwright was built for husk's")
    packages = Path(found.origin).parents[1]
    options = ["--mount", f"{packages}:/packages:ro", "--env", "PYTHONPATH=/packages"]
    result = browse(server, ["/usr/bin/python3", "-c", PLAYWRIGHT, server.page], *options)
    assert result.out == "from the server 42 b'PNG'\n", result.err
    assert server.told == ["from the server 42"]

"""A small platform: people send it functions over HTTP, it runs each in a box of its own and answers with what came of
it. A program of its own, as a customer of husk would write it: tests/journeys/test_python_platform.py is its client.

    POST /run   {"source": "def f(x): …", "name": "f", "args": [1]}
    GET  /health
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import husk


def call(source: str, name: str, args: list[object]) -> object:
    """Runs in the box: the stranger's text is never executed anywhere else."""
    place: dict[str, Any] = {}
    exec(source, place)
    return place[name](*args)


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, namespaces: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.progress = husk.Progress(0, 0, 0, 0)
        self.executor = husk.Executor(
            2, timeout=60, limits={"memory": "128M"}, progress=self.note, namespaces=namespaces
        )

    def note(self, now: husk.Progress) -> None:
        self.progress = now

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        task = self.executor.submit(call, order["source"], order["name"], order["args"])
        try:
            return {"value": task.result(timeout=order.get("seconds"))}
        except husk.TaskFailed as error:
            said = error.result.explain() if error.result is not None else ""
            return {"error": error.kind, "text": error.text, "explain": said, "printed": error.stderr}
        except TimeoutError:
            task.cancel()
            return {"error": "late"}


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(self.server.run(order))

    def do_GET(self) -> None:
        self.answer(vars(self.server.progress))

    def answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    with Service("--no-namespaces" not in sys.argv) as service, service.executor:
        print(service.server_port, flush=True)
        try:
            service.serve_forever()
        except KeyboardInterrupt:
            service.executor.kill_workers()

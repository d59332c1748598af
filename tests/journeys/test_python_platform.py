"""A platform in Python: a web service that runs strangers' functions through husk.Executor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.lib import running
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import scratch, until

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]
FUNCTIONS = """
def words(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts

def divides(a, b):
    print("dividing")
    return a / b

def spins():
    while True:
        pass

def grows():
    import time
    memory = b"x" * (1 << 28)
    time.sleep(60)  # without a control group husk measures now and then

def steals():
    return open("/etc/shadow").read()

def calls_home():
    import socket
    socket.create_connection(("192.0.2.1", 80), 5)

def leaves(name):
    import os
    open(name, "w").write("x")
    return os.listdir()

def forges():
    import os
    os.write(1, b'{"value": "not a result"}')
    os._exit(0)
"""


class Client:
    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def run(self, name: str, *args: object, **more: object) -> dict[str, Any]:
        body = json.dumps({"source": FUNCTIONS, "name": name, "args": args} | more).encode()
        with urllib.request.urlopen(f"{self._address}/run", body, timeout=120) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def health(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self._address}/health", timeout=120) as answer:
            found: dict[str, int] = json.load(answer)
        return found


@pytest.fixture
def service() -> Iterator[Client]:
    with scratch() as place:
        (place / "state").mkdir(mode=0o700)
        script = Path(__file__).with_name("function_service.py")
        env = dict(os.environ) | {"HUSK_STATE": str(place / "state")}
        with subprocess.Popen(
            [sys.executable, str(script), *running.OPTIONS], env=env, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield Client(int(process.stdout.readline()))
            finally:
                process.send_signal(signal.SIGINT)
                try:
                    assert process.wait(60) == 0
                finally:
                    process.kill()
        assert list((place / "state").iterdir()) == []


def test_strangers_functions_behind_a_web_service(service: Client) -> None:
    with ThreadPoolExecutor(6) as people:
        good = people.submit(service.run, "words", "to be or not to be")
        left = [people.submit(service.run, "leaves", name) for name in ("a", "b")]
        wrong = people.submit(service.run, "divides", 1, 0)
        stolen = people.submit(service.run, "steals")
        home = people.submit(service.run, "calls_home")
        large = people.submit(service.run, "grows")
        forged = people.submit(service.run, "forges")
        missing = people.submit(service.run, "no_such_function")
    assert good.result() == {"value": {"to": 2, "be": 2, "or": 1, "not": 1}}
    assert [one.result() for one in left] == [{"value": ["a"]}, {"value": ["b"]}]  # none finds what another one left
    assert wrong.result()["error"] == "ZeroDivisionError" and wrong.result()["printed"].startswith("dividing\n")
    # What was refused is told with what would allow it, for the person who runs the platform.
    assert stolen.result()["error"] == "FileNotFoundError"
    assert "mounts=['/etc/shadow:/etc/shadow:ro']" in stolen.result()["explain"]
    assert "net=['192.0.2.1:80']" in home.result()["explain"]
    assert large.result()["error"] == "ended" and "limits={'memory'" in large.result()["explain"]
    assert forged.result()["error"] == "ended" and "before it had returned" in forged.result()["text"]
    assert missing.result()["error"] == "KeyError"
    assert service.health() == {"submitted": 9, "running": 0, "done": 9, "failed": 6}


def test_a_client_that_gives_up_frees_its_box(service: Client) -> None:
    assert service.run("spins", seconds=0.5) == {"error": "late"}
    assert until(lambda: service.health()["running"] == 0)
    assert service.run("words", "still here") == {"value": {"still": 1, "here": 1}}

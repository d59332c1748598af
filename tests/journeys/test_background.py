"""A web developer: a server in the background, looked at, worked in, and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import husk
from tests.lib import running
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk_command, scratch, until

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]
SERVER = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"


class Shell:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.env = {"PATH": os.environ["PATH"], "HOME": str(place), "HUSK_STATE": str(place / "state")}
        (place / "state").mkdir(mode=0o700)

    def husk(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        if words[0] == "run":
            words = ("run", *running.OPTIONS, *words[1:])
        done = subprocess.run(
            [*husk_command(), *words], cwd=self.place, env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == code, (words, done)
        return done

    def boxes(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self.husk("ps", "--json").stdout)
        return found


@pytest.fixture
def shell() -> Iterator[Shell]:
    with scratch() as place:
        made = Shell(place)
        try:
            yield made
        finally:
            for box in made.boxes():
                os.kill(int(str(box["pid"])), signal.SIGKILL)


def test_a_server_in_the_background(shell: Shell) -> None:
    started = shell.husk("run", "-d", "--keep", "web", "--publish", "0:8000", "--", "python3", "-u", "-c", SERVER)
    assert started.stdout == "web\n"
    host = started.stderr.split()[1]
    assert until(lambda: shell.boxes()[0]["ports"] == [{"host": host, "guest": 8000, "answers": True}])
    assert shell.husk("exec", "web", "--", "sh", "-c", "echo made > page; exit 3", code=3).stdout == ""
    with urllib.request.urlopen(f"http://{host}/page", timeout=60) as page:
        assert page.read() == b"made\n"
    assert until(lambda: '"GET /page' in shell.husk("logs", "web").stdout)
    assert shell.husk("logs", "-n", "1", "web").stdout.count("\n") == 1
    assert "runs already" in shell.husk("run", "-d", "--keep", "web", "--", "true", code=2).stderr
    assert shell.husk("stop", "web").stdout == "web\n"
    assert shell.boxes() == []
    assert '"GET /page' in shell.husk("logs", "web").stdout  # also when it has ended
    assert shell.husk("run", "--keep", "web", "--", "cat", "page").stdout == "made\n"
    assert "does not run in the background" in shell.husk("exec", "web", "--", "true", code=2).stderr


def test_the_same_box_from_python(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STATE", str(shell.place / "state"))
    with pytest.raises(husk.UsageError, match="there is no box 'web'"):
        husk.DetachedBox("web")
    shell.husk("run", "-d", "--keep", "web", "--publish", "0:8000", "--", "python3", "-u", "-c", SERVER)
    box = husk.DetachedBox("web")
    (port,) = box.ports
    assert until(port.answers) and box.poll() is None and repr(box) == "<husk.DetachedBox 'web', running>"
    with pytest.raises(subprocess.TimeoutExpired):
        box.wait(0.01)
    with urllib.request.urlopen(f"http://{port.host}/", timeout=60) as page:
        assert page.status == 200
    assert until(lambda: '"GET /' in box.logs().text)
    assert box.stop() == 128 + signal.SIGTERM == box.poll() == box.wait() == box.stop()
    assert (box.running, box.ports) == (False, []) and '"GET /' in box.logs().text


def test_attach_tells_how_it_ends(shell: Shell) -> None:
    (shell.place / "given").mkdir()
    script = "while [ ! -e /given/go ]; do echo waits; sleep 0.1; done; echo said; exit 5"
    name = shell.husk("run", "-d", "--mount", "given:/given:ro", "--", "sh", "-c", script).stdout.strip()
    with subprocess.Popen(
        [*husk_command(), "attach", name], env=shell.env, stdout=subprocess.PIPE, text=True
    ) as attached:
        assert attached.stdout is not None and attached.stdout.readline() == "waits\n"  # it is attached by now
        (shell.place / "given/go").touch()  # husk exec would do it, too, but the box could end before its command
        assert attached.stdout.read().replace("waits\n", "") == "said\n"
    assert attached.returncode == 5


def test_a_program_that_does_not_heed_sigterm(shell: Shell) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    shell.husk("run", "-d", "--keep", "deaf", "--", "sh", "-c", script)
    assert until(lambda: shell.husk("logs", "deaf").stdout == "ready\n")
    stopped = json.loads(shell.husk("stop", "--time", "1", "--json", "deaf").stdout)
    assert stopped == {"name": "deaf", "exit_code": 137}


def test_what_cannot_start_is_told_where_it_was_started(shell: Shell) -> None:
    assert "not found in the box" in shell.husk("run", "-d", "--", "no-such-program", code=127).stderr
    assert shell.boxes() == []


def test_exec_ends_with_its_command_and_with_the_box(shell: Shell) -> None:
    shell.husk("run", "-d", "--keep", "box", "--", "sleep", "1000")
    words = [*husk_command(), "exec", "box", "--", "flock", "lock", "sh", "-c", "echo up; sleep 1000"]
    with subprocess.Popen(words, env=shell.env, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None and one.stdout.readline() == "up\n"
        one.kill()
    free = [*husk_command(), "exec", "box", "--", "flock", "-n", "lock", "true"]
    assert until(lambda: subprocess.run(free, env=shell.env, check=False).returncode == 0)
    with subprocess.Popen(words, env=shell.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "up\n"
        begin = time.monotonic()
        shell.husk("stop", "box")
        other.communicate(timeout=60)
    assert other.returncode != 0 and time.monotonic() - begin < 60


def test_a_killed_husk_leaves_nothing_that_runs(shell: Shell) -> None:
    shell.husk("run", "-d", "--keep", "box", "--", "sleep", "1000")
    os.kill(int(str(shell.boxes()[0]["pid"])), signal.SIGKILL)
    assert until(lambda: shell.boxes() == [])
    # The next run is as if it had not been.
    shell.husk("run", "-d", "--keep", "box", "--", "sh", "-c", "echo again")
    assert until(lambda: shell.boxes() == [])
    assert shell.husk("logs", "box").stdout == "again\n"

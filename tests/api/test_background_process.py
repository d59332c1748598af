"""Sandbox.start: a program that runs on, its output so far, the ports that lead to it, and its end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import urllib.request

import pytest

import husk
from tests.lib.running import until

SERVER = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"


def test_a_server_with_a_port_that_the_host_chose() -> None:
    with husk.Sandbox(publish=["0:8000"]) as box:
        box.write("page", "made\n")
        (port,) = box.ports
        assert (port.guest, port.address[0], port.answers()) == (8000, "127.0.0.1", False)
        with box.start(["python3", "-u", "-c", SERVER]) as server:
            server.wait_ready(60)
            assert server.poll() is None and server.ports == [port] and "running" in repr(server)
            with urllib.request.urlopen(f"http://{port.host}/page", timeout=60) as page:
                assert page.read() == b"made\n"
            assert until(lambda: "GET /page" in server.logs().text)
        assert server.returncode == -signal.SIGTERM
        assert not port.answers()


def test_output_so_far_and_from_where_one_was(box: husk.Sandbox) -> None:
    script = "echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; exit 4"
    process = box.start(script, shell=True)
    assert until(lambda: process.logs().data == b"one\n")
    first = process.logs()
    assert (first.next, first.lost, process.poll()) == (4, 0, None)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    box.write("go", "")
    assert process.wait() == 4 == process.poll() == process.returncode
    assert process.logs(first.next) == husk.Logs(b"two\n", 8)
    assert process.result().stdout == b"one\ntwo\n" and process.stop().returncode == 4


def test_talking_to_it(box: husk.Sandbox) -> None:
    with box.start(["cat"], stdin=husk.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"line\n")
        process.stdin.flush()
        assert until(lambda: process.logs().data == b"line\n")
    assert process.stdin.closed and box.start(["true"]).stdin is None


def test_only_the_end_of_much_output_is_kept(box: husk.Sandbox) -> None:
    process = box.start("yes 0123456789abcde | head -c 1600000; echo end", shell=True, kept=100)
    result = process.result()
    logs = process.logs()
    assert len(logs.data) == 100 and logs.data.endswith(b"\nend\n")
    assert logs.next == 1_600_004 and logs.lost == 1_600_004 - 100 == result.lost["stdout"]
    assert process.logs(10**9) == husk.Logs(b"", 10**9)


def test_a_program_that_ignores_sigterm_is_ended(box: husk.Sandbox) -> None:
    process = box.start("trap '' TERM; echo set; while :; do sleep 0.01; done", shell=True)
    assert until(lambda: process.logs().data == b"set\n")
    assert process.stop(timeout=0.1).returncode == -signal.SIGKILL


def test_a_server_that_ends_at_once_is_told(box: husk.Sandbox) -> None:
    with husk.Sandbox(publish=["0:8000"]) as other:
        process = other.start("echo no; exit 3", shell=True)
        with pytest.raises(husk.HuskError, match="exit code 3"):
            process.wait_ready()
        sleeper = other.start(["sleep", "1000"])
        with pytest.raises(subprocess.TimeoutExpired):
            sleeper.wait_ready(0.1)
    assert sleeper.returncode == -signal.SIGKILL  # with its box


def test_the_same_for_an_event_loop() -> None:
    async def main() -> None:
        async with husk.AsyncSandbox(publish=["0:8000"]) as box:
            async with await box.start(["python3", "-u", "-c", SERVER]) as server:
                await server.wait_ready(60)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(server.wait(), 0.01)
                assert server.poll() is None and server.ports == box.ports
            assert server.returncode == -signal.SIGTERM and server.logs(10**9).data == b""
            async with await box.popen(["sleep", "1000"]) as process:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(process.wait(), 0.01)
                process.kill()

    asyncio.run(main())

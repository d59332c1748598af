"""Programs that run on between the calls of a client: `start`, `poll` and `stop` of `husk mcp`."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed (pip install 'huskbox[mcp]')")

from husk.mcp.config import Config
from tests.lib.running import leftovers
from tests.mcp.clients import Client, Refused, run

SERVER = ["python3", "-u", "-m", "http.server", "8000"]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))


def fetched(host: str, page: str) -> str:
    with urllib.request.urlopen(f"http://{host}/{page}", timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_server(namespaces: bool) -> None:
    config = Config()
    config.box.namespaces = namespaces
    config.network.publish = ["0"]

    async def test(client: Client) -> None:
        await client.call("write_file", path="page.txt", content="hello\n")
        # The box is open already, without ports: it is opened again with its files.
        started = await client.call("start", argv=SERVER, publish=["0:8000"], wait=60)
        assert started["running"] and started["exit_code"] is None, started
        (port,) = started["ports"]
        assert port["guest"] == 8000 and port["answers"] and not port["host"].endswith(":0")
        assert await asyncio.to_thread(fetched, port["host"], "page.txt") == "hello\n"
        told = await client.call("poll", program=started["program"], wait=60, since=started["next"])
        assert "GET /page.txt" in told["output"] and told["since"] == started["next"]
        # Another program of the box reaches it, too, and another port would need the box anew.
        look = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/page.txt').read())"
        assert (await client.call("run_code", code=look))["stdout"] == "b'hello\\n'\n"
        with pytest.raises(Refused, match="something runs in the box 'main'"):
            await client.call("start", argv=SERVER, publish=["0:9000"])
        assert [one["running"] for one in (await client.call("boxes"))["programs"]] == [True]
        ended = await client.call("stop", program=started["program"])
        assert (ended["running"], ended["exit_code"], ended["ports"]) == (False, -15, [])
        assert "SIGTERM" in ended["explain"] and "GET /page.txt" in await client.read(ended["resource"] + "/stdout")
        assert (await client.call("poll", program=started["program"]))["resource"] == ended["resource"]
        assert [one["path"] for one in (await client.call("changes"))["changes"]] == ["/workspace/page.txt"]

    run(config, test)


def test_output_so_far_is_bounded() -> None:
    config = Config()
    config.session.shown = 100

    async def test(client: Client) -> None:
        started = await client.call("start", argv="seq 100000; cat; echo x > made; cat /etc/shadow; exit 3")
        ended = await client.call("poll", program=started["program"], wait=60, until="end")
        assert (ended["running"], ended["exit_code"]) == (False, 3)
        assert len(ended["output"]) == 100 and ended["output"].endswith("No such file or directory\n")
        assert ended["denials"][0]["what"] == "/etc/shadow"
        assert ended["changes"] == [{"change": "added", "path": "/workspace/made"}]
        first = await client.call("poll", program=started["program"], since=0)
        assert (first["output"][:6], first["since"], first["next"], first["lost"]) == ("1\n2\n3\n", 0, 100, 0)
        assert (await client.call("poll", program=started["program"], since=first["next"]))["since"] == 100

    run(config, test)


def test_what_a_client_may_start() -> None:
    config = Config()
    config.session.programs = 1
    config.session.program_time = 2
    mark = os.urandom(8).hex()

    async def test(client: Client) -> None:
        with pytest.raises(Refused, match=r"publish: 0:8000: this server lets no client publish ports\."):
            await client.call("start", argv=SERVER, publish=["8000"])
        config.network.publish = ["0", "8000-8010"]
        with pytest.raises(Refused, match=r"publish: 7999:80: this server gives the ports 0, 8000-8010 of the host"):
            await client.call("start", argv=SERVER, publish=["7999:80"])
        with pytest.raises(Refused, match="not this machine's loopback"):
            await client.call("start", argv=SERVER, publish=["0.0.0.0:8000:8000"])
        with pytest.raises(Refused, match="write HOST:GUEST"):
            await client.call("start", argv=SERVER, publish=["x"])
        with pytest.raises(Refused, match="not found"):
            await client.call("start", argv=["nonesuch"])
        with pytest.raises(Refused, match=r"there is no program '1'; none was started\."):
            await client.call("poll", program="1")
        late = await client.call("start", argv=["sleep", "1000"], timeout=1000)
        with pytest.raises(Refused, match="may have 1 programs running; stop one of 1"):
            await client.call("start", argv=["true"])
        late = await client.call("poll", program=late["program"], wait=60, until="end")
        assert (late["running"], late["exit_code"]) == (False, 124)
        config.session.program_time = 1000
        await client.call("start", argv=f"MARK={mark} exec sleep 1000")
        # Closing its box ends it; the answer is still there.
        await client.call("close_box", name="main")
        assert not (await client.call("poll", program="2"))["running"]
        await client.call("start", argv=f"MARK={mark} exec sleep 1000")

    run(config, test)
    assert leftovers(mark, 60) == {}  # the session has ended

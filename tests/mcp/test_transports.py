"""`husk mcp` as it is started by an agent: on standard input and output, and over HTTP on the loopback."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed (pip install 'huskbox[mcp]')")

import httpx

from tests.mcp.clients import TOKEN, Refused, http, http_server, stdio


def left(state: Path) -> list[str]:
    """State directories of boxes; a server that was told to end has a moment for it."""
    for _ in range(600):
        found = [path.name for path in state.iterdir() if path.name.startswith("box-")]
        if not found:
            break
        time.sleep(0.1)
    return found


def test_stdio(tmp_path: Path) -> None:
    config = tmp_path / "mcp.toml"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("from the host\n")
    config.write_text('version = 1\n[box]\nmounts = ["data:/data"]\n')
    state = tmp_path / "state"
    state.mkdir()

    async def test() -> None:
        async with stdio(state, "--config", str(config)) as client:
            answer = await client.call("run", argv=["cat", "/data/file"])
            assert answer["stdout"] == "from the host\n"
            refused = await client.call("run", argv=["sh", "-c", "echo x > /data/file"])
            assert "read-only" in refused["explain"]
            assert await client.read(answer["resource"] + "/stdout") == "from the host\n"
            running = asyncio.create_task(client.call("run", argv=["sleep", "1000"]))
            while len(client.progress) < 3:
                await asyncio.sleep(0.05)
            running.cancel()

    asyncio.run(test())
    assert left(state) == []


def test_http_sessions_are_apart(tmp_path: Path) -> None:
    async def test() -> None:
        async with http_server(tmp_path) as address:
            async with http(address) as one, http(address) as two:
                answer = await one.call("run", argv=["sh", "-c", "echo mine > file; cat file"])
                assert answer["stdout"] == "mine\n"
                with pytest.raises(Refused, match="No such file"):
                    await two.call("read_file", path="file")
                with pytest.raises(Exception, match="there is no result"):
                    await two.read(answer["resource"])
                waiting = asyncio.create_task(one.call("run", argv="until [ -e go ]; do sleep 0.05; done"))
                while not any("running for" in (message or "") for _, _, message in one.progress):
                    await asyncio.sleep(0.05)
                await one.call("run", argv=["touch", "go"])
                assert (await waiting)["exit_code"] == 0
            assert left(tmp_path) == []  # both said goodbye; the server is still there
            async with http(address) as three:
                assert (await three.call("list_files"))["entries"] == []
        assert left(tmp_path) == []

    asyncio.run(test())


def test_http_wants_the_token_and_its_own_name(tmp_path: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accepts = {"Accept": "application/json, text/event-stream"}

    async def test() -> None:
        async with http_server(tmp_path) as address, httpx.AsyncClient(timeout=60) as web:
            for token in (None, "", "Bearer", "Bearer wrong", TOKEN, f"Basic {TOKEN}"):
                shown = {} if token is None else {"Authorization": token}
                assert (await web.post(address, json=hello, headers=accepts | shown)).status_code == 401, token
            shown = accepts | {"Authorization": f"Bearer {TOKEN}"}
            # A page of another site that has its name lead here (DNS rebinding) shows that name.
            for wrong in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                assert (await web.post(address, json=hello, headers=shown | wrong)).status_code in (403, 421), wrong
            assert (await web.post(address, json=hello, headers=shown)).status_code == 400  # no session yet

    asyncio.run(test())

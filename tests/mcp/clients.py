"""The package's own client, connected to husk's server in three ways. Imported only where the package is installed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import mcp.client.stdio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_connected_server_and_client_session
from pydantic import AnyUrl

from husk.mcp.config import Config
from husk.mcp.server import build_server
from tests.lib.running import husk_command

TOKEN = "a-token-for-tests"
# How long the client waits before it kills a server whose input it has closed: two seconds are little on a busy
# machine, and these tests are not about what a killed server leaves.
mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT = 60.0


class Client:
    """One connected client. `call` gives the answer as data; a refusal is a Refused."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        async def note(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append((progress, total, message))

        answer = await self.session.call_tool(name, arguments, progress_callback=note)
        if answer.isError:
            raise Refused(getattr(answer.content[0], "text", ""))
        assert answer.structuredContent is not None
        # Clients that know nothing of structured content read the same as text.
        assert json.loads(getattr(answer.content[0], "text", "")) == answer.structuredContent
        told: dict[str, Any] = answer.structuredContent
        return told

    async def read(self, address: str) -> str:
        found = await self.session.read_resource(AnyUrl(address))
        return str(getattr(found.contents[0], "text", ""))


class Refused(Exception):
    pass


def run(config: Config | None, test: Callable[[Client], Awaitable[None]]) -> None:
    """A test against a server in this process."""

    async def connected() -> None:
        async with create_connected_server_and_client_session(build_server(config or Config())) as session:
            await test(Client(session))

    asyncio.run(connected())


@asynccontextmanager
async def stdio(state: Path, *arguments: str) -> AsyncIterator[Client]:
    words = [*husk_command(), "mcp", *arguments]
    environment = {**os.environ, "HUSK_STATE": str(state), "XDG_CONFIG_HOME": str(state / "none")}
    server = StdioServerParameters(command=words[0], args=words[1:], env=environment)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield Client(session)


@asynccontextmanager
async def http_server(state: Path, *arguments: str) -> AsyncIterator[str]:
    """Its address. Ends the server as a person would, with SIGTERM."""
    environment = {
        **os.environ,
        "HUSK_STATE": str(state),
        "XDG_CONFIG_HOME": str(state / "none"),
        "HUSK_MCP_TOKEN": TOKEN,
    }
    words = [*husk_command(), "mcp", "--http", "127.0.0.1:0", *arguments]
    server = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE, env=environment)
    assert server.stderr is not None
    try:
        said = (await asyncio.wait_for(server.stderr.readline(), 60)).decode()
        assert said.startswith("husk mcp: http://127.0.0.1:"), said + (await server.stderr.read()).decode()
        yield said.split()[-1]
    finally:
        server.terminate()
        rest = (await server.stderr.read()).decode()
        await asyncio.wait_for(server.wait(), 60)
        assert "Traceback" not in rest, rest


@asynccontextmanager
async def http(address: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as web,
        streamable_http_client(address, http_client=web) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield Client(session)

"""mcp: the server: sessions, resources, and the two ways to reach it.

The package enters a server's lifespan once for every client that connects, on stdio and over HTTP. So the lifespan
makes the client's session, and the session's boxes end when it is left.
"""

from __future__ import annotations

import difflib
import hmac
import json
import socket
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ResourceError, ToolError
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import Resource, ResourceTemplate
from pydantic import AnyUrl, ValidationError

from husk import __version__
from husk.mcp import answers, box_tools, image_tools, program_tools, skill_tools, tools
from husk.mcp.session import Session
from husk.mcp.tool_calls import add_tools, session_of
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping

    from husk.mcp.config import Config

    Message = MutableMapping[str, Any]
    App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

INSTRUCTIONS = """Programs, code and skills run in sandboxed boxes of this session. A box keeps its files between calls,
and nothing in it can reach the host beyond what the server's config allows. When something is refused, the result's
`denials` and `explain` say what and why: believe them, and do not try the same again. Long output is shortened; the
result's `resource` has all of it."""
FOR_SKILLS = """
Skills: `open_skill` gives a skill's instructions and a box to follow them in; `run_skill` runs one of its scripts."""
JSON, TEXT, BYTES = "application/json", "text/plain", "application/octet-stream"
ALLOWED, RESULTS = "husk://allowed", "husk://results/"
PATH = "/mcp"
# What models know from other servers. Spelling is not near enough to find these.
OTHER_NAMES = {
    **dict.fromkeys(("cmd", "command", "args"), "argv"),
    **dict.fromkeys(("file", "file_path", "filename"), "path"),
    **dict.fromkeys(("workdir", "working_directory"), "cwd"),
    **dict.fromkeys(("text", "data"), "content"),
    "stdin": "input",
}


class Server(FastMCP[Session]):
    """Results are resources of the session that made them: only that session lists and reads them. A mistaken call
    gets one sentence."""

    open_world = False  # can a box reach anything beyond this machine?

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        try:
            return await super().call_tool(name, arguments)
        except ToolError as error:
            known = {tool.name: tool for tool in await self.list_tools()}
            if name not in known:
                raise ToolError(f"there is no tool {name!r}; there are {', '.join(known)}.") from None
            if isinstance(error.__cause__, ValidationError):
                takes = list(known[name].inputSchema.get("properties", {}))
                wrong = [_mistake(dict(one), takes) for one in error.__cause__.errors()]
                raise ToolError(f"{name}: {'; '.join(dict.fromkeys(wrong))}. It takes {', '.join(takes)}.") from None
            if isinstance(error.__cause__, ToolError):  # a sentence of ours; the package puts words before it
                raise error.__cause__ from None
            raise

    async def list_resources(self) -> list[Resource]:
        session = session_of(self.get_context())
        found = [Resource(uri=AnyUrl(ALLOWED), name="what this server allows", mimeType=JSON)]
        for number, result in session.results.items():
            about = f"{' '.join(result['argv'])[:60]}: exit code {result['exit_code']}"
            found.append(Resource(uri=AnyUrl(f"{RESULTS}{number}"), name=about, mimeType=JSON))
        return found

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        return [
            ResourceTemplate(uriTemplate=f"{RESULTS}{{number}}", name="a run: all that is known", mimeType=JSON),
            ResourceTemplate(uriTemplate=f"{RESULTS}{{number}}/stdout", name="a run's output", mimeType=TEXT),
            ResourceTemplate(uriTemplate=f"{RESULTS}{{number}}/stderr", name="a run's errors", mimeType=TEXT),
        ]

    async def read_resource(self, uri: AnyUrl | str) -> list[ReadResourceContents]:
        address, ctx = str(uri), self.get_context()
        if address == ALLOWED:
            return [ReadResourceContents(json.dumps(await box_tools.boxes(ctx), indent=2), JSON)]
        number, _, stream = address.removeprefix(RESULTS).partition("/")
        if not address.startswith(RESULTS) or stream not in ("", "stdout", "stderr"):
            raise ResourceError(f"there is no resource {address}")
        try:
            result = session_of(ctx).result(number)
        except UsageError as error:
            raise ResourceError(str(error)) from None
        if stream:
            if answers.is_binary(result[stream]):
                return [ReadResourceContents(result[stream], BYTES)]
            return [ReadResourceContents(answers.shown_output(result[stream], address), TEXT)]
        return [ReadResourceContents(json.dumps(answers.as_document(result, address), indent=2), JSON)]


def _mistake(found: dict[str, Any], takes: list[str]) -> str:
    if found["type"] != "extra_forbidden":
        return f"{_where(found['loc'])}: {found['msg']}"
    wanted = str(found["loc"][-1])
    near = [name for name in (OTHER_NAMES.get(wanted),) if name in takes]
    near += difflib.get_close_matches(wanted, takes, 1, 0.5)
    return f"there is no argument {wanted!r}" + (f" (do you mean {near[0]!r}?)" if near else "")


def _where(place: tuple[int | str, ...]) -> str:
    """The name of a parameter, without the alternatives of its type."""
    return ".".join(str(one) for one in place if not str(one).startswith(("list[", "str", "dict[")))


def instructions(config: Config) -> str:
    """What a model should know before its first call."""
    network = "all of the host's" if config.network.mode == "host" else ", ".join(config.network.allow) or "none"
    network += f", but not {', '.join(config.network.deny)}" if config.network.deny else ""
    mounts = ", ".join(mount.split(":", 1)[1] for mount in config.box.mounts) or "none"
    bounds = ", ".join(f"{name} {value}" for name, value in config.limits.items() if value != "none")
    skills = FOR_SKILLS if config.skills.folders else ""
    return f"{INSTRUCTIONS}{skills}\nNetwork: {network}. Mounts: {mounts}. Limits: {bounds}. No root, no sudo."


def build_server(config: Config) -> Server:
    @asynccontextmanager
    async def lifespan(_: FastMCP[Session]) -> AsyncIterator[Session]:
        session = Session(config)
        try:
            yield session
        finally:
            import anyio

            with anyio.CancelScope(shield=True):  # a client that disconnects during a run must leave nothing behind
                await session.close()

    server = Server(
        "husk",
        instructions=instructions(config),
        lifespan=lifespan,
        log_level="WARNING",
        streamable_http_path=PATH,
        session_idle_timeout=float(config.session.idle),
        max_sessions=config.session.most,
    )
    server._mcp_server.version = __version__  # else clients see the version of the package `mcp`
    server.open_world = config.network.mode == "host" or bool(config.network.allow)
    every = tools.TOOLS | program_tools.TOOLS | box_tools.TOOLS | image_tools.TOOLS | skill_tools.TOOLS
    add_tools(server, config.offered_tools, every)
    return server


async def serve_stdio(config: Config) -> None:
    await build_server(config).run_stdio_async()


async def serve_http(config: Config, host: str, port: int, token: str) -> None:
    """Serve on a loopback address. Every user of the machine can reach it, so each request must carry the token."""
    import logging

    import uvicorn

    # It logs an error with a traceback for every client that disconnects while its event stream is open.
    logging.getLogger("mcp.server.streamable_http").setLevel(logging.CRITICAL)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()  # before the address is printed: a client may connect at once
        port = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        print(f"husk mcp: http://{shown}:{port}{PATH}", file=sys.stderr, flush=True)
        app = require_token(build_server(config).streamable_http_app(), token)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2))
        await server.serve([listening])


def require_token(app: App, token: str) -> App:
    """Refuse requests without `Authorization: Bearer TOKEN`."""
    wanted = f"Bearer {token}".encode()

    async def check(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            shown = dict(scope.get("headers", ())).get(b"authorization", b"")
            if scope["type"] != "http" or not hmac.compare_digest(shown, wanted):
                headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"show the token of this husk mcp\n"})
                return
        await app(scope, receive, send)

    return check

"""cli: `husk mcp`: the MCP server. The work is in husk.mcp; here the config is found and the server started."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from husk.cli.exit_codes import INTERRUPTED, run_command
from husk.cli.options.other_options import MCP, MCP_TOKEN
from husk.cli.output import say, say_as_is, say_json
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def main(argv: list[str]) -> int:
    return run_command(MCP, argv, _serve)


def _serve(options: Values) -> int:
    from husk.mcp.config import SAMPLE, Config, default_path, read_config

    if options.sample:
        if options.json:
            say_json({"sample": SAMPLE}, indent=None)
        else:
            say_as_is(SAMPLE)
        return 0
    path = options.config or default_path()
    there = bool(options.config) or path.exists()
    config = read_config(path) if there else Config()
    if options.check:
        if options.json:
            tools, allowed = sorted(config.offered_tools), asdict(config)
            document = {"config": str(path) if there else None, "tools": tools, "allows": allowed}
            say_json(document)
        else:
            say(f"{path}: well" if there else "no config file: the defaults are used")
        return 0
    if options.json:
        raise UsageError("--json goes with --check or --sample; what is served is JSON already.")
    host, port = _address(options.http) if options.http else ("", 0)
    try:
        import mcp  # noqa: F401 — is it there at all?
    except ModuleNotFoundError:
        raise UsageError("it needs the package `mcp`: pip install 'huskbox[mcp]'") from None
    import asyncio

    from husk.mcp import server

    try:
        if options.http:
            asyncio.run(server.serve_http(config, host, port, _token()))
        else:
            asyncio.run(server.serve_stdio(config))
    except KeyboardInterrupt:
        return INTERRUPTED  # how a person ends a server
    return 0


def _token() -> str:
    token = os.environ.get(MCP_TOKEN, "")
    if not token:
        import secrets

        token = secrets.token_urlsafe(32)
        say(f"husk mcp: token {token}", file=sys.stderr)
    return token


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--http {text}: write PORT or ADDRESS:PORT.")
    if host not in LOOPBACK:
        raise UsageError(
            f"--http {text}: only the loopback (127.0.0.1 or [::1]); for others put a proxy before it that speaks TLS "
            "and knows who may come."
        )
    return "127.0.0.1" if host == "localhost" else host, int(port)

"""cli: `husk mcp`: the MCP server. The work is husk.mcp's; here are the options, and where the config comes from."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from husk.abi.text import harmless_lines
from husk.sandbox.errors import HuskError, UsageError

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TOKEN = "HUSK_MCP_TOKEN"


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    try:
        return _serve(options)
    except HuskError as error:
        if options.json:
            print(json.dumps({"error": str(error)}))
        print(f"husk mcp: {harmless_lines(str(error))}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"husk mcp: the host fails husk: {error.strerror or error}.", file=sys.stderr)
        return HuskError.exit_code
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="husk mcp",
        description="Boxes for agents: a server of the Model Context Protocol, on standard input and output or by HTTP "
        "on this machine's loopback. What clients may do is in a config file (default: ~/.config/husk/mcp.toml, else "
        "no mounts, no network, bounded).",
        epilog=f"With --http each request must carry `Authorization: Bearer TOKEN`. TOKEN is ${TOKEN}; if that is not "
        "set, one is made and printed. docs/agents.md tells more.",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="what clients may do")
    parser.add_argument("--http", metavar="[ADDRESS:]PORT", help="serve HTTP there instead; port 0 takes a free one")
    parser.add_argument("--check", action="store_true", help="read the config, say if it is right, and end")
    parser.add_argument("--sample", action="store_true", help="print a config file to begin with, and end")
    parser.add_argument("--json", action="store_true", help="print what --check or --sample say as one JSON object")
    return parser


def _serve(options: argparse.Namespace) -> int:
    from husk.mcp.config import SAMPLE, Config, default_path, read_config

    if options.sample:
        print(json.dumps({"sample": SAMPLE}) if options.json else SAMPLE.rstrip("\n"))
        return 0
    path = options.config or default_path()
    there = bool(options.config) or path.exists()
    config = read_config(path) if there else Config()
    if options.check:
        if options.json:
            held = {"config": str(path) if there else None, "tools": sorted(config.offered), "allows": asdict(config)}
            print(json.dumps(held, indent=2))
        else:
            print(f"{path}: well" if there else "no config file: the defaults are used")
        return 0
    if options.json:
        raise UsageError("--json goes with --check or --sample; what is served is JSON already.")
    host, port = _address(options.http) if options.http else ("", 0)
    try:
        import mcp  # noqa: F401 — is it there at all?
    except ModuleNotFoundError:
        raise UsageError("it needs the package `mcp`; install it: pip install 'husk[mcp]'.") from None
    import asyncio

    from husk.mcp import server

    if not options.http:
        asyncio.run(server.serve_stdio(config))
        return 0
    token = os.environ.get(TOKEN, "")
    if not token:
        import secrets

        token = secrets.token_urlsafe(32)
        print(f"husk mcp: token {token}", file=sys.stderr, flush=True)
    asyncio.run(server.serve_http(config, host, port, token))
    return 0


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

"""An agent platform: agents work in boxes through `husk mcp`, by the protocol's own client, and a person decides."""

from __future__ import annotations

import asyncio
import os
import subprocess
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed (pip install 'huskbox[mcp]')")

from tests.lib import running
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import BARE, husk_command, leftovers, scratch
from tests.mcp.clients import Client, Refused, stdio

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]
SKILLS = Path(__file__).resolve().parents[2] / "examples" / "skills"
CONFIG = """
version = 1
[box]
mounts = ["project:/work:cow"]
workdir = "/work"
namespaces = {namespaces}
[network]
allow = ["10.0.0.0/8"]
deny = ["10.1.0.0/16"]
publish = ["0"]
[session]
keep_main = "agent"
keep = "agent-"
[skills]
folders = ["{skills}"]
"""
BROKEN = "def total(prices):\n    return sum(prices) - 1\n"
MENDED = "def total(prices):\n    return sum(prices)\n"
TEST = "from shop import total\nassert total([1, 2]) == 3, 'wrong'\nprint('good')\n"


class Platform:
    def __init__(self, place: Path) -> None:
        self.place, self.project = place, place / "project"
        self.project.mkdir()
        (self.project / "shop.py").write_text(BROKEN)
        (self.project / "test_shop.py").write_text(TEST)
        (self.project / ".env").write_text("TOKEN=secret\n")
        (place / "state").mkdir(mode=0o700)
        self.config = place / "mcp.toml"
        bare = "false" if BARE in running.OPTIONS else "true"
        self.config.write_text(CONFIG.format(namespaces=bare, skills=SKILLS))

    def types(self, *words: str) -> str:
        """What the person types."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.place), "HUSK_STATE": str(self.place / "state")}
        done = subprocess.run(
            [*husk_command(), *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout

    def session(self, work: Callable[[Client], Awaitable[None]]) -> None:
        """A session of an agent, from connecting to hanging up."""

        async def connected() -> None:
            async with stdio(self.place / "state", "--config", str(self.config)) as client:
                await work(client)

        asyncio.run(connected())


@pytest.fixture
def platform() -> Iterator[Platform]:
    with scratch() as place:
        yield Platform(place)


def test_from_the_config_to_the_merged_work(platform: Platform) -> None:
    assert "well" in platform.types("mcp", "--config", str(platform.config), "--check")
    mark = os.urandom(8).hex()

    async def first(client: Client) -> None:
        # The agent looks what there is, and what it may do.
        tools = {tool.name: tool for tool in (await client.session.list_tools()).tools}
        assert all(tool.outputSchema for tool in tools.values()) and "import_image" not in tools
        assert (await client.call("boxes"))["allowed"]["mounts"] == ["/work:cow"]
        # It runs the tests, which fail, and misspells an argument on the way.
        with pytest.raises(Refused, match="do you mean 'argv'"):
            await client.call("run", command="python3 test_shop.py")
        failed = await client.call("run", argv=["python3", "test_shop.py"])
        assert failed["exit_code"] == 1 and "wrong" in failed["stderr"] and failed["denials"] == []
        # A secret of the project and a forbidden network are refused, with reasons it can act on.
        refused = await client.call("run", argv=["cat", ".env"])
        assert "secret" not in refused["stdout"] and "/work/.env" in {one["what"] for one in refused["denials"]}
        connect = "import socket\nsocket.create_connection(('10.1.2.3', 80), 5)"
        refused = await client.call("run_code", code=connect)
        assert [one["errno"] for one in refused["denials"]] == ["EACCES"]
        # It tries a fix in a fork, then makes it in the box that is kept.
        await client.call("fork", new="try")
        await client.call("write_file", path="shop.py", content=MENDED, box="try")
        assert (await client.call("run", argv=["python3", "test_shop.py"], box="try"))["stdout"] == "good\n"
        await client.call("copy_files", paths=["shop.py"], to_box="main", box="try")
        fixed = await client.call("run", argv=["python3", "test_shop.py"])
        assert (fixed["exit_code"], fixed["stdout"]) == (0, "good\n")

    async def second(client: Client) -> None:
        # Another session, another day: the box is as it was. It shows the person a page.
        assert (await client.call("read_file", path="shop.py"))["content"] == MENDED
        await client.call("write_file", path="site/index.html", content="<h1>shop</h1>\n")
        server = f"MARK={mark} exec python3 -u -m http.server 8000 -d site"
        started = await client.call("start", argv=server, publish=["0:8000"], wait=60)
        address = f"http://{started['ports'][0]['host']}/"
        assert await asyncio.to_thread(lambda: urllib.request.urlopen(address).read()) == b"<h1>shop</h1>\n"
        told = await client.call("poll", program=started["program"], since=0, wait=60)
        assert '"GET / HTTP/1.1" 200' in told["output"] and told["running"]
        # A skill, with progress; its result comes into the box.
        client.progress.clear()
        await client.call("write_file", path="/tmp/prices.csv", content="name,price\ntea,3\n")
        ran = await client.call(
            "run_skill", skill="csv-to-json", inputs=["/tmp/prices.csv"], args=["/in/prices.csv", "/out/prices.json"]
        )
        assert ran["files"] == ["skill-output/prices.json"] and client.progress
        with pytest.raises(Refused, match="lets no client write to the host"):
            await client.call("apply_changes")
        # It hangs up without stopping its server.

    platform.session(first)
    assert (platform.project / "shop.py").read_text() == BROKEN
    assert "/work/shop.py" in platform.types("diff", "agent")
    platform.session(second)
    assert leftovers(mark, 60) == {}

    # The person looks, and takes over what is good.
    assert "agent" in platform.types("ps", "--all")
    shown = platform.types("diff", "agent")
    assert "/work/site/index.html" in shown and "/work/skill-output/prices.json" in shown
    platform.types("apply", "agent", "--yes")
    assert (platform.project / "shop.py").read_text() == MENDED
    assert (platform.project / "site" / "index.html").exists()
    assert (platform.project / ".env").read_text() == "TOKEN=secret\n"
    platform.types("drop", "agent")

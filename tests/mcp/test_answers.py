"""What a client of `husk mcp` may rely on: typed answers, no argument ignored, no bytes shown as if they were text."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed (pip install 'huskbox[mcp]')")

from pydantic import AnyUrl

from husk.mcp import answers
from husk.mcp.config import TOOLS, Config
from tests.mcp.clients import Client, Refused, run

SKILLS = Path(__file__).resolve().parents[2] / "examples" / "skills"


def everything(tmp_path: Path) -> Config:
    config = Config()
    config.skills.folders = [str(SKILLS)]
    config.images.folders = [str(tmp_path)]
    config.session.images = "agent-"
    return config


def test_every_tool_says_what_it_takes_and_answers(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        found = {tool.name: tool for tool in (await client.session.list_tools()).tools}
        assert set(found) == set(TOOLS)
        for name, tool in found.items():
            assert tool.inputSchema["additionalProperties"] is False, name
            assert tool.outputSchema is not None and tool.outputSchema["properties"], name
            named = tool.outputSchema["properties"]
            # `dict[str, Any]` would be an answer without a shape. Only what a skill's author writes has none.
            loose = {key for key, value in named.items() if value.get("additionalProperties") is True}
            assert loose <= {"metadata", "permissions"}, name
            assert set(tool.outputSchema["required"]) == set(named), name

    run(everything(tmp_path), test)


def test_an_unknown_argument_is_named() -> None:
    async def test(client: Client) -> None:
        with pytest.raises(
            Refused, match=r"^run: there is no argument 'time_out' \(do you mean 'timeout'\?\)\. It takes"
        ):
            await client.call("run", argv=["true"], time_out=3)
        with pytest.raises(Refused, match=r"'command' \(do you mean 'argv'\?\)"):
            await client.call("run", argv=["true"], command="ls")
        with pytest.raises(Refused, match=r"there is no argument 'zzz'\. It takes path, "):
            await client.call("read_file", path="x", zzz=1)
        assert (await client.call("boxes"))["boxes"] == []  # nothing ran

    run(None, test)


def test_bytes_are_not_shown_as_text() -> None:
    data = b"\x7fELF\0\0" + bytes(range(256)) * 4

    async def test(client: Client) -> None:
        await client.call("write_file", path="p", content=base64.b64encode(data).decode(), encoding="base64")
        read = await client.call("read_file", path="p")
        assert (read["binary"], read["content"], read["read"], read["size"]) == (True, "", 0, len(data))
        read = await client.call("read_file", path="p", encoding="base64")
        assert (base64.b64decode(read["content"]), read["binary"]) == (data, False)
        ran = await client.call("run", argv=["cat", "p"])
        assert ran["stdout"] == f"[{len(data)} bytes that are no text; all of them: {ran['resource']}/stdout]"
        (whole,) = (await client.session.read_resource(AnyUrl(ran["resource"] + "/stdout"))).contents
        assert base64.b64decode(getattr(whole, "blob", "")) == data
        assert "no text" in json.loads(await client.read(ran["resource"]))["stdout"]
        # One byte of another encoding does not make a text unreadable.
        assert (await client.call("run", argv=["printf", r"gr\374n is green\n"]))["stdout"] == "gr\\xfcn is green\n"

    run(None, test)


def test_pieces_of_a_text_meet_at_characters() -> None:
    text = "aä€😀\n" * 3
    for size in (4, 5, 7):
        data, at, got = text.encode(), 0, ""
        while at < len(data):
            piece = data[at : at + size]
            found = answers.file_text(piece, first=at == 0, last=at + len(piece) >= len(data))
            assert found is not None and found[1] > 0
            got, at = got + found[0], at + found[1]
        assert got == text
    assert answers.file_text("ä".encode()[1:] + b"x", first=False, last=True) == ("x", 2)
    assert answers.file_text(b"\x80\x80\x80\x80", first=False, last=True) is None
    assert answers.file_text(b"a\0b", first=True, last=True) is None
    assert answers.file_text(b"", first=True, last=True) == ("", 0)


def test_what_the_network_denies() -> None:
    config = Config()
    config.network.allow, config.network.deny = ["10.0.0.0/8"], ["10.9.9.9"]
    look = "import socket\ntry: socket.create_connection(('10.9.9.9', 9), 2)\nexcept OSError as e: print(e.errno)"

    async def test(client: Client) -> None:
        ran = await client.call("run_code", code=look)
        assert ran["stdout"] == "13\n", ran
        assert ran["denials"][0]["reason"] == 'network.deny = ["10.9.9.9"] forbids it'
        assert (await client.call("boxes"))["allowed"]["network_denied"] == ["10.9.9.9"]

    run(config, test)


def test_a_skill_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "SKILL.md").write_bytes(b"---\nname: odd\ndescription: Odd.\n---\n" + bytes(300))
    config = Config()
    config.skills.folders = [str(tmp_path)]

    async def test(client: Client) -> None:
        for tool in ("inspect_skill", "open_skill"):
            told = await client.call(tool, skill="odd")
            assert re.fullmatch(r"\[\d+ bytes that are no text; all of them: .*SKILL\.md\]", told["instructions"])

    run(config, test)

"""A session with a skill over the package's own client: open it, follow its instructions, take the result home."""

from __future__ import annotations

import asyncio
import base64
import re
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed (pip install 'huskbox[mcp]')")

from husk.mcp.config import Config
from husk.sandbox.kept.kept_boxes import KeptBoxes
from tests.mcp.clients import Client, Refused, run, stdio
from tests.skills.calling import make_skill

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTES = "We met.\n!ship on Friday\n@mia write the announcement\n@jo test it\n"


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> object:
    """No box and no copy of a skill may be left when the session is gone."""
    place = tmp_path_factory.mktemp("state")
    (place / "tmp").mkdir()
    monkeypatch.setenv("HUSK_STATE", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place / "tmp"))
    yield
    assert not list((place / "tmp").iterdir()) and not list(place.glob("box-*"))


def with_skills(folder: Path, **session: object) -> Config:
    config = Config()
    config.skills.folders = [str(folder)]
    for name, value in session.items():
        setattr(config.session, name, value)
    return config


async def follow(client: Client) -> None:
    """What an agent does with a skill of instructions: read, do each step, look, fetch."""
    (tool,) = [tool for tool in (await client.session.list_tools()).tools if tool.name == "open_skill"]
    assert tool.outputSchema is not None and {"box", "instructions", "workdir"} <= set(tool.outputSchema["required"])
    opened = await client.call("open_skill", skill="meeting-minutes")
    box = opened["box"]
    assert opened["skills"] == ["/skills/meeting-minutes"] and opened["workdir"] == "/workspace"
    await client.call("write_file", path="notes.txt", content=NOTES)  # in the session's own box
    copied = await client.call("copy_files", paths=["notes.txt"], to_box=box)
    assert copied["files"] == ["./notes.txt"]
    typed = re.findall(r"`((?:cp|sh) [^`]+)`", opened["instructions"])
    assert typed == ["cp assets/form.md minutes.md", "sh assets/check.sh minutes.md"]
    assert (await client.call("run", argv=typed[0], box=box))["exit_code"] == 0
    form = (await client.call("read_file", path="minutes.md", box=box))["content"]
    decisions = [f"- {line[1:]}" for line in NOTES.splitlines() if line[:1] == "!"]
    tasks = ["- {}: {}".format(*line[1:].split(" ", 1)) for line in NOTES.splitlines() if line[:1] == "@"]
    text = form.replace("## Decisions\n", "\n".join(["## Decisions", *decisions, ""]))
    text = text.replace("## Tasks\n", "\n".join(["## Tasks", *tasks, ""]))
    await client.call("write_file", path="minutes.md", content=text, box=box)
    checked = await client.call("run", argv=typed[1], box=box)
    assert (checked["exit_code"], checked["stdout"]) == (0, "ok\n"), checked
    changed = {one["path"] for one in (await client.call("changes", box=box))["changes"]}
    assert changed == {"/workspace/minutes.md", "/workspace/notes.txt"}
    found = await client.call("read_file", path="minutes.md", box=box, encoding="base64")
    minutes = base64.b64decode(found["content"]).decode()
    assert (
        minutes
        == "# Minutes\n\n## Decisions\n- ship on Friday\n\n## Tasks\n- mia: write the announcement\n- jo: test it\n"
    )
    assert (await client.call("close_box", name=box)) == {"closed": box, "kept": ""}


def test_instructions_are_followed() -> None:
    run(with_skills(EXAMPLES), follow)


def test_instructions_are_followed_on_stdio(tmp_path: Path) -> None:
    config = tmp_path / "mcp.toml"
    config.write_text(f'version = 1\n[skills]\nfolders = ["{EXAMPLES}"]\n')

    async def test() -> None:
        async with stdio(tmp_path, "--config", str(config)) as client:
            await follow(client)

    asyncio.run(test())


def test_states_of_a_skills_box(tmp_path: Path) -> None:
    """commit, rollback and fork give boxes with the skill in it, also after the first one is closed."""
    make_skill(tmp_path, "one", {"a.txt": "1\n"})
    make_skill(tmp_path, "two", {"b.txt": "2\n"})

    async def test(client: Client) -> None:
        opened = await client.call("open_skill", skill="one", also=["two"], box="b")
        assert opened["skills"] == ["/skills/one", "/skills/two"]

        async def output(line: str, box: str = "b") -> str:
            return str((await client.call("run", argv=line, box=box))["stdout"])

        await output("echo x > x")
        await client.call("commit", label="with-x", box="b")
        await client.call("rollback", box="b")
        assert await output("cat a.txt /skills/two/b.txt; ls x 2>/dev/null") == "1\n2\n"
        await client.call("rollback", label="with-x")
        await client.call("fork", new="c", box="b")
        await client.call("close_box", name="b")
        assert await output("cat x /skills/one/a.txt /skill/a.txt", "c") == "x\n1\n1\n"
        with pytest.raises(Refused, match="both called 'one'"):
            await client.call("open_skill", skill="one", also=["one"])
        with pytest.raises(Refused, match="there is no skill 'none'"):
            await client.call("open_skill", skill="none")

    run(with_skills(tmp_path), test)


def test_a_session_is_held_to_manifest_and_config(tmp_path: Path) -> None:
    make_skill(tmp_path, "held", {})
    (tmp_path / "held.permissions.toml").write_text(
        'version = 1\nskill = "held"\n[programs]\nallow = ["cat"]\n[limits]\ntime = "1"\n'
    )

    async def test(client: Client) -> None:
        opened = await client.call("open_skill", skill="held")
        assert 'time = "1"' in opened["held_to"]
        answer = await client.call("run", argv="cat /dev/null && ls", box="held")
        assert answer["exit_code"] == 126 and "not among the programs" in answer["denials"][0]["reason"]
        # The server gives ten minutes, the manifest one second.
        assert (await client.call("run", argv="cat /dev/zero > /dev/null", box="held"))["timed_out"]
        with pytest.raises(Refused, match="lets no client keep boxes"):
            await client.call("open_skill", skill="held", box="k", keep="mine")

    run(with_skills(tmp_path), test)


def test_what_a_client_may_leave_on_the_host(tmp_path: Path) -> None:
    make_skill(tmp_path, "stay", {})
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "f").write_text("old\n")

    async def refused(client: Client) -> None:
        await client.call("run", argv="echo new > /work/f")
        seen = await client.call("apply_changes", dry_run=True)
        assert seen["changes"] == [{"change": "changed", "path": "/work/f"}] and not seen["applied"]
        with pytest.raises(Refused, match="lets no client write to the host"):
            await client.call("apply_changes")

    async def allowed(client: Client) -> None:
        await client.call("run", argv="echo new > /work/f")
        assert (await client.call("apply_changes"))["applied"]
        await client.call("open_skill", skill="stay", keep="agent-1")
        await client.call("run", argv="echo r > result", box="stay")
        with pytest.raises(Refused, match="begin with 'agent-'"):
            await client.call("open_skill", skill="stay", box="other", keep="mine")

    for config, test in ((with_skills(tmp_path), refused), (with_skills(tmp_path, apply=True, keep="agent-"), allowed)):
        config.box.mounts = [f"{tmp_path / 'work'}:/work:cow"]
        run(config, test)
        assert (tmp_path / "work" / "f").read_text() == ("new\n" if test is allowed else "old\n")
    assert KeptBoxes().find("agent-1") is not None

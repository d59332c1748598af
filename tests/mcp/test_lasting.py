"""What outlives a session of `husk mcp`: images that a client makes, and boxes that a person goes on with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed (pip install 'huskbox[mcp]')")

from husk.mcp.config import Config
from tests.lib.running import husk_command
from tests.mcp.clients import Client, Refused, run


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HUSK_STORE", str(tmp_path / "store"))


def husk(*words: str) -> str:
    ran = subprocess.run([*husk_command(), *words], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    place.chmod(0o777)
    (place / "a.txt").write_text("one\n")
    (place / "a.txt").chmod(0o666)
    return place


def test_images(tmp_path: Path) -> None:
    root = tmp_path / "archives" / "tiny"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("#!/bin/sh\n")
    (root / "bin" / "tool").chmod(0o755)
    (tmp_path / "archives" / "nothing").mkdir()
    (tmp_path / "archives" / "away").symlink_to("/etc")
    config = Config()
    config.images.folders, config.session.images = [str(tmp_path / "archives")], "agent-"

    async def test(client: Client) -> None:
        assert await client.call("images") == {"images": [], "archives": ["nothing", "tiny"], "names": "agent-"}
        with pytest.raises(Refused, match="begin with 'agent-'"):
            await client.call("import_image", source="tiny", image="debian")
        for name in ("away", "../project", "/etc", "none"):
            with pytest.raises(Refused, match="there are nothing, tiny"):
                await client.call("import_image", source=name, image="agent-x")
        with pytest.raises(Refused, match=r"^nothing holds no program"):  # and not where on the host that lies
            await client.call("import_image", source="nothing", image="agent-x")
        made = await client.call("import_image", source="tiny", image="agent-tiny")
        assert (made["image"], made["files"], made["left_out"]) == ("agent-tiny", 1, [])
        assert any("tiny" in (message or "") for _, _, message in client.progress)
        assert (await client.call("images"))["images"] == [{"name": "agent-tiny", "files": 1, "bytes": 10}]
        with pytest.raises(Refused, match="the tool `images` lists the others"):
            await client.call("open_box", name="b", image="other")
        assert (await client.call("open_box", name="b", image="agent-tiny"))["image"] == "agent-tiny"
        assert [one["name"] for one in (await client.call("list_files", path="/bin", box="b"))["entries"]] == ["tool"]
        await client.call("write_file", path="/new", content="x", box="b")
        await client.call("rollback", box="b")  # to the same image
        names = {one["name"] for one in (await client.call("list_files", path="/", box="b"))["entries"]}
        assert "bin" in names and "new" not in names

    run(config, test)

    async def used(client: Client) -> None:
        assert [one["name"] for one in (await client.call("images"))["images"]] == ["agent-tiny"]
        with pytest.raises(Refused, match="no tool 'import_image'"):
            await client.call("import_image", source="tiny", image="agent-more")

    config = Config()
    config.images.use = ["agent-*"]
    run(config, used)


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_person_takes_over_what_an_agent_did(tmp_path: Path, namespaces: bool) -> None:
    place = project(tmp_path)
    config = Config()
    config.box.mounts, config.box.workdir, config.box.namespaces = [f"{place}:/work:cow"], "/work", namespaces
    config.session.keep = "agent-"

    async def test(client: Client) -> None:
        with pytest.raises(Refused, match="begin with 'agent-'"):
            await client.call("open_box", name="b", keep="mine")
        assert (await client.call("open_box", name="b", keep="agent-1"))["kept"] == "agent-1"
        await client.call("run", argv="echo two >> a.txt; echo new > b.txt", box="b")
        await client.call("run", argv=["cat", "/etc/shadow"], box="b")
        with pytest.raises(Refused, match="is kept as 'agent-1'"):
            await client.call("rollback", box="b")
        assert await client.call("close_box", name="b") == {"closed": "b", "kept": "agent-1"}

    run(config, test)
    assert (place / "a.txt").read_text() == "one\n"
    assert "/work/b.txt" in husk("diff", "agent-1")
    runs = json.loads(husk("log", "agent-1", "--json"))["runs"]
    assert [(one["argv"][0], one["exit_code"], len(one["changes"])) for one in runs] == [("sh", 0, 2), ("cat", 1, 0)]
    assert runs[1]["refusals"][0]["what"] == "/etc/shadow"
    husk("apply", "agent-1", "--yes")
    assert ((place / "a.txt").read_text(), (place / "b.txt").read_text()) == ("one\ntwo\n", "new\n")


def test_the_config_keeps_the_first_box(tmp_path: Path) -> None:
    place = project(tmp_path)
    config = Config()
    config.box.mounts, config.box.workdir = [f"{place}:/work:cow"], "/work"
    config.session.keep_main = "agent"

    async def first(client: Client) -> None:
        await client.call("run", argv="echo two >> a.txt")  # and the session ends without another word

    async def second(client: Client) -> None:
        assert (await client.call("run", argv=["cat", "a.txt"]))["stdout"] == "one\ntwo\n"
        assert (await client.call("boxes"))["boxes"][0]["kept"] == "agent"

    run(config, first)
    assert "a.txt" in husk("diff", "agent")
    run(config, second)
    husk("apply", "agent", "--yes")
    assert (place / "a.txt").read_text() == "one\ntwo\n"


def test_a_box_that_a_person_kept_gives_no_more_than_the_config(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret").write_text("secret\n")
    mine = ("run", "--keep", "agent-mine", "--mount", f"{tmp_path}/private:/private", "--env", "TOKEN=secret")
    husk(*mine, "--", "true")
    husk("run", "--keep", "agent-plain", "--", "touch", "/workspace/there")
    husk("run", "--keep", "agent-rules", "--no-default-rules", "--allow", "*.pem", "--", "true")
    config = Config()
    config.session.keep = "agent-"

    async def test(client: Client) -> None:
        with pytest.raises(Refused, match=r"more than this server gives: the mount /private, the variable TOKEN\."):
            await client.call("open_box", name="b", keep="agent-mine")
        with pytest.raises(Refused, match=r"the allowed name \*\.pem, names that husk's own rules close"):
            await client.call("open_box", name="b", keep="agent-rules")
        await client.call("open_box", name="b", keep="agent-plain")
        assert [one["name"] for one in (await client.call("list_files", box="b"))["entries"]] == ["there"]

    run(config, test)
    config.box.mounts, config.box.env = [f"{tmp_path}/private:/private:ro"], {"TOKEN": "secret"}

    async def given(client: Client) -> None:
        await client.call("open_box", name="b", keep="agent-mine")
        assert (await client.call("run", argv="cat /private/secret; echo $TOKEN", box="b"))[
            "stdout"
        ] == "secret\nsecret\n"

    run(config, given)

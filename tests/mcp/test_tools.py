"""The tools of `husk mcp`, asked for by the package's own client."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed (pip install 'huskbox[mcp]')")

from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification

from husk.mcp.config import Config
from husk.skills.open_skill import open_skill
from tests.lib.running import leftovers as running_with
from tests.mcp.clients import Client, Refused, run

SKILLS = Path(__file__).resolve().parents[2] / "examples" / "skills"


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> object:
    """Nothing of any box may be left when the session is gone."""
    place = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("HUSK_STATE", str(place))
    yield
    assert [path for path in place.rglob("*") if path.name not in ("kept", "layers", "kept.lock", "skills")] == []


def test_a_refusal_is_data_and_words() -> None:
    async def test(client: Client) -> None:
        answer = await client.call("run", argv=["cat", "/etc/shadow"])
        assert answer["exit_code"] == 1
        (denial,) = answer["denials"]
        assert (denial["what"], denial["errno"], denial["reason"]) == (
            "/etc/shadow",
            "ENOENT",
            "nothing is mounted there",
        )
        assert "trying the same again will fail again" in answer["explain"]
        assert "config" in answer["explain"]
        own = await client.call("run", argv=["sh", "-c", "exit 3"])
        assert (own["exit_code"], own["denials"]) == (3, [])
        assert "the program's own" in own["explain"]

    run(None, test)


def test_a_session_keeps_its_boxes() -> None:
    async def test(client: Client) -> None:
        await client.call("run", argv=["sh", "-c", "cat > kept; mkdir -p d"], input="sent\n")
        assert (await client.call("run_code", code="print(open('kept').read(), end='')"))["stdout"] == "sent\n"
        assert (await client.call("run_code", code="cat kept; echo $1", language="sh", args=["x"]))[
            "stdout"
        ] == "sent\nx\n"
        assert (await client.call("read_file", path="kept"))["content"] == "sent\n"
        found = await client.call("changes")
        assert [one["path"] for one in found["changes"]] == ["/workspace/d", "/workspace/kept"]
        with pytest.raises(Refused, match="No such file"):
            await client.call("read_file", path="kept", box="other")
        told = await client.call("boxes")
        assert [box["name"] for box in told["boxes"]] == ["main", "other"]
        await client.call("close_box", name="other")
        with pytest.raises(Refused, match="no box 'other'"):
            await client.call("close_box", name="other")

    run(None, test)


def test_files() -> None:
    async def test(client: Client) -> None:
        data = bytes(range(256))
        await client.call("write_file", path="a/b.bin", content=base64.b64encode(data).decode(), encoding="base64")
        piece = await client.call("read_file", path="a/b.bin", offset=250, size=100, encoding="base64")
        assert (base64.b64decode(piece["content"]), piece["size"], piece["read"]) == (data[250:], 256, 6)
        await client.call("write_file", path="/tmp/t", content="one")
        await client.call("write_file", path="/tmp/t", content="two", append=True)
        assert (await client.call("run", argv=["cat", "/tmp/t"]))["stdout"] == "onetwo"
        await client.call("run", argv=["ln", "-s", "b.bin", "a/link"])
        listed = await client.call("list_files", path="a")
        assert [(one["name"], one["kind"], one["size"]) for one in listed["entries"]] == [
            ("b.bin", "file", 256),
            ("link", "link", 5),
        ]
        for path in ("/etc/shadow", "/usr/bin/new", "/proc/self/mem"):
            with pytest.raises(Refused):
                await client.call("write_file", path=path, content="x")
        with pytest.raises(Refused, match="content"):
            await client.call("write_file", path="x", content="???", encoding="base64")
        # Larger than any memory: only the piece is read.
        await client.call("run", argv=["truncate", "-s", "1G", "huge"])
        assert (await client.call("read_file", path="huge", size=3))["size"] == 1 << 30

    run(None, test)


@pytest.mark.parametrize("namespaces", [True, False])
def test_commit_rollback_and_fork(namespaces: bool) -> None:
    config = Config()
    config.box.namespaces = namespaces

    async def test(client: Client) -> None:
        await client.call("run_code", code="echo 1 > a; ln a hard; ln -s a soft; mkdir d; chmod 750 d", language="sh")
        assert (await client.call("commit", label="one"))["box"] == "main"
        await client.call("fork", new="other")
        await client.call("run_code", code="echo 2 >> a; rm soft; rmdir d; touch new", language="sh")
        await client.call("run_code", code="echo 3 >> a; touch its", language="sh", box="other")
        look = "cat a; stat -c '%n %a %F' *"
        assert (await client.call("run_code", code=look, language="sh", box="other"))["stdout"].startswith("1\n3\n")
        assert "its" not in (await client.call("run", argv=["ls"]))["stdout"]
        assert (await client.call("rollback", label="one"))["box"] == "main"
        seen = (await client.call("run_code", code=look, language="sh"))["stdout"]
        assert seen == "1\na 644 regular file\nd 750 directory\nhard 644 regular file\nsoft 777 symbolic link\n"
        assert (await client.call("run", argv=["stat", "-c", "%h", "a"]))["stdout"] == "2\n"
        await client.call("close_box", name="other")
        await client.call("rollback", label="one", box="other")  # a commit outlives the box it is of
        assert (await client.call("run", argv=["cat", "a"], box="other"))["stdout"] == "1\n"
        await client.call("rollback")
        assert (await client.call("list_files"))["entries"] == []
        with pytest.raises(Refused, match="no commit 'two'; there are one"):
            await client.call("rollback", label="two")

    run(config, test)


def test_images_are_made_only_where_the_config_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STORE", str(tmp_path / "store"))

    async def refused(client: Client) -> None:
        await client.call("write_file", path="a", content="x")
        with pytest.raises(Refused, match="lets no client make images"):
            await client.call("commit", label="one", image="mine")

    run(None, refused)
    config = Config()
    config.session.images = "agent-"

    async def made(client: Client) -> None:
        await client.call("write_file", path="a", content="in the image")
        with pytest.raises(Refused, match="begin with 'agent-'"):
            await client.call("commit", label="one", image="mine")
        assert len((await client.call("commit", label="one", image="agent-one"))["layer"]) == 64

    run(config, made)
    config.box.image = "agent-one"

    async def seen(client: Client) -> None:
        assert (await client.call("run", argv=["cat", "/workspace/a"]))["stdout"] == "in the image"

    run(config, seen)


def test_deleted_files_of_a_mount_stay_deleted(tmp_path: Path) -> None:
    for name in ("gone", "stays"):
        (tmp_path / name).write_text(name)
    tmp_path.chmod(0o777)
    config = Config()
    config.box.mounts = [f"{tmp_path}:/work:cow"]
    config.box.workdir = "/work"

    async def test(client: Client) -> None:
        await client.call("run", argv=["rm", "gone"])
        await client.call("fork", new="other")
        assert (await client.call("run", argv=["ls"], box="other"))["stdout"] == "stays\n"

    run(config, test)
    assert (tmp_path / "gone").exists()


def test_a_mount_that_became_a_link(tmp_path: Path) -> None:
    """The guest of one box puts it into the directory above, for the next box that the server makes."""
    (tmp_path / "above" / "data").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    config = Config()
    config.box.mounts = [f"{tmp_path}/above:/above:rw", f"{tmp_path}/above/data:/data:ro"]

    async def test(client: Client) -> None:
        script = f"cd /above && mv data away && ln -s {tmp_path}/outside data && echo done"
        assert (await client.call("run", argv=script))["stdout"] == "done\n"
        with pytest.raises(Refused, match="symbolic link"):
            await client.call("run", argv=["cat", "/data/secret"], box="other")

    run(config, test)


def test_a_client_gets_no_more_than_the_config_allows() -> None:
    config = Config()
    config.limits |= {"time": "2s", "memory": "256M"}
    config.session.boxes, config.session.commits = 2, 1
    config.tools.deny = ["write_file"]

    async def test(client: Client) -> None:
        with pytest.raises(Refused, match="more than this server gives"):
            await client.call("open_box", name="big", limits={"memory": "1G"})
        assert (await client.call("open_box", name="small", limits={"memory": "64M"}))["limits"]["memory"] == "64M"
        late = await client.call("run", argv=["sleep", "1000"], timeout=1000)
        assert late["timed_out"] and late["seconds"] < 100
        assert "larger timeout" in late["explain"]
        with pytest.raises(Refused, match="may have 2 boxes"):
            await client.call("run", argv=["true"], box="third")
        with pytest.raises(Refused, match="may have 2 boxes"):
            await client.call("fork", new="third")
        await client.call("commit", label="one")
        with pytest.raises(Refused, match="may keep 1 states"):
            await client.call("commit", label="two")
        await client.call("commit", label="one")
        for name in ("../x", "", "a b", "x" * 65):
            with pytest.raises(Refused):
                await client.call("open_box", name=name)
        tools = {tool.name: tool.annotations for tool in (await client.session.list_tools()).tools}
        looking = {name for name, notes in tools.items() if notes and notes.readOnlyHint}
        assert looking == {"poll", "read_file", "list_files", "changes", "boxes"}
        names = set(tools)
        assert "write_file" not in names and "run_skill" not in names
        with pytest.raises(Refused, match="there is no tool 'write_file'; there are run"):
            await client.call("write_file", path="x", content="y")

    run(config, test)


def test_a_program_that_is_not_there() -> None:
    async def test(client: Client) -> None:
        answer = await client.call("run", argv=["nonesuch"])
        assert answer["exit_code"] == 127 and "not found" in answer["explain"]
        answer = await client.call("run", argv=["/etc/passwd"])
        assert answer["exit_code"] == 126
        answer = await client.call("run", argv=["ls -l"])
        assert "Give its arguments apart: ['ls', '-l']." in answer["explain"]
        assert (await client.call("run", argv="echo $((6 * 7))"))["stdout"] == "42\n"
        with pytest.raises(
            Refused, match=r"^run: argv: Field required; .* 'cmd' \(do you mean 'argv'\?\)\. It takes argv, box,"
        ):
            await client.call("run", cmd="ls")
        with pytest.raises(Refused, match=r"^run: timeout: Input should be a valid number"):
            await client.call("run", argv=["ls"], timeout="soon")
        with pytest.raises(Refused, match=r"there is no tool 'exec'; there are run, run_code,"):
            await client.call("exec", argv=["ls"])
        with pytest.raises(Refused):
            await client.call("run", argv=[])
        with pytest.raises(Refused, match="NUL"):
            await client.call("run", argv=["a\0b"])

    run(None, test)


def test_results_are_resources() -> None:
    config = Config()
    config.session.shown, config.session.results = 300, 2

    async def test(client: Client) -> None:
        answer = await client.call("run", argv=["seq", "1000"])
        assert "left out" in answer["stdout"] and len(answer["stdout"]) < 500
        assert answer["stdout"].endswith("999\n1000\n")
        assert await client.read(answer["resource"] + "/stdout") == "".join(f"{n}\n" for n in range(1, 1001))
        assert json.loads(await client.read(answer["resource"]))["argv"] == ["seq", "1000"]
        for _ in range(2):
            await client.call("run", argv=["true"])
        listed = [str(one.uri) for one in (await client.session.list_resources()).resources]
        assert listed == ["husk://allowed", "husk://results/2", "husk://results/3"]
        for address in (answer["resource"], "husk://results/x", "husk://results/2/secrets", "husk://nonesuch"):
            with pytest.raises(Exception, match="there is no re"):
                await client.read(address)
        assert json.loads(await client.read("husk://allowed"))["allowed"]["network"] == "none"

    run(config, test)


def test_progress_and_two_at_once() -> None:
    async def test(client: Client) -> None:
        # The second one ends the first: they run at the same time, in the same box.
        wait = "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)"
        first = asyncio.create_task(client.call("run_code", code=wait))
        while not any("running for" in (message or "") for _, _, message in client.progress):
            await asyncio.sleep(0.05)
        await client.call("run", argv=["touch", "/tmp/go"])
        assert (await first)["exit_code"] == 0
        assert all(total == 600 for _, total, _ in client.progress)

    run(None, test)


def test_a_cancelled_call_ends_its_program() -> None:
    async def test(client: Client) -> None:
        mark = os.urandom(8).hex()
        beat = f"MARK={mark} exec sh -c 'while :; do date +%N > beat; sleep 0.05; done'"
        running = asyncio.create_task(client.call("run_code", code=beat, language="sh"))
        while not client.progress:
            await asyncio.sleep(0.05)
        number = client.session._request_id - 1
        await client.call("run", argv="until [ -s beat ]; do sleep 0.05; done")
        told = CancelledNotificationParams(requestId=number, reason="a test")
        await client.session.send_notification(ClientNotification(CancelledNotification(params=told)))
        with pytest.raises(Exception, match="cancelled"):
            await running
        # The answer comes at once, the end a moment later.
        assert await asyncio.to_thread(running_with, mark, 60) == {}
        assert (await client.call("run", argv=["cat", "beat"]))["exit_code"] == 0

    run(None, test)


def test_a_session_that_goes_ends_what_runs() -> None:
    async def test(client: Client) -> None:
        running = asyncio.create_task(client.call("run", argv=["sleep", "1000"]))
        while not client.progress:
            await asyncio.sleep(0.05)
        running.cancel()

    run(None, test)  # the fixture looks whether the box is gone


def test_skills(tmp_path: Path) -> None:
    config = Config()
    config.skills.folders = [str(SKILLS)]

    async def test(client: Client) -> None:
        told = await client.call("inspect_skill", skill="word-count")
        assert told["name"] == "word-count" and told["valid"] and "SKILL" not in told["path"]
        await client.call("write_file", path="a/text.txt", content="one two two\n")
        answer = await client.call("run_skill", skill="word-count", inputs=["a/text.txt"], args=["/in"])
        assert (answer["exit_code"], answer["stdout"], answer["files"]) == (0, "two\t2\none\t1\n", [])
        await client.call("write_file", path="t.csv", content="name,age\nAda,36\n")
        answer = await client.call(
            "run_skill", skill="csv-to-json", inputs=["t.csv"], args=["/in/t.csv", "/out/t.json"]
        )
        assert answer["files"] == ["skill-output/t.json"], answer
        assert json.loads((await client.call("read_file", path="skill-output/t.json"))["content"])[0]["name"] == "Ada"
        # A skill's refusals are reported like any other.
        with pytest.raises(Refused, match="No such file"):
            await client.call("run_skill", skill="word-count", inputs=["/etc/shadow"])
        for name in ("../skills/word-count", "/etc", ".", "", "nonesuch"):
            with pytest.raises(Refused, match="word-count"):
                await client.call("inspect_skill", skill=name)

    run(config, test)


def test_a_skill_is_held_to_its_manifest(tmp_path: Path) -> None:
    scripts = tmp_path / "probe" / "scripts"
    scripts.mkdir(parents=True)
    (tmp_path / "probe" / "SKILL.md").write_text("---\nname: probe\ndescription: Looks around.\n---\n")
    (scripts / "look.sh").write_text("ls /in /out 2>&1; ulimit -f; head -c 1 /dev/zero | wc -c\n")
    tmp_path.chmod(0o755)
    manifest = tmp_path / "probe.permissions.toml"
    config = Config()
    config.skills.folders = [str(tmp_path)]
    config.limits |= {"file-size": "4M", "time": "1m"}
    config.network.allow = ["*.example.org:443"]

    def write(text: str) -> None:
        manifest.write_text(f'version = 1\nskill = "probe"\n{text}')

    async def test(client: Client) -> None:
        await client.call("write_file", path="f", content="x")
        free = await client.call("run_skill", skill="probe", inputs=["f"])
        assert "/in:\nf\n" in free["stdout"]
        # The lower of two limits counts, the skill's or the server's.
        write('[programs]\nallow = ["sh", "ls", "wc"]\n[limits]\nfile-size = "2M"\ntime = "10m"\n')
        held = await client.call("run_skill", skill="probe")
        assert "cannot access '/in'" in held["stdout"] and "cannot access '/out'" in held["stdout"]
        blocks = next(line for line in held["stdout"].splitlines() if line.isdigit())
        assert blocks in ("2048", "4096")  # of 1024 bytes, or of 512
        assert [one["what"] for one in held["denials"]] == ["/usr/bin/head"], held
        with pytest.raises(Refused, match="manifest gives it none"):
            await client.call("run_skill", skill="probe", inputs=["f"])
        write('[network]\nhosts = ["api.example.org:443", "elsewhere.org"]\n[files]\nmounts = ["/etc:/host"]')
        with pytest.raises(Refused, match=r"more than this server gives: network elsewhere.org; mount /etc:/host"):
            await client.call("run_skill", skill="probe")
        assert "cannot run here" in (await client.call("inspect_skill", skill="probe"))["held_to"]
        write('[network]\nhosts = ["api.example.org:443"]')
        assert "api.example.org" in (await client.call("inspect_skill", skill="probe"))["held_to"]
        write("[fils]")
        with pytest.raises(Refused, match=r"^probe.permissions.toml: there is no section .fils.; do you mean files"):
            await client.call("run_skill", skill="probe")  # and not where on the host that lies
        manifest.write_text('version = 1\nskill = "other"')
        with pytest.raises(Refused, match="another skill"):
            await client.call("run_skill", skill="probe")
        with open_skill(tmp_path / "probe") as package:
            digest = package.digest()
        write(f'content = "{digest}"\n[programs]\nallow = ["sh", "ls", "wc", "head"]\n')
        assert (await client.call("run_skill", skill="probe"))["exit_code"] == 0
        (scripts / "look.sh").write_text("echo something else\n")
        with pytest.raises(Refused, match=r"are not those that probe.permissions.toml was written for"):
            await client.call("run_skill", skill="probe")
        manifest.unlink()
        config.skills.need_permissions = True
        with pytest.raises(Refused, match="no skill without a permission manifest"):
            await client.call("run_skill", skill="probe")

    run(config, test)


def test_a_session_that_goes_ends_its_skills(tmp_path: Path) -> None:
    (tmp_path / "slow" / "scripts").mkdir(parents=True)
    (tmp_path / "slow" / "SKILL.md").write_text("---\nname: slow\ndescription: Sleeps.\n---\n")
    (tmp_path / "slow" / "scripts" / "sleep.sh").write_text("exec sleep 1000\n")
    tmp_path.chmod(0o755)
    config = Config()
    config.skills.folders = [str(tmp_path)]

    async def test(client: Client) -> None:
        running = asyncio.create_task(client.call("run_skill", skill="slow"))
        while not any("running for" in (message or "") for _, _, message in client.progress):
            await asyncio.sleep(0.05)
        running.cancel()

    began = time.monotonic()
    run(config, test)
    assert time.monotonic() - began < 100  # a tenth of what it would have slept

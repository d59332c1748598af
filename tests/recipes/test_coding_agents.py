"""docs/howto/run-a-coding-agent.md and hook-a-coding-agent.md, with a stand-in for the model. The agent is a stand-in,
too; the real ones run where HUSK_AGENTS names the prefix of `npm install --prefix DIR` that has them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import BARE, husk_command, scratch
from tests.lib.stand_in_model import KEY, Model, stand_in_model
from tests.recipes.pages import blocks, commands, husk

AGENTS = os.environ.get("HUSK_AGENTS", "")
REASON = "no coding agents are installed: npm install --prefix DIR …, and HUSK_AGENTS=DIR"
RUN, HOOK = "run-a-coding-agent.md", "hook-a-coding-agent.md"
COMMAND = "cat a.txt; echo made > b.txt; pwd; ls -d /root/.ssh /etc/shadow"
pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")
real = pytest.mark.skipif(not AGENTS, reason=REASON)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with scratch() as place:
        (place / "state").mkdir(mode=0o700)
        (place / "project").mkdir()
        (place / "project" / "a.txt").write_text("hello\n")
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HOME": str(place), "HUSK_STATE": str(place / "state")}.items():
            monkeypatch.setenv(name, value)
        for name in ("ANTHROPIC_API_KEY", "CODEX_API_KEY"):
            monkeypatch.setenv(name, KEY)
        yield place


def install(home: Path, *, really: bool) -> None:
    modules = home / "agents" / "node_modules"
    if really:
        modules.parent.mkdir()
        modules.symlink_to(Path(AGENTS).resolve() / "node_modules")
        return
    (modules / ".bin").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("stand_in_agent.py"), modules / ".bin" / "claude")
    (modules / ".bin" / "claude").chmod(0o755)


@pytest.mark.parametrize(
    ("profile", "really", "bare"),
    [
        ("claude", False, False),
        ("claude", False, True),
        ("claude-keyless", False, False),
        *(
            pytest.param(profile, True, bare, marks=real)
            for profile in ("claude", "claude-keyless", "codex")
            for bare in (False, True)
        ),
    ],
)
def test_an_agent_in_a_box(home: Path, profile: str, really: bool, bare: bool) -> None:
    install(home, really=really)
    project = home / "project"
    (profiles,) = blocks(RUN, "toml")
    (words,) = [
        one for one in commands(RUN) if one[2:4] == ["--profile", profile] and one[-1] == "Fix the failing test"
    ]
    with stand_in_model(f"{COMMAND}; env") as model:
        for host in ("api.anthropic.com:443", "api.openai.com:443"):
            assert host in profiles
            profiles = profiles.replace(host, f"127.0.0.1:{model.port}")
        address = f"http://127.0.0.1:{model.port}"
        profiles = re.sub(r"https?://api\.anthropic\.com", address, profiles)
        (project / "husk.toml").write_text(profiles)
        assert husk(["husk", "trust", "--yes"], project).returncode == 0
        words[2:2] = ["--env", f"ANTHROPIC_BASE_URL={address}", *([BARE] if bare else [])]
        if profile == "codex":
            words[-1:-1] = ["--model", "stand-in", "-c", f'openai_base_url="{address}/v1"']
        ran = husk(words, project)
        assert ran.returncode == 0, ran.stderr
        assert "hello\n/workspace" in ran.stdout and model.keys == {KEY}
        assert "hello\n/workspace\n" in model.seen[0] and "No such file" in model.seen[0]
        assert (KEY in model.seen[0]) == (profile != "claude-keyless")
    assert not (project / "b.txt").exists()
    assert "b.txt" in husk(["husk", "diff", "my-agent"], project).stdout
    assert husk(["husk", "apply", "my-agent", "--yes"], project).returncode == 0
    assert (project / "b.txt").read_text() == "made\n"


@real
def test_the_own_sandbox_of_codex(home: Path) -> None:
    """The page says why it must be off."""
    install(home, really=True)
    (profiles,) = blocks(RUN, "toml")
    with stand_in_model(COMMAND) as model:
        profiles = profiles.replace("api.openai.com:443", f"127.0.0.1:{model.port}")
        (home / "project" / "husk.toml").write_text(profiles)
        husk(["husk", "trust", "--yes"], home / "project")
        (words,) = [one for one in commands(RUN) if "codex" in one and one[-1] == "Fix the failing test"]
        at = words.index("--dangerously-bypass-approvals-and-sandbox")
        words[at : at + 1] = ["--sandbox", "workspace-write", "--model", "stand-in"]
        words[-1:-1] = ["-c", f'openai_base_url="http://127.0.0.1:{model.port}/v1"']
        husk(words, home / "project")
        assert "bwrap: No permissions to create new namespace" in model.seen[0]


# -- the hook ------------------------------------------------------------------------------------------------------


def hooked(home: Path, words: list[str], command: object, **more: object) -> subprocess.CompletedProcess[str]:
    call = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": str(home / "project")}
    text = json.dumps({**call, "tool_input": {"command": command, "timeout": 5000}, **more})
    return subprocess.run(
        [*husk_command(), *words[1:]], input=text, capture_output=True, text=True, timeout=60, check=False
    )


def settings() -> tuple[list[str], str]:
    (written,) = blocks(HOOK, "json")
    (entry,) = json.loads(written)["hooks"]["PreToolUse"]
    assert entry["matcher"] == "Bash"
    return entry["hooks"][0]["command"].split(), written


@pytest.mark.parametrize("bare", [False, True])
def test_a_command_is_put_into_a_box(home: Path, bare: bool) -> None:
    words, _ = settings()
    project = home / "project"
    (project / ".claude").mkdir()
    command = f"{COMMAND}; echo 'a  b'; echo x > .claude/settings.json; cat ../outside"
    (home / "outside").write_text("secret\n")
    told = json.loads(hooked(home, [*words, *(["--", BARE] if bare else [])], command).stdout)["hookSpecificOutput"]
    assert (told["hookEventName"], told["permissionDecision"]) == ("PreToolUse", "allow")
    assert told["updatedInput"]["timeout"] == 5000
    ran = subprocess.run(["sh", "-c", told["updatedInput"]["command"]], capture_output=True, text=True, check=False)
    assert ran.stdout == f"hello\n{project}\na  b\n", ran.stderr
    assert (project / "b.txt").read_text() == "made\n"  # rw: the agent's other tools see it
    assert list((project / ".claude").iterdir()) == []  # no command can switch the hook off
    assert ran.returncode == 1 and "secret" not in ran.stdout


def test_what_the_hook_leaves_alone_and_what_it_stops(home: Path) -> None:
    assert (
        json.loads(hooked(home, ["husk", "hook"], "true").stdout)["hookSpecificOutput"]["permissionDecision"] == "ask"
    )
    other = hooked(home, ["husk", "hook"], "true", tool_name="Edit")
    assert (other.returncode, other.stdout) == (0, "")
    for wrong in (
        hooked(home, ["husk", "hook"], None),
        hooked(home, ["husk", "hook"], "a\0b"),
        hooked(home, ["husk", "hook"], "true", hook_event_name="Stop"),
        hooked(home, ["husk", "hook"], "true", cwd="/"),
        hooked(home, ["husk", "hook", "--mode", "x"], "true"),
    ):
        assert (wrong.returncode, wrong.stdout) == (2, "") and wrong.stderr.count(
            "\n"
        ) == 1  # any other code lets it run
    told = json.loads(hooked(home, ["husk", "hook", "--mode", "none", "--", "--profile", "p"], "true").stdout)
    command = told["hookSpecificOutput"]["updatedInput"]["command"]
    assert command.endswith("husk run --profile p -- bash -c true")


def claude_outside(home: Path, model: Model, *words: str) -> None:
    """Claude Code on the host, as for the hook and for `husk mcp`."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "HUSK_STATE": str(home / "state"), "ANTHROPIC_API_KEY": KEY}
    env |= {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}", "DISABLE_AUTOUPDATER": "1"}
    env |= {"ENABLE_TOOL_SEARCH": "false"}  # the stand-in looks for its tool in the list
    claude = Path(AGENTS).resolve() / "node_modules" / ".bin" / "claude"
    command = [str(claude), "-p", *words, "--", "do it"]
    subprocess.run(command, env=env, cwd=home / "project", stdin=subprocess.DEVNULL, timeout=120, check=True)


@real
def test_claude_code_calls_the_hook(home: Path) -> None:
    words, written = settings()
    (home / "project" / ".claude").mkdir()
    ours = " ".join([*husk_command(), *words[1:]])
    (home / "project" / ".claude" / "settings.json").write_text(written.replace(" ".join(words), ours))
    with stand_in_model(COMMAND) as model:
        claude_outside(home, model)
        assert f"hello\n{home / 'project'}\n" in model.seen[0]
        assert "cannot access '/etc/shadow'" in model.seen[0]


@real
def test_claude_code_uses_the_server(home: Path) -> None:
    """docs/agents.md: the JSON file that most agents read."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text()
    servers = page.split("```json\n")[1].split("```")[0]
    (home / "mcp.toml").write_text('version = 1\n[box]\nmounts = ["project:/work:cow"]\nworkdir = "/work"\n')
    servers = servers.replace("/path/to/husk", husk_command()[0]).replace("/path/to/mcp.toml", str(home / "mcp.toml"))
    (home / "servers.json").write_text(servers)
    with stand_in_model(COMMAND, "mcp__husk__run") as model:
        claude_outside(home, model, "--mcp-config", str(home / "servers.json"), "--allowedTools", "mcp__husk__run")
        told = json.loads(model.seen[0])
        assert told["stdout"] == "hello\n/work\n" and "/etc/shadow" in told["denials"][0]["what"]

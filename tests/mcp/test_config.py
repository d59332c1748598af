"""The config of `husk mcp`: husk reports mistakes before it serves anything, and a client can only ask for less."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from husk.cli import cmd_mcp as command
from husk.mcp.config import SAMPLE, TOOLS, Config, read_config
from husk.sandbox.errors import UsageError


def config(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "mcp.toml"
    path.write_text("version = 1\n" + text)
    return read_config(path)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("version = 2", "not TOML"),  # twice
        ("[boxes]", "no section [boxes]"),
        ("box = 1", "must be a section"),
        ("[box]\nmount = []", "no box.mount"),
        ('[box]\nmounts = "x:/y"', "a list of texts"),
        ("[box]\nmounts = [1]", "a list of texts"),
        ("[box]\nenv = { A = 1 }", "a table of texts"),
        ('[box]\nmounts = ["nonesuch:/x"]', "there is no such file or directory"),
        ('[box]\nmounts = [".:/x:rwx"]', "ro, rw, cow"),
        ('[box]\nworkdir = "here"', "absolute"),
        ('[box]\nweaken = ["everything"]', "everything"),
        ('[network]\nmode = "all"', "none or host"),
        ('[network]\nallow = ["a b"]', "network.allow"),
        ('[network]\nallow = ["example.org"]\ndeny = ["10.0.0.0/99"]', "network.deny"),
        ('[network]\nhttp = ["https://example.org"]', "network.http: 'https://example.org': write METHODS URL"),
        ('[network]\nmode = "host"\nhttp = ["GET https://example.org"]', "leave out network.http"),
        ('[network]\ninject = ["https://example.org X-Key: {HUSK_NO_SUCH_KEY}"]', "network.inject adds to"),
        (
            '[network]\nhttp = ["GET https://a.org"]\ninject = ["https://a.org X-Key: {HUSK_NO_SUCH_KEY}"]',
            "network.inject: {HUSK_NO_SUCH_KEY}: your environment has no variable",
        ),
        ('[network]\ndeny = ["example.org"]', "takes something away from network.allow"),
        ('[network]\nmode = "host"\nallow = ["example.org"]', "allows everything"),
        ('[session]\nkeep_main = "../x"', "../x"),
        ('[images]\nfolders = ["nonesuch"]', "images.folders"),
        ('[limits]\nmemory = "much"', "whole number"),
        ('[limits]\nnonesuch = "1"', "nonesuch"),
        ("[limits]\nmemory = true", "must be a text"),
        ("[session]\nboxes = 0", "1 or more"),
        ("[session]\nboxes = true", "a whole number"),
        ('[tools]\nallow = ["rum"]', "no tool 'rum'"),
        ('[skills]\nfolders = ["nonesuch"]', "no directory"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(UsageError) as error:
        config(tmp_path, text)
    assert word in str(error.value)
    assert str(tmp_path / "mcp.toml") in str(error.value)


def test_a_version_is_needed(tmp_path: Path) -> None:
    (tmp_path / "mcp.toml").write_text("[box]\n")
    with pytest.raises(UsageError, match="version = 1"):
        read_config(tmp_path / "mcp.toml")


def test_nothing_is_given_by_default() -> None:
    made = Config()
    assert (made.box.mounts, made.network.mode, made.network.allow, made.skills.folders) == ([], "none", [], [])
    assert all(made.ceiling()[name] is not None for name in ("time", "memory", "processes", "disk", "output"))
    assert made.offered_tools == set(TOOLS) - {"inspect_skill", "run_skill", "open_skill", "images", "import_image"}


def test_names_begin_where_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    made = config(tmp_path, '[box]\nmounts = ["data:/data:cow"]\n[skills]\nfolders = ["data"]')
    assert made.box.mounts == [f"{tmp_path}/data:/data:cow"]
    assert made.skills.folders == [str(tmp_path / "data")]
    assert made.offered_tools == set(TOOLS) - {"images", "import_image"}


def test_limits_that_are_not_named_stay(tmp_path: Path) -> None:
    made = config(tmp_path, '[limits]\nmemory = "64M"\ncpu = 5')
    assert made.limits == Config().limits | {"memory": "64M", "cpu": "5"}


@pytest.mark.parametrize("wanted", [{"memory": "3G"}, {"memory": "none"}, {"time": "11m"}, {"processes": "513"}])
def test_a_client_cannot_have_more(wanted: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="more than this server gives"):
        Config().lower_limits(wanted)


def test_a_client_can_have_less() -> None:
    made = Config().lower_limits({"memory": "1G", "cpu": "3s"})
    assert (made["memory"], made["cpu"], made["time"]) == ("1G", "3s", "10m")


def test_time_is_capped() -> None:
    made = Config()
    assert (made.run_seconds(None), made.run_seconds(5), made.run_seconds(1e6)) == (600, 5, 600)
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError):
            made.run_seconds(wrong)


def test_the_sample_is_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--sample"]) == 0
    path = tmp_path / "mcp.toml"
    path.write_text(capsys.readouterr().out)
    assert read_config(path) == Config()
    assert command.main(["--config", str(path), "--check"]) == 0
    assert SAMPLE.count("[limits]") == 1


@pytest.mark.parametrize("address", ["0.0.0.0:80", "example.org:80", "[::]:1", "x", "127.0.0.1:99999"])
def test_only_the_loopback_is_served(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--http", address]) == 2
    assert "--http" in capsys.readouterr().err


def test_a_config_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--config", str(tmp_path / "no.toml")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_the_page_shows_what_works(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text()
    blocks = [block.split("\n", 1) for block in page.split("```")[1::2]]
    (text,) = [text for kind, text in blocks if kind == "toml" and "version = 1" in text]
    for folder in ("project", "skills"):
        (tmp_path / folder).mkdir()
    made = config(tmp_path, text.replace("version = 1\n", ""))
    assert (made.session.boxes, made.ceiling()["memory"], made.network.allow[0]) == (2, 1 << 30, "pypi.org:443")
    assert "run_skill" not in made.offered_tools and "inspect_skill" in made.offered_tools
    (agent,) = [json.loads(text) for kind, text in blocks if kind == "json"]
    assert agent["mcpServers"]["husk"]["args"][0] == "mcp"
    assert all(f"`{tool}`" in page for tool in TOOLS)

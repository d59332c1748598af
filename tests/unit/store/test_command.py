"""`husk store`: messages, JSON, exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from husk.cli.cmd_store import main


class Command:
    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self.capsys = place, capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        """What it prints; for a mistake, one line on stderr."""
        try:
            found = main([*words, "--store", str(self.place)])
        except SystemExit as end:  # argparse
            found = int(str(end.code))
        out, err = self.capsys.readouterr()
        assert found == code, err
        assert bool(err) == bool(code and not out), err
        return out or err

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code))


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path / "store", capsys)


def test_a_whole_life(command: Command, tree: Path) -> None:
    (tree / ".env").write_text("PASSWORD=x")
    said = command("ingest", str(tree), "--name", "base", "--exclude", "large", "--show-excluded", "--jobs", "2")
    assert "5 files" in said and "left out (secret): .env" in said and "left out: large" in said
    report = command.json("ingest", str(tree), "--name", "all", "--include-secrets")
    assert report["files"] == 7 and report["image"] == "all" and report["excluded"] == []
    assert report["bytes"] > report["blob_bytes"] and report["dedup_ratio"] >= 1
    assert [image["name"] for image in command.json("ls")] == ["all", "base"]
    assert command("ls").splitlines()[0].startswith("all ")
    assert command.json("stat")["blobs"] == 5 + 2
    assert command.json("stat", "base")["files"] == 5
    assert "bin" not in command("stat", "base") and "everything is as it should be" in command("verify")
    assert "nothing was changed" in command("gc")
    command("rm", "base")
    assert command.json("gc")["blobs"] == 1
    assert command.json("gc", "--unused-for", "7d")["young"] == 1
    assert "removed 1 blobs" in command("gc", "--delete")
    command("rm", "all")
    assert command.json("gc", "--delete")["blobs"] == 6
    assert "no images" in command("ls")


def test_damage_is_exit_code_1(command: Command, tree: Path) -> None:
    report = command.json("ingest", str(tree), "--name", "base")
    entry = command.place / "blake3" / report["manifest"][:2] / report["manifest"]
    entry.chmod(0o600)
    entry.write_bytes(entry.read_bytes()[:-1])
    said = command("verify", code=1)
    assert "set aside" in said and "touches base" in said and "--repair-from" in said
    (finding,) = command.json("verify", code=1)["findings"]
    assert (finding["why"], finding["images"]) == ("it is missing", ["base"])


@pytest.mark.parametrize(
    "words",
    [
        ["ls"],
        ["stat"],
        ["verify"],
        ["gc"],
        ["ingest", "/no/such/directory"],
        ["ingest", "/etc/passwd"],
        ["ingest", "/usr/share/doc", "--name", "../x"],
        ["ingest", "/usr/share/doc", "--exclude", "/"],
        ["ingest", "/usr/share/doc", "--jobs", "0"],
        ["gc", "--unused-for", "soon"],
        ["nonsense"],
        [],
    ],
)
def test_mistakes_are_exit_code_2(command: Command, words: list[str]) -> None:
    said = command(*words, code=2)
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if not line.startswith(("usage", " "))]) == 1


@pytest.mark.parametrize(
    "words", [["stat", "nope"], ["rm", "nope"], ["protect", "nope"], ["protect", "0" * 64], ["protect", "/etc/passwd"],
              ["verify", "--repair-from", "/nowhere"]]
)  # fmt: skip
def test_names_that_are_not_there(command: Command, tree: Path, words: list[str]) -> None:
    command("ingest", str(tree))
    assert command(*words, code=2).count("\n") == 1


def test_protect(command: Command, tree: Path) -> None:
    command("ingest", str(tree), "--name", "base")
    result = command.json("protect", "base", code=0 if os.geteuid() == 0 else 1)
    assert result["protected"] + result["failed"] == 5
    command("rm", "base")
    command("gc", "--delete", code=0)
    assert command.json("stat")["blobs"] == 0


def test_an_error_is_json_too(command: Command) -> None:
    try:
        assert main(["ls", "--json", "--store", str(command.place)]) == 2
    finally:
        out, err = command.capsys.readouterr()
    assert "there is no store" in json.loads(out)["error"] and "there is no store" in err

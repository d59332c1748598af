"""`--json` holds for errors too: every command, every kind of failure, one object on standard output, no traceback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from husk.cli import all_commands, cmd_store, exit_codes, main
from husk.cli.options import Command
from husk.cli.options.run_options import RUN
from husk.cli.options.store_options import STORE
from husk.sandbox.errors import HuskError, NotExecutable, NotFound, UsageError
from husk.store.store_errors import StoreError, StoreUsageError
from tests.unit.cli.test_option_table import IDS, LEAVES

FIELDS = {"error", "kind", "exit_code"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HUSK_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("HUSK_CONFORM", str(tmp_path / "conform"))


def error_of(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(words) == code
    out, err = capsys.readouterr()
    told: dict[str, Any] = json.loads(out)
    assert told["exit_code"] == code
    assert "Traceback" not in err and err.count("\n") == 1 and told["error"] in err
    return told


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=IDS)
def test_an_unknown_option(path: str, command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    told = error_of([*path.split(), "--nonsense", "--json"], 2, capsys)
    assert set(told) == FIELDS and told["kind"] == "usage"
    assert ("--nonsense" if path != "shell" else "has no --json") in told["error"]


WITH_VALUES = [
    (path, option.names[-1])
    for path, command in LEAVES
    for option in command.options
    if option.metavar and path != "shell"
]


@pytest.mark.parametrize(("path", "name"), WITH_VALUES)
def test_a_value_that_is_missing(path: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = error_of([*path.split(), "--json", name], 2, capsys)
    assert told["kind"] == "usage" and name in told["error"]


def mistakes(path: str, command: Command) -> Iterator[list[str]]:
    """Every way to misuse the options and arguments of a command that the table knows of."""
    needed = ["word" for argument in command.arguments if argument.count in "1+"]
    program = ["--", "true"] if command.program else []
    if needed and not program:
        yield ["--json"]
    if not program and all(argument.count in "1?" for argument in command.arguments):
        yield ["--json", *(["word"] * (len(command.arguments) + 1))]
    if any(argument.choices for argument in command.arguments):
        yield ["--json", *("nonsense" for _ in command.arguments)]
    yield ["--json=yes"]
    if not command.program_first:
        yield ["--jso", "--nonsense"]
    for option in command.options:
        name = option.names[-1]
        if not option.metavar:
            yield ["--json", f"{name}=value"]
        if option.choices or option.read is not None:
            yield ["--json", name, "no such value", *needed, *program]


MISTAKES = [(path, words) for path, command in LEAVES if path != "shell" for words in mistakes(path, command)]


@pytest.mark.parametrize(("path", "words"), MISTAKES, ids=[f"{path} {' '.join(words)}" for path, words in MISTAKES])
def test_a_mistake(path: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of([*path.split(), *words], 2, capsys)["kind"] == "usage"


def test_a_mistake_before_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [command.name for command in all_commands() if command.commands]
    lines = [["--json"], ["nonsense", "--json"], ["--nonsense", "--json"], ["--json", "run"]]
    lines += [[name, *words] for name in groups for words in (["--json"], ["nonsense", "--json"], ["--json", "ls"])]
    for words in lines:
        assert error_of(words, 2, capsys)["kind"] == "usage"


# For each command something it cannot do. Commands that fail only when called wrongly are left out.
FAILING = {
    "run": (["--", "/no/such/program"], 127, "not-found"),
    "shell": ([], 2, "usage"),
    "init": (["/nowhere"], 2, "usage"),
    "trust": (["/nowhere"], 2, "usage"),
    "skill inspect": (["/nowhere"], 2, "usage"),
    "skill run": (["/nowhere"], 2, "usage"),
    "skill exec": (["/nowhere", "--", "true"], 2, "usage"),
    "skill shell": (["/nowhere"], 2, "usage"),
    "skill learn": (["/nowhere"], 2, "usage"),
    "skill lock": (["/nowhere"], 2, "usage"),
    "skill test": ([], 2, "usage"),
    "skill review": (["/nowhere"], 2, "usage"),
    "skill diff": (["/nowhere", "/nowhere"], 2, "usage"),
    "image ls": ([], 2, "usage"),
    "image inspect": (["none"], 2, "usage"),
    "image rm": (["none"], 2, "usage"),
    "image tag": (["none", "x"], 2, "usage"),
    "image import": (["/nowhere"], 2, "usage"),
    "image pull": (["Not a name"], 2, "usage"),
    "image export": (["none", "-"], 2, "usage"),
    "image build": (["/nowhere"], 2, "usage"),
    "hook": ([], 2, "usage"),
    "kernel install": (["--python", "/nowhere"], 2, "usage"),
    "kernel run": (["/nowhere"], 2, "usage"),
    "diff": (["none"], 2, "usage"),
    "apply": (["none"], 2, "usage"),
    "log": (["none"], 2, "usage"),
    "exec": (["none", "--", "true"], 2, "usage"),
    "stop": (["none"], 2, "usage"),
    "logs": (["none"], 2, "usage"),
    "attach": (["none"], 2, "usage"),
    "commit": (["none", "x"], 2, "usage"),
    "fork": (["none", "x"], 2, "usage"),
    "drop": (["none"], 2, "usage"),
    "rules": (["--hide", "a[b"], 2, "usage"),
    "store ingest": (["/nowhere"], 2, "usage"),
    "store ls": ([], 2, "usage"),
    "store stat": ([], 2, "usage"),
    "store verify": ([], 2, "usage"),
    "store gc": ([], 2, "usage"),
    "store protect": (["none"], 2, "usage"),
    "store rm": (["none"], 2, "usage"),
    "compare": (["--", "/nowhere"], 2, "usage"),
    "need": (["--", "/nowhere"], 127, "not-found"),
    "plan": (["--for", "husk", "/nowhere"], 2, "usage"),
    "seccomp from": (["/nowhere"], 2, "usage"),
    "conform build": (["gvisor", "--source", "/nowhere", "--out", "/nowhere"], 2, "usage"),
    "conform run": (["/nowhere"], 2, "usage"),
    "conform show": (["/nowhere"], 2, "usage"),
    "conform history": (["--case", "none"], 2, "usage"),
    "conform diff": (["latest~1", "latest"], 2, "usage"),
    "conform bisect": (["none"], 2, "usage"),
    "conform nightly": (["/nowhere"], 2, "usage"),
    "conform import": (["/nowhere"], 2, "usage"),
    "conform forget": (["none"], 2, "usage"),
    "conform trace": (["/nowhere"], 2, "usage"),
    "conform uses": (["--skills", "/nowhere"], 2, "usage"),
    "conform matrix": (["nonsense"], 2, "usage"),
    "conform report": (["/nowhere"], 2, "usage"),
    "runtimes show": (["none"], 2, "usage"),
    "runtimes diff": (["none", "husk"], 2, "usage"),
    "runtimes import": (["/nowhere"], 2, "usage"),
    "runtimes validate": (["/nowhere"], 2, "usage"),
    "check": (["/nowhere"], 2, "usage"),
    "probe": (["--only", "nonsense"], 2, "usage"),
    "trace": (["--", "/no/such/program"], 127, "not-found"),
    "resident serve": (["nonsense"], 2, "usage"),
    "syscalls": (["nonsense"], 2, "usage"),
    "mcp": ([], 2, "usage"),
    "completion": (["tcsh"], 2, "usage"),
}
ALWAYS_WORKS = {"ps", "doctor", "resident status", "resident stop", "runtimes ls"}


def test_every_command_is_tried() -> None:
    assert {*FAILING, *ALWAYS_WORKS} == set(IDS)


@pytest.mark.parametrize("path", FAILING)
def test_what_cannot_be_done(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, code, kind = FAILING[path]
    told = error_of([*path.split(), "--json", *words], code, capsys)
    assert set(told) == FIELDS and told["kind"] == kind


@pytest.mark.parametrize("words", [["--json"], ["nonsense", "--json"], ["--nonsense", "--json"]])
def test_no_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(words, 2, capsys)["kind"] == "usage"


@pytest.mark.parametrize("command", [one for one in all_commands() if one.commands], ids=lambda one: one.name)
def test_no_sub_command(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.commands[0].name in error_of([command.name, "--json"], 2, capsys)["error"]
    assert "nonsense" in error_of([command.name, "nonsense", "--json"], 2, capsys)["error"]


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"version"}


@pytest.mark.parametrize(("error", "kind", "code"), [
    (HuskError("it cannot."), "husk", 125),
    (UsageError("it cannot."), "usage", 2),
    (NotFound("it cannot."), "not-found", 127),
    (NotExecutable("it cannot."), "not-executable", 126),
    (StoreError("it cannot."), "store", 1),
    (StoreUsageError("it cannot."), "usage", 2),
    (OSError(28, "No space left on device"), "host", 125),
    (KeyboardInterrupt(), "interrupted", 130),
    (ValueError("it cannot."), "fault", 125),
])  # fmt: skip
def test_kinds(error: BaseException, kind: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: object) -> int:
        raise error

    assert exit_codes.run_command(STORE, ["ls", "--json"], {"ls": fail}) == code
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["kind"], told["exit_code"]) == (kind, code)
    assert "Traceback" not in err
    if kind == "fault":
        assert "raise error" in told["traceback"]


def test_without_json_a_fault_shows_its_traceback() -> None:
    def fail(_: object) -> int:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        exit_codes.run_command(STORE, ["ls"], {"ls": fail})


def test_a_fault_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_codes.failed(RUN, ["--json", "--", "x"], ValueError("a bug")) == 125
    assert json.loads(capsys.readouterr().out)["kind"] == "fault"


def test_damage_that_cannot_be_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found and what failed are one object, not two."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("x")
    assert cmd_store.main(["ingest", str(tmp_path / "tree"), "--name", "base", "--json"]) == 0
    manifest = json.loads(capsys.readouterr().out)["manifest"]
    blob = tmp_path / "store" / "blake3" / manifest[:2] / manifest
    blob.chmod(0o600)
    blob.write_bytes(b"damaged")

    def denied(*_: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr("husk.store.verify.settle", denied)
    assert cmd_store.main(["verify", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "store" and "cannot be set aside" in told["error"] and told["findings"]

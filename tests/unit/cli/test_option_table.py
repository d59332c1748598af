"""The option table: it is complete, it says what the commands read, and the page made from it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.cli import COMMANDS, ELSEWHERE, all_commands, main
from husk.cli.options import HELP, Command, Option
from husk.cli.options.help_text import help_text
from husk.cli.options.parse_words import Values, Words, find_command, wants_json
from husk.cli.options.reference import page
from husk.cli.options.run_options import RUN
from husk.cli.options.store_options import STORE
from husk.sandbox.errors import UsageError

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"


def leaves(path: str, command: Command) -> Iterator[tuple[str, Command]]:
    """The commands that do something, with the words that lead there."""
    path = f"{path} {command.name}".strip()
    if not command.commands:
        yield path, command
    for below in command.commands:
        yield from leaves(path, below)


LEAVES = [leaf for command in all_commands() for leaf in leaves("", command)]
IDS = [path for path, _ in LEAVES]


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "write it anew: make command-line-page"


def test_every_command_has_a_row() -> None:
    assert [command.name for command in all_commands()] == list(COMMANDS)


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=IDS)
def test_rows_are_complete(path: str, command: Command) -> None:
    names = [name for option in command.options for name in option.names]
    assert len(names) == len(set(names))
    assert HELP in command.options
    assert ("--json" in names) == (path != "shell")
    for option in command.options:
        assert option.help and not option.help.endswith("."), option.names
        assert all(name.startswith("-") for name in option.names)
        assert option.metavar or not (option.many or option.choices or option.files or option.read)
        assert not option.choices or option.metavar == "|".join(option.choices)
        assert option.default in ("", None, False, 0) or option.many or str(option.default) or option.choices
    assert all(argument.help for argument in command.arguments)


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=IDS)
def test_help_shows_every_row(path: str, command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.startswith(f"usage: husk {path} ")
    assert max(map(len, out.splitlines())) <= 120
    for option in command.options:
        assert all(name in out for name in option.names) and option.metavar in out
    for width in (80, 100):
        assert max(map(len, help_text(f"husk {path}", command, width).splitlines())) <= width


@pytest.mark.parametrize("command", [one for one in all_commands() if one.commands], ids=lambda one: one.name)
def test_help_of_a_family(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command.name, "--help"]) == 0
    out = capsys.readouterr().out
    assert all(one.name in out and one.summary.split()[0] in out for one in command.commands)


def test_handlers_are_those_of_the_table() -> None:
    for command in all_commands():
        if command.commands:
            module = f"husk.cli.{COMMANDS[command.name][1]}"
            __import__(module)
            handlers = sys.modules[module]._HANDLERS
            assert list(handlers) == [one.name for one in command.commands]


# -- words -------------------------------------------------------------------------------------------------------------

SAMPLE = Command(
    "sample",
    "for these tests",
    options=(
        Option("-a, --all", "", "a flag"),
        Option("-o, --out", "FILE", "a value"),
        Option("--rule", "RULE", "several", many=True),
        Option("--form", "x|y", "a choice", choices=("x", "y"), default="x"),
        Option("--number", "N", "read", read=int, default=7),
    ),
)


def sample(*words: str) -> Values:
    return Values("husk sample", SAMPLE, list(words))


def test_defaults() -> None:
    values = sample()
    assert (values.all, values.out, values.rule, values.form, values.number) == (False, "", [], "x", 7)
    assert values.help is False and values.program == []
    with pytest.raises(AttributeError):
        _ = values.nonsense


def test_spellings() -> None:
    for words in (["--out", "f"], ["--out=f"], ["-o", "f"], ["-of"], ["--ou", "f"], ["-aof"]):
        assert sample(*words).out == "f", words
    assert sample("-ao", "f").all and sample("--rule=1", "--rule", "2").rule == ["1", "2"]
    assert sample("--out", "-").out == "-" and sample("--out=").out == "" and sample("--number=8").number == 8


@pytest.mark.parametrize(("words", "sentence"), [
    (["--nonsense"], "there is no option --nonsense; `husk sample --help` lists them."),
    (["--al1"], "there is no option --al1; did you mean --all? `husk sample --help` lists them."),
    (["-ax"], "there is no option -ax; did you mean -a? `husk sample --help` lists them."),
    (["--all=1"], "--all takes no value; leave out =1"),
    (["--out"], "--out needs a value; `husk sample --help` shows which."),
    (["--out", "--all"], "--out needs a value; `husk sample --help` shows which."),
    (["--form", "z"], "--form 'z': it is one of x, y."),
    (["word"], "'word' is one word too many; write: husk sample [options]"),
])  # fmt: skip
def test_mistakes(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        sample(*words)
    assert str(error.value) == sentence


def test_arguments_are_counted() -> None:
    path, ingest, words = find_command(STORE, ["ingest", "here", "--name", "x"])
    values = Values(path, ingest, words)
    assert (path, values.directory, values.name) == ("husk store ingest", "here", "x")
    assert Values(path, ingest, ["--", "-odd"]).directory == "-odd"
    with pytest.raises(UsageError, match=r"DIR is missing; write: husk store ingest \[options\] DIR"):
        Values(path, ingest, [])


def test_a_program_keeps_its_words() -> None:
    for words in (["prog", "--json", "--"], ["--", "prog", "--json", "--"]):
        assert Words("husk run", RUN, words).program == ["prog", "--json", "--"]


@pytest.mark.parametrize(("words", "wanted"), [
    (["--json", "--", "x"], True),
    (["--nonsense", "--json", "--", "x"], True),
    (["--mount", "--json", "--", "x"], False),  # its value, as it seems
    (["--mount", "a:/b", "--json", "x"], True),
    (["x", "--json"], False),
    (["--", "x", "--json"], False),
])  # fmt: skip
def test_json_is_the_commands_own(words: list[str], wanted: bool) -> None:
    assert wants_json(RUN, words) == wanted


@pytest.mark.parametrize("word", ELSEWHERE)
def test_words_of_other_tools_lead_to_commands_that_exist(word: str) -> None:
    assert word not in COMMANDS
    command, *rest = ELSEWHERE[word].split()
    assert command == "--version" or command in COMMANDS
    if rest and not rest[0].startswith("-"):
        below = next(one for one in all_commands() if one.name == command).below(rest[0])
        assert below is not None, f"husk {ELSEWHERE[word]}"

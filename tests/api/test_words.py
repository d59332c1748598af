"""Errors and remedies are told in the words of whoever asks: keywords in Python, options on the command line, keys of
the configuration to a client of the MCP server."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

import husk
from husk.api.asker_words import Asker, reworded
from husk.api.run_result import made
from husk.sandbox.errors import HuskError
from husk.sandbox.policy import Mount
from husk.sandbox.result import Result as Ended

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a mount without place": ({"mounts": ["/usr"]}, "mounts=['/usr']: write SRC:DST"),
    "a mode": ({"mounts": ["/usr:/m:rx"]}, "mounts=['/usr:/m:rx']: the mode is one of"),
    "no such directory": ({"mounts": ["/no/such:/m"]}, "mounts=['/no/such']: there is no such file or directory"),
    "kernel files": ({"mounts": ["/proc:/m"]}, "mounts=['/proc']: proc speaks for the host's kernel"),
    "a single file": ({"mounts": ["/etc/passwd:/m:rw"]}, "mounts=['/etc/passwd']: a single file"),
    "a limit": ({"limits": {"memory": "lots"}}, "limits={'memory': 'lots'}: give a whole number"),
    "no limit": ({"limits": {"bricks": 3}}, "limits={'bricks': '3'}: write NAME=VALUE"),
    "a port": ({"publish": ["http"]}, "publish=['http']: write HOST:GUEST"),
    "a wall": ({"weaken": ["roof"]}, "weaken=['roof']: write one of"),
    "the last wall": ({"weaken": ["landlock"]}, "weaken=['landlock']: not possible"),
    "a rule for hosts": ({"net": ["http://example.org"]}, "net=['http://example.org']: that is a URL"),
    "a pattern": ({"hide": ["[x"], "mounts": ["/usr:/m"]}, "hide=['[x']: the bracket"),
    "an exception": ({"hide": ["!x"], "mounts": ["/usr:/m"]}, "allow=['x']"),
    "a place to start": ({"cwd": "/no/such"}, "cwd='/no/such': No such file or directory in the box; mounts=['DIR:/no"),
    "a name": ({"keep": "a/b"}, "a/b"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_by_keyword(name: str) -> None:
    options, sentence = MISTAKES[name]
    with pytest.raises(husk.UsageError) as caught:
        husk.run(["true"], **options)
    assert sentence in str(caught.value) and "--" not in str(caught.value)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(husk.HuskError, match=r"publish=\['127.0.0.1:[0-9]+'\]: .*another program has it"):
            husk.run(["true"], publish=[f"{port}:8000"])


def test_a_missing_program_that_the_host_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(FileNotFoundError, match=rf"add mounts=\['{tmp_path}:{tmp_path}:ro'\] and call it"):
        husk.run(["only-here"])


def refused(what: str, reason: str, allow: str, mounts: tuple[Mount, ...] = ()) -> husk.Result:
    ended = Ended()
    ended.exit_code = 1
    ended.refusals = [{"call": "openat", "what": what, "errno": "EACCES", "reason": reason, "allow": allow, "count": 1}]
    return made(["x"], ended, [], mounts)


REMEDIES: dict[str, dict[Asker, str]] = {
    "--mount /etc/x:/etc/x:ro": {
        "cli": "To allow it, --mount /etc/x:/etc/x:ro.",
        "python": "To allow it, start the sandbox with mounts=['/etc/x:/etc/x:ro'].",
        "mcp": 'To allow it, the server\'s configuration has to say box.mounts = ["/etc/x:/etc/x:ro"].',
        "profile": 'To allow it, the profile has to say mount = ["/etc/x:/etc/x:ro"].',
    },
    "--allow-net example.org:443": {
        "cli": "--allow-net example.org:443.",
        "python": "net=['example.org:443'].",
        "mcp": 'network.allow = ["example.org:443"].',
        "profile": 'allow-net = ["example.org:443"].',
    },
    "--allow '~/.bashrc'": {
        "cli": "--allow '~/.bashrc'.",
        "python": "allow=['~/.bashrc'].",
        "mcp": 'box.allow = ["~/.bashrc"].',
        "profile": 'allow = ["~/.bashrc"].',
    },
    "--allow-socket /run/x.sock": {
        "cli": "--allow-socket /run/x.sock.",
        "python": "allow_sockets=['/run/x.sock'].",
        "profile": 'allow-socket = ["/run/x.sock"].',
    },
    "leave out --deny '*.pem'": {
        "cli": "To allow it, leave out --deny '*.pem'.",
        "python": "To allow it, leave out deny=['*.pem'].",
        "mcp": 'To allow it, leave out box.deny = ["*.pem"].',
        "profile": 'To allow it, leave out deny = ["*.pem"].',
    },
    "mount it with :rw to change the host, or :cow to change a copy": {
        "cli": "to change a copy: --mount /usr:/m:cow.",
        "python": "to change a copy: mounts=['/usr:/m:cow'].",
        "mcp": 'to change a copy: box.mounts = ["/usr:/m:cow"].',
        "profile": 'to change a copy: mount = ["/usr:/m:cow"].',
    },
    "": {"cli": "No option allows it; find another way.", "mcp": "No option allows it; find another way."},
}


@pytest.mark.parametrize("allow", REMEDIES)
def test_each_refusal_has_its_remedy_in_the_words_of_whoever_asks(allow: str) -> None:
    done = refused("/m/x", "no --allow-net rule names it", allow, (Mount("/", "/other"), Mount("/usr", "/m")))
    (denial,) = done.denials
    assert (denial.remedy is None) == (not allow) and (denial.remedy.said() if denial.remedy else "") == denial.allow
    for asker, sentence in REMEDIES[allow].items():
        assert done.explain(asker).endswith(sentence), done.explain(asker)
    assert "--" not in done.explain() and "no rule of net" in denial.reason
    assert "no network.allow rule" in done.explain("mcp") and "no --allow-net rule" in done.explain("cli")


SENTENCES = {
    "run it without --keep, or elsewhere": "run it without keep, or elsewhere",
    "leave it out, or leave out --allow-net.": "leave it out, or leave out net.",
    "say --weaken signals: then no guest": "say weaken=['signals']: then no guest",
    "with --no-such-option x and -- y": "with --no-such-option x and -- y",
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_options_within_sentences(sentence: str) -> None:
    assert reworded(sentence, "python") == SENTENCES[sentence]
    assert reworded(sentence, "cli") == sentence


def test_what_the_command_line_says_stays_as_it_was() -> None:
    assert str(HuskError("why.", option="mount", value="a:b")) == "--mount a:b: why."
    assert str(HuskError("why.", option="mount")) == "--mount: why." and str(HuskError("why.")) == "why."


def test_what_hands_arguments_on_speaks_python_too() -> None:
    with husk.Sandbox() as box:
        for wrong in (
            lambda: box.fork(publish=["http"]),
            lambda: husk.Pool(1, mounts=["/usr"]),
            lambda: husk.map(str.upper, ["a"], mounts=["/usr"]),
            lambda: husk.Executor(mounts=["/usr"]).submit(refused, "", "", ""),
            lambda: box.apply(),
            lambda: box.commit("no/such/:name"),
        ):
            with pytest.raises((husk.HuskError, TypeError)) as caught:
                wrong()
            assert "--" not in str(caught.value)

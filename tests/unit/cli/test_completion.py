"""`husk completion`: bash itself completes, with the script husk prints; and nothing that can be said is missing."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from husk.cli import COMMANDS, all_commands, completion_scripts, manual
from husk.cli import cmd_completion as completion
from husk.cli.run_policy import SETTERS

LEVELS = completion.levels()
BY_PATH = {level.path: level for level in LEVELS}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "husk.bash"
    path.write_text(completion_scripts.bash(LEVELS))
    return path


@pytest.fixture(autouse=True)
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kept boxes, and the husk that is tested on the PATH."""
    for name in ("web", "work"):
        (tmp_path / "state" / "kept" / name).mkdir(parents=True)
    (tmp_path / "state").chmod(0o700)
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:{os.environ['PATH']}")


def complete(script: Path, *words: str) -> list[str]:
    """What bash would offer with the cursor at the end of the last word."""
    program = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _husk; printf "%s\\n" "${COMPREPLY[@]}"'
    asked = ["bash", "--norc", "-c", program, "-", str(script), *words]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def test_bash_knows_the_function(script: Path) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", f"source {script}; complete -p husk"], capture_output=True, text=True, timeout=120
    )
    assert "-F _husk husk" in done.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("husk", "stor"), ["store"]),
        (("husk", "--v"), ["--version"]),
        (("husk", "run", "--mou"), ["--mount"]),
        (("husk", "run", "--net", ""), ["none", "host"]),
        (("husk", "run", "--mount", ""), []),  # left to bash: names of files
        (("husk", "run", "--mount", ".:/x", "--work"), ["--workdir"]),
        (("husk", "skill", "insp"), ["inspect"]),
        (("husk", "skill", "run", "--find"), ["--find-links"]),
        (("husk", "store", "gc", "--del"), ["--delete"]),
        (("husk", "syscalls", "--way", "v"), ["virtual"]),
        (("husk", "completion", "z"), ["zsh"]),
        (("husk", "run", "--", "bas"), None),
        (("husk", "run", "--", "ls", "--he"), []),  # the program's own
        (("husk", "nonesuch", ""), list(COMMANDS)),
        (("husk", "run", "--keep", "w"), ["web", "work"]),
        (("husk", "diff", "wo"), ["work"]),
        (("husk", "run", "--profile", "n"), ["none"]),
        (("husk", "run", "--limit", "mem"), ["memory="]),
        (("husk", "run", "--as", "gvis"), None),
    ],
)
def test_bash_completes(script: Path, words: tuple[str, ...], offered: list[str] | None) -> None:
    found = complete(script, *words)
    if offered is None:
        assert any(word.startswith(words[-1]) for word in found)
    else:
        assert found == offered


def test_the_name_of_a_profile_runs_nothing(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bash expands the words that it is offered."""
    own = tmp_path / "config" / "husk"
    own.mkdir(parents=True)
    hostile = "x$(touch${IFS}" + str(tmp_path / "ran") + ")"
    (own / "config.toml").write_text(f'format = 1\n[profile."{hostile}"]\n[profile.plain]\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert complete(script, "husk", "run", "--profile", "") == ["plain", "none"]
    assert not (tmp_path / "ran").exists()


CASES = [
    ("husk stor", "store"),
    ("husk image bui", "build"),
    ("husk run --mou", "--mount"),
    ("husk run --net h", "host"),
    ("husk run --mount . --work", "--workdir"),
    ("husk skill insp", "inspect"),
    ("husk skill run --find", "--find-links"),
    ("husk store gc --del", "--delete"),
    ("husk syscalls --way v", "virtual"),
    ("husk completion z", "zsh"),
    ("husk run -- husk-complete-m", "husk-complete-me"),
    ("husk run --keep wo", "work"),
    ("husk stop we", "web"),
]


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """An empty home, and a program to be found."""
    (tmp_path / "husk-complete-me").write_text("")
    (tmp_path / "husk-complete-me").chmod(0o755)
    (tmp_path / "_husk").write_text(completion_scripts.zsh(LEVELS))
    (tmp_path / "husk.fish").write_text(completion_scripts.fish(LEVELS))
    path = f"{tmp_path}:{sys.prefix}/bin:/usr/bin:/bin"
    state = str(tmp_path / "state")
    return {"PATH": path, "HUSK_STATE": state, "HOME": str(tmp_path), "TERM": "dumb", "LANG": "C.UTF-8"}


def test_fish_completes(place: dict[str, str]) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    asked = "; ".join(f"echo '<'; complete -C '{line}'" for line, _ in [*CASES, ("husk image ", "")])
    words = [fish, "--no-config", "-c", f"source {place['HOME']}/husk.fish; {asked}"]
    done = subprocess.run(words, env=place, capture_output=True, text=True, timeout=60, check=True)
    *found, below = [
        [line.split("\t")[0] for line in text.split("\n") if line] for text in done.stdout.split("<\n")[1:]
    ]
    assert found == [[word] for _, word in CASES]
    assert sorted(below) == sorted(BY_PATH["husk image"].words)


SETUP = """PS1=; fpath=($HOME $fpath); autoload -Uz compinit; compinit -u -d $HOME/dump; unsetopt beep
show() { print -r -- "GOT<$BUFFER>"; BUFFER=; zle accept-line }; zle -N show; bindkey '^X' show; print READ''Y
"""


BY_EVAL = """PS1=; unsetopt beep; autoload -Uz compinit; compinit -u -d $HOME/dump; eval "$(husk completion zsh)"
show() { print -r -- "GOT<$BUFFER>"; BUFFER=; zle accept-line }; zle -N show; bindkey '^X' show; print READ''Y
"""


@pytest.mark.parametrize("setup", [SETUP, BY_EVAL], ids=["file", "eval"])
def test_zsh_completes(place: dict[str, str], setup: str) -> None:
    """On a terminal, by the tab key; then a key of ours tells what stands in the line."""
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    child, terminal = pty.fork()
    if not child:
        os.execve(zsh, ["zsh", "-f", "-i"], place)
    seen = b""
    try:
        for line, mark in [(setup, b"READY\r\n"), *((f"{line}\t\x18", b">\r\n") for line, _ in CASES)]:
            os.write(terminal, line.encode())
            start = len(seen)
            while mark not in seen[start:]:
                seen += os.read(terminal, 65536)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
    told = seen.partition(b"READY\r\n")[2].decode()
    assert re.findall("GOT<(.*?) ?>", told) == [
        f"{line.rpartition(' ')[0]} {word}" for line, word in CASES
    ]


def test_every_command_is_offered(script: Path) -> None:
    assert complete(script, "husk", "") == list(COMMANDS)


def test_all_options_of_run_can_be_completed() -> None:
    offered = {name for option in BY_PATH["husk run"].options for name in option.names}
    assert offered >= {"-t", "-i", "-it", "--json", "-v", "--verbose", "-h", "--help", "--no-namespaces", "--summary"}
    takes = {option.attribute for option in BY_PATH["husk run"].options if option.metavar}
    assert set(SETTERS) == takes


def test_every_command_has_options() -> None:
    for name in COMMANDS:
        level = BY_PATH[f"husk {name}"]
        assert level.options, f"`husk {name} --help` shows no options in the usual form"
        assert not any(" " in option or not option.startswith("-") for one in level.options for option in one.names)


@pytest.mark.parametrize("shell", sorted(completion_scripts.SHELLS))
def test_the_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert completion.main([shell]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("store", "ingest", "no-namespaces"))


def test_the_manual_names_every_command() -> None:
    text = manual.manual(all_commands())
    assert all(f"husk {command.name} {command.usage}" in text for command in all_commands())
    assert max(map(len, text.splitlines())) <= 120

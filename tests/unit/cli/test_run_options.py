"""`husk run`: what its options mean, and that every mistake ends in one sentence and the right exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.cli import main as husk
from husk.cli.cmd_run import main
from husk.cli.options.help_text import help_text
from husk.cli.options.run_options import RUN
from husk.cli.run_policy import FLAGS, SETTERS, RunOptions
from husk.cli.summary import show
from husk.sandbox import run as runs
from husk.sandbox.errors import NoNamespaces, UsageError
from husk.sandbox.result import Result
from husk.walls import namespaces


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of its own, empty afterwards."""
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    yield tmp_path / "state"
    assert not (tmp_path / "state").exists() or not list((tmp_path / "state").iterdir()), "state left behind"


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("husk: ") and "Traceback" not in line and "Errno" not in line
    return line


# -- meaning -----------------------------------------------------------------------------------------------------------

def test_everything_after_the_program_is_the_programs() -> None:
    for words in (["--", "prog", "-v", "--", "--json"], ["prog", "-v", "--", "--json"]):
        options = RunOptions(words)
        assert options.policy.argv == ["prog", "-v", "--", "--json"]
        assert not options.verbose and not options.json


def test_options() -> None:
    options = RunOptions(["--workdir", "/x", "--env=A=1=2", "--env", "B=", "--timeout", "1.5", "--events", "/e",
                          "--json", "--summary", "-v", "--no-namespaces", "--", "prog"])
    policy = options.policy
    assert (policy.workdir, policy.env, policy.timeout, policy.namespaces) == ("/x", {"A": "1=2", "B": ""}, 1.5, False)
    assert (options.events, options.json, options.summary, options.verbose) == ("/e", True, True, True)


def test_equals_and_blank_mean_the_same(tmp_path: Path) -> None:
    for words in (["--mount", f"{tmp_path}:/in:rw"], [f"--mount={tmp_path}:/in:rw"]):
        (mount,) = RunOptions([*words, "--", "prog"]).policy.mounts
        assert (mount.source, mount.target, mount.mode) == (str(tmp_path), "/in", "rw")


def test_mounts_add_up(tmp_path: Path) -> None:
    policy = RunOptions(["--mount", f"{tmp_path}:/a", "--mount", f"{tmp_path}:/b", "--", "prog"]).policy
    assert [mount.target for mount in policy.mounts] == ["/a", "/b"]


def test_env_from_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASS_ME", "value")
    assert RunOptions(["--env", "PASS_ME", "--", "prog"]).policy.env == {"PASS_ME": "value"}


def test_defaults_are_quiet() -> None:
    options = RunOptions(["prog"])
    assert not (options.events or options.json or options.summary or options.verbose)
    assert options.policy.namespaces and options.policy.timeout is None


def test_help_names_every_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    page = help_text("husk run", RUN, 100)
    for option in RUN.options:
        assert all(name in page for name in option.names)
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == page
    assert main(["--mount", "/:/x", "-h"]) == 0


def test_every_row_has_a_meaning() -> None:
    assert {option.attribute for option in RUN.options if option.metavar} == set(SETTERS)
    assert {option.attribute for option in RUN.options if not option.metavar} == set(FLAGS)


@pytest.mark.parametrize(("words", "terminal", "keyboard"), [
    (["-t"], True, False),
    (["-i"], False, True),
    (["-it"], True, True),
    (["-ti"], True, True),
    (["-t", "-i"], True, True),
])
def test_short_options_can_be_joined(words: list[str], terminal: bool, keyboard: bool) -> None:
    policy = RunOptions([*words, "--", "prog"]).policy
    assert (policy.terminal, policy.interactive) == (terminal, keyboard)


# -- mistakes ----------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "PROGRAM"),
    "nothing after --": (["--"], "PROGRAM"),
    "only options": (["-v"], "PROGRAM"),
    "empty program": (["--", ""], "PROGRAM"),
    "unknown": (["--nonsense", "--", "true"], "--nonsense"),
    "unknown, short": (["-x", "--", "true"], "-x"),
    "unknown, with a value": (["--nonsense=1", "--", "true"], "--nonsense"),
    "misspelt": (["--sumary", "--", "true"], "--summary"),
    "flag with a value": (["--quiet=yes", "--", "true"], "--quiet"),
    "value missing": (["--mount"], "--mount"),
    "value empty": (["--workdir=", "--", "true"], "--workdir"),
    "value is the separator": (["--timeout", "--", "true"], "--timeout"),
    "events empty": (["--events=", "--", "true"], "--events"),
    "mount": (["--mount", "nonsense", "--", "true"], "nonsense"),
    "workdir relative": (["--workdir", "here", "--", "true"], "here"),
    "timeout is text": (["--timeout", "soon", "--", "true"], "soon"),
    "timeout is nought": (["--timeout", "0", "--", "true"], "0"),
    "timeout negative": (["--timeout", "-1", "--", "true"], "-1"),
    "timeout is no number": (["--timeout", "nan", "--", "true"], "nan"),
    "timeout without end": (["--timeout", "inf", "--", "true"], "inf"),
    "env without a name": (["--env", "=x", "--", "true"], "=x"),
    "env nobody set": (["--env", "HUSK_TEST_NOBODY_SET_THIS", "--", "true"], "HUSK_TEST_NOBODY_SET_THIS"),
    "events nowhere": (["--events", "/nowhere/at/all", "--", "true"], "/nowhere/at/all"),
    "workdir missing": (["--workdir", "/nowhere", "--", "true"], "/nowhere"),
    "workdir is a file": (["--workdir", "/etc/passwd", "--", "true"], "/etc/passwd"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, named = WRONG[name]
    assert main(words) == 2
    assert named in one_sentence(capsys)


@pytest.mark.parametrize("words", [["--", "tr\0ue"], ["--env", "A=\0", "--", "true"], ["--env", "A\0B=1", "--", "true"],
                                   ["--workdir", "/\0", "--", "true"], ["--mount", "/usr:/x\0y", "--", "true"],
                                   ["--", "/bin/sh", "a\0b"]], ids=lambda words: words[0])
def test_nul_in_a_word(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """No shell can pass one, but a program that calls husk with a list can: it must not smuggle a second word in."""
    assert main(words) in (2, 126, 127)
    one_sentence(capsys)


@pytest.mark.parametrize(("words", "code", "named"), [
    (["--", "no-such-program"], 127, "no-such-program"),
    (["--", "/no/such/program"], 127, "/no/such/program"),
    (["--", "./x"], 127, "./x"),
    (["--", "/usr"], 126, "/usr"),
    (["--", "/etc/passwd"], 126, "/etc/passwd"),
    (["--", "/"], 126, "/"),
    (["--", "/etc/passwd/x"], 127, "/etc/passwd/x"),
])
def test_programs_that_cannot_run(words: list[str], code: int, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == code
    assert named in one_sentence(capsys)


def test_a_program_only_the_host_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "husk-test-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert main(["--", "husk-test-tool"]) == 127
    assert f"--mount {tmp_path}:{tmp_path}:ro" in one_sentence(capsys)


@pytest.mark.parametrize(("script", "mode", "code", "advice"), [
    ("#!/bin/sh\r\necho\r\n", 0o755, 127, r"sed -i 's/\r$//' script"),
    ("#!/no/such/shell\n", 0o755, 127, "its interpreter /no/such/shell is not in the box"),
    ("#!/work/other\n", 0o755, 127, "its interpreter /no/such/shell is not in the box"),
    ("#!/bin/sh\n", 0o644, 126, "chmod +x it"),
])
def test_a_script_that_cannot_start(
    script: str, mode: int, code: int, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script").write_bytes(script.encode())
    (tmp_path / "script").chmod(mode)
    (tmp_path / "other").write_text("#!/no/such/shell\n")
    (tmp_path / "other").chmod(0o755)
    tmp_path.chmod(0o755)
    assert main(["--mount", f"{tmp_path}:/work", "--workdir", "/work", "--", "./script"]) == code
    assert advice in one_sentence(capsys)


def test_a_line_of_shell_is_no_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--", "echo hello"]) == 127
    assert "sh -c 'echo hello'" in one_sentence(capsys)


def test_no_place_for_state(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STATE", "/proc/nowhere")
    assert main(["--", "true"]) == 125
    assert "HUSK_STATE" in one_sentence(capsys)


def test_too_few_walls(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without namespaces, and where Landlock cannot confine signals, no wall would protect the host's processes."""
    monkeypatch.setattr(namespaces, "landlock_abi", lambda: 5)
    assert main(["--no-namespaces", "--", "true"]) == 125
    assert "Landlock" in capfd.readouterr().err


def test_no_namespaces_and_too_few_walls(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise NoNamespaces("making namespaces: Operation not permitted")

    monkeypatch.setattr(namespaces, "landlock_abi", lambda: 5)
    monkeypatch.setattr(runs, "Launch", denied)
    assert main(["--", "true"]) == 125
    assert "Landlock" in capfd.readouterr().err


# -- the command above it ----------------------------------------------------------------------------------------------

def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert husk(["frobnicate"]) == 2
    assert "frobnicate" in one_sentence(capsys)
    for word, meant in (("rn", "run"), ("version", "--version"), ("--versoin", "--version")):
        assert husk([word]) == 2
        assert f"did you mean {meant}?" in one_sentence(capsys)
    assert husk([]) == 2
    one_sentence(capsys)
    assert husk(["--version"]) == 0
    assert capsys.readouterr().out.startswith("husk ")
    assert husk(["--help"]) == 0
    assert "husk run" in capsys.readouterr().out
    with pytest.raises(UsageError):
        RunOptions([])


# -- whole runs, as a process ------------------------------------------------------------------------------------------

def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "husk.cli", "run", *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("exit 255", 255)])
def test_exit_code_is_the_programs(script: str, code: int) -> None:
    done = run("--", "/bin/sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_file_that_only_the_host_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure husk names such an argument and the mount that would show it. That mount does show it."""
    (tmp_path / "script").write_text("echo started; exit 3\n")
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for word, mount in (("script", ".:/workspace:cow"), (f"{tmp_path}/script", f"{tmp_path}:{tmp_path}:ro")):
        done = run("--", "sh", word)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith(f"husk: {word} is on the host, not in the box; --mount {mount} ")
        done = run("--mount", mount, "--", "sh", word)
        assert (done.returncode, done.stdout, done.stderr) == (3, "started\n", "")


@pytest.mark.parametrize("words", [
    ["--", "sh", "-c", "test -f script"],
    ["--", "sh", "-c", "echo > $0; exit 1", "script"],
    ["--", "grep", "-q", "nonsense", "/etc/hostname"],
    ["--workdir", "/tmp", "--", "test", "-f", "script"],
])
def test_no_hint_where_no_file_is_known_to_be_missing(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script").touch()
    monkeypatch.chdir(tmp_path)
    done = run(*words)
    assert (done.returncode, done.stderr) == (1, "")


def test_timeout() -> None:
    done = run("--timeout", "0.3", "--", "sleep", "60")
    assert done.returncode == 124


def test_json(tmp_path: Path) -> None:
    import json

    done = run("--json", "--", "/bin/sh", "-c", "cat; echo err >&2; touch new; exit 3", stdin="given")
    told = json.loads(done.stdout)
    assert done.returncode == told["exit_code"] == 3
    assert (told["stdout"], told["stderr"]) == ("given", "err\n")
    assert {"change": "added", "path": "/workspace/new"} in told["changes"]
    assert not told["timed_out"] and not told["faults"]


def test_events(tmp_path: Path) -> None:
    import json

    log = tmp_path / "log"
    assert run("--events", str(log), "--", "/bin/sh", "-c", "cat /etc/hostname /root/.bashrc").returncode == 1
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(event["event"] == "exec" and event["program"].endswith("cat") for event in events)
    assert any(event["event"] == "open" and event["path"] == "/etc/hostname" for event in events)


def test_a_log_that_cannot_be_written_harms_no_guest() -> None:
    """The disk is full: the guest must not notice. Whoever wanted the log must."""
    done = run("--events", "/dev/full", "--", "/bin/sh", "-c", "ls /usr >/dev/null; ls /nowhere 2>/dev/null; echo done")
    assert (done.returncode, done.stdout) == (125, "done\n")
    assert "Traceback" not in done.stderr


# -- the summary -------------------------------------------------------------------------------------------------------

def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result()
    result.exit_code, result.seconds = 4, 1.234
    result.read = ["/usr/lib/x", "/workspace/a"]
    result.changes = [("added", "/workspace/new")]
    result.refusals = [{"what": "/secret", "reason": "nothing is mounted there", "allow": "--mount /secret:/secret:ro"}]
    show(result)
    out, err = capsys.readouterr()
    assert out == ""
    for words in ("exit code 4 after 1.23 s", "/workspace/a", "and 1 file of the system", "/workspace/new (added)",
                  "/secret: nothing is mounted there; to allow it, --mount /secret:/secret:ro"):
        assert words in err
    assert "/usr/lib/x" not in err


def test_summary_of_a_run_that_read_only_the_system(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result()
    result.read = ["/usr/lib/x", "/usr/lib/y"]
    show(result)
    assert "  read: 2 files of the system\n  changed: nothing\n" in capsys.readouterr().err


def test_summary_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result()
    result.changes = [("added", f"/workspace/{n}") for n in range(1000)]
    show(result)
    err = capsys.readouterr().err
    assert "… and 980 more" in err and len(err.splitlines()) < 40


@pytest.mark.parametrize("name", ["line\nbreak", "esc\x1b[31mred", "bell\a", "csi\x9b31m"])
def test_a_guests_name_writes_nothing_else_on_the_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The guest chooses file names: none of their control characters reaches the person's terminal."""
    result = Result()
    result.read = [f"/workspace/{name}"]
    result.changes = [("added", f"/workspace/{name}")]
    result.refusals = [{"what": f"/{name}", "reason": "no", "allow": ""}]
    show(result)
    err = capsys.readouterr().err
    assert all(letter == "\n" or letter.isprintable() for letter in err)
    assert not any(line.startswith("break") for line in err.splitlines())

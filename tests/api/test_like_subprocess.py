"""The same call through subprocess.run and in a box: the same result, or an exception of the same type."""

from __future__ import annotations

import io
import os
import select
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import husk

BOTH = "echo out; echo err >&2; exit 3"
# Name -> arguments of both. `args` is the command.
CALLS: dict[str, dict[str, Any]] = {
    "status": {"args": ["sh", "-c", "exit 7"]},
    "signal": {"args": ["sh", "-c", "kill -TERM $$"]},
    "captured": {"args": BOTH, "shell": True, "capture_output": True},
    "text": {"args": BOTH, "shell": True, "capture_output": True, "text": True},
    "universal newlines": {"args": ["printf", "a\\r\\nb\\rc\\n"], "stdout": -1, "universal_newlines": True},
    "agreeing": {"args": ["echo"], "stdout": -1, "universal_newlines": True, "text": True},
    "disagreeing": {"args": ["echo"], "stdout": -1, "universal_newlines": False, "text": True},
    "only stdout": {"args": BOTH, "shell": True, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL},
    "only stderr": {"args": BOTH, "shell": True, "stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL},
    "one stream": {"args": BOTH, "shell": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
    "check": {"args": BOTH, "shell": True, "capture_output": True, "check": True},
    "check of success": {"args": ["true"], "check": True},
    "timeout": {"args": ["sleep", "60"], "timeout": 0.05, "stdin": subprocess.DEVNULL},
    "no time at all": {"args": ["sleep", "60"], "timeout": 0, "stdin": subprocess.DEVNULL},
    "bytes in": {"args": ["cat"], "input": b"\xff\0", "capture_output": True},
    "text in": {"args": ["cat"], "input": "ä\n", "stdout": subprocess.PIPE, "text": True, "encoding": "utf-8"},
    "latin": {"args": ["cat"], "input": "ä", "stdout": subprocess.PIPE, "encoding": "latin-1"},
    "utf-16": {"args": ["cat"], "input": "one\ntwo", "stdout": subprocess.PIPE, "encoding": "utf-16"},
    "not this encoding": {"args": ["printf", "\\377"], "stdout": subprocess.PIPE, "encoding": "utf-8"},
    "errors": {"args": ["printf", "a\\377"], "stdout": subprocess.PIPE, "encoding": "utf-8", "errors": "replace"},
    "no such encoding": {"args": ["true"], "stdout": subprocess.PIPE, "encoding": "no-such-encoding"},
    "cannot be encoded": {"args": ["cat"], "input": "ä", "stdout": subprocess.PIPE, "encoding": "ascii"},
    "text without text": {"args": ["cat"], "input": "text", "stdout": subprocess.PIPE},
    "empty input": {"args": ["cat"], "input": b"", "stdout": subprocess.PIPE},
    "input and stdin": {"args": ["cat"], "input": b"", "stdin": subprocess.DEVNULL},
    "capture and stdout": {"args": ["true"], "capture_output": True, "stdout": subprocess.PIPE},
    "capture and stderr": {"args": ["true"], "capture_output": True, "stderr": subprocess.DEVNULL},
    "a closed descriptor": {"args": ["true"], "stdout": 1 << 20},
    "a file without descriptor": {"args": ["true"], "stdout": io.StringIO()},
    "no file": {"args": ["true"], "stdout": object()},
    "no such program": {"args": ["no-such-program"]},
    "not executable": {"args": ["/etc/passwd"]},
    "a directory": {"args": ["/tmp"]},
    "one string": {"args": "true"},
    "one string that is no program": {"args": "echo one two"},
    "a path": {"args": Path("/bin/true")},
    "bytes": {"args": [b"printf", b"%s", "ä", Path("x")], "stdout": subprocess.PIPE},
    "a NUL": {"args": ["echo", "a\0b"]},
    "words of the shell": {"args": ["echo $0 $1", "zero", "one"], "shell": True, "stdout": subprocess.PIPE},
    "another shell": {"args": "echo $BASH", "shell": True, "executable": "/bin/bash", "stdout": subprocess.PIPE},
    "another program": {"args": ["called", "-c", "echo $0"], "executable": "/bin/sh", "stdout": subprocess.PIPE},
    "no such executable": {"args": ["true"], "executable": "/no/such/program"},
    "cwd": {"args": ["pwd"], "cwd": Path("/usr"), "stdout": subprocess.PIPE},
    "no cwd": {"args": ["pwd"], "cwd": "/no/such/directory", "stdout": subprocess.PIPE},
    "a file for cwd": {"args": ["pwd"], "cwd": "/etc/passwd", "stdout": subprocess.PIPE},
    "env": {"args": ["/bin/sh", "-c", "echo $A $B"], "env": {"A": "one", "B": "ä"}, "stdout": subprocess.PIPE},
    "env in bytes": {"args": ["/bin/sh", "-c", "echo $A"], "env": {b"A": b"\xff"}, "stdout": subprocess.PIPE},
    "env of numbers": {"args": ["true"], "env": {"A": 1}},
    "env with =": {"args": ["true"], "env": {"A=": "1"}},
    "bufsize of text": {"args": ["echo"], "bufsize": "x", "stdout": subprocess.PIPE},
    "bufsize": {"args": ["echo"], "bufsize": 0, "stdout": subprocess.PIPE},
    "an unknown keyword": {"args": ["true"], "no_such_keyword": 1},
}  # fmt: skip


def outcome(run: Callable[..., Any], call: dict[str, Any]) -> tuple[Any, ...]:
    try:
        done = run(**call)
    except subprocess.CalledProcessError as error:
        return subprocess.CalledProcessError, error.cmd, error.returncode, error.stdout, error.stderr
    except subprocess.TimeoutExpired as error:
        return subprocess.TimeoutExpired, error.cmd
    except Exception as error:
        # husk's own are subclasses of what subprocess raises.
        return (next(base for base in type(error).__mro__ if not base.__module__.startswith("husk")),)
    return done.args, done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def shared() -> Any:
    state = tempfile.TemporaryDirectory()
    with state as place, pytest.MonkeyPatch.context() as patch:
        os.chmod(place, 0o700)
        patch.setenv("HUSK_STATE", place)
        with husk.Sandbox() as made:
            yield made


@pytest.mark.parametrize("name", CALLS)
def test_the_same_as_subprocess(name: str, shared: husk.Sandbox) -> None:
    native = outcome(subprocess.run, CALLS[name])
    assert outcome(shared.run, CALLS[name]) == native
    if name in ("captured", "check", "no cwd", "env", "disagreeing"):  # the same code behind it
        assert outcome(husk.run, CALLS[name]) == native


def test_files_and_descriptors(shared: husk.Sandbox, tmp_path: Path) -> None:
    for run in (subprocess.run, shared.run, husk.run):
        where = tmp_path / "in"
        where.write_text("given\n")
        with open(where) as source, open(tmp_path / "out", "w+") as target:
            done = run(["sh", "-c", "cat; echo err >&2"], stdin=source, stdout=target.fileno(), stderr=target)
            assert (done.stdout, done.stderr, done.returncode) == (None, None, 0)
            target.seek(0)
            assert target.read() == "given\nerr\n"


def test_only_stderr_can_go_where_stdout_goes(shared: husk.Sandbox) -> None:
    """subprocess of Python 3.11 takes the -2 for a descriptor."""
    with pytest.raises(ValueError, match="stderr"):
        shared.run(["true"], stdout=husk.STDOUT)


def test_bytes_into_text(shared: husk.Sandbox) -> None:
    """AttributeError in subprocess, or TypeError, by the number of pipes."""
    with pytest.raises(TypeError, match="give str"):
        shared.run(["cat"], input=b"data", text=True)


def test_a_timeout_of_communicate_tells_what_there_was(shared: husk.Sandbox) -> None:
    for popen in (subprocess.Popen, shared.popen):
        with popen("echo one; exec sleep 60", shell=True, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and select.select([process.stdout], [], [], 60)[0]
            with pytest.raises(subprocess.TimeoutExpired) as caught:
                process.communicate(timeout=0.05)
            process.kill()
        assert caught.value.stdout == b"one\n"

"""Starts processes for the guest tests, husk above all, and looks what they leave behind.

Every run of husk gets a directory of its own for state and a mark in its environment and its guests'. When it has
ended, no process may carry the mark and nothing may be left in the directory.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from husk.native._core import landlock_abi

MARK = "HUSK_TEST_MARK"
PIPE = subprocess.PIPE
# Options that every `husk run` gets. The fixture `setting` (tests/conftest.py) changes it while a test runs.
OPTIONS = shlex.split(os.environ.get("HUSK_GUEST_OPTIONS", ""))
BARE = "--no-namespaces"
BARE_NEEDS = 6  # Landlock's ABI whose scopes hold signals inside where no namespace does
PATIENCE = 60.0  # seconds for what must happen soon, on a busy machine too: only a fault can take that long
# HUSK_RESIDENT=1 and a runtime directory: the tests run through a resident husk (tests/resident).
INHERITED = ("PYTHONPATH", "PATH", "HUSK_GATE", "HUSK_DIRECT", "HUSK_RESIDENT", "XDG_RUNTIME_DIR")
COMPARED = {"lines": 0, "runs": 0}  # by differential tests, for the summary at the end (tests/conftest.py)


@dataclass
class Result:
    """One run: its exit code as a shell would give it, its outputs, and the tree it left."""

    status: int
    out: str
    err: str
    tree: dict[str, str] = field(default_factory=dict)


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Waits for it; False: it did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def setting() -> str:
    """Where husk is tested: with all the walls the host gives, or bare, as where namespaces are denied."""
    return "bare" if BARE in OPTIONS else "walled"


def bare_stands() -> bool:
    """If not, husk refuses to run without namespaces. (tests/unit/sandbox/test_doctor.py has that refusal.)"""
    return landlock_abi() >= BARE_NEEDS


def need_bare() -> None:
    if not bare_stands():
        has = landlock_abi()
        pytest.skip(f"without namespaces husk needs Landlock ABI {BARE_NEEDS} (Linux 6.12); this kernel has {has}")


def husk_command() -> list[str]:
    override = os.environ.get("HUSK_CMD")
    if override:
        return shlex.split(override)
    command = Path(sys.prefix, "bin", "husk")
    assert command.exists(), f"{command} does not exist: run the tests with `make test`, or set HUSK_CMD"
    return [str(command)]


@contextmanager
def scratch() -> Iterator[Path]:
    """A short-lived directory an unprivileged user can enter (pytest's tmp_path is closed to others)."""
    place = Path(tempfile.mkdtemp(prefix="hg-"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if place.exists():  # a guest may have taken its own permissions away
            subprocess.run(["chmod", "-R", "u+rwx", str(place)], check=False, stderr=subprocess.DEVNULL)
            shutil.rmtree(place)


def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    owner: tuple[int, int] | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> subprocess.Popen[bytes]:
    """Popen in a session of its own, with pipes that belong to `owner`.

    An unprivileged program may open /dev/stdout again only if it owns the pipe behind it. A pipe belongs to the user
    who made it: to root, when root runs the tests.
    """
    given = [stdin, stdout, stderr]
    ours: list[IO[bytes] | None] = [None, None, None]
    theirs = []
    for number, wish in enumerate(given):
        if wish == PIPE:
            read_end, write_end = os.pipe()
            if owner:
                os.fchown(read_end, *owner)
            given[number], mine = (read_end, write_end) if number == 0 else (write_end, read_end)
            theirs.append(given[number])
            ours[number] = os.fdopen(mine, "wb" if number == 0 else "rb", buffering=-1)
    try:
        # A resident husk serves no caller that leads a session; a process group is enough to end it all.
        group = env.get("HUSK_RESIDENT") == "1"
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=given[0], stdout=given[1], stderr=given[2],
            start_new_session=not group, process_group=0 if group else None,
        )  # fmt: skip
    finally:
        for fd in theirs:
            if fd is not None:
                os.close(fd)
    process.stdin, process.stdout, process.stderr = ours
    return process


def finish(process: subprocess.Popen[bytes], what: str, stdin: bytes, timeout: float) -> Result:
    """Feeds and collects a process until it ends; a test that takes too long fails with what it said so far."""
    try:
        out, err = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"{what} did not end within {timeout} s\n{_text(out)}\n{_text(err)}")
    return Result(shell_status(process.returncode), _text(out), _text(err))


@dataclass
class Running:
    """A husk that runs: its process, the only directory it may keep state in, and the mark its guests carry."""

    process: subprocess.Popen[bytes]
    state: Path
    mark: str


@contextmanager
def husk_process(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    wrapper: Sequence[str] = (),
    grace: float = PATIENCE,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Iterator[Running]:
    """husk as a child in a session of its own. At the end nothing of it may be left: no process, no state."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="hs-") as state:
        Path(state).chmod(0o755)
        inherited = {key: value for key, value in os.environ.items() if key in INHERITED}
        own = {"HOME": "/", "HUSK_STATE": state, MARK: mark}
        process = start(
            [*wrapper, *husk_command(), *_with_mark(arguments, mark)],
            env={**inherited, **own, **(env or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        try:
            yield Running(process, Path(state), mark)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
            left = leftovers(mark, grace)
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert not left, f"processes left behind: {left}"
        rest = list(Path(state).iterdir())
        assert process.returncode == -signal.SIGKILL or not rest, f"state left behind: {rest}"


def _with_mark(arguments: Sequence[str], mark: str) -> list[str]:
    """`run` also puts the mark into the guest's environment, so that a stray guest can be found by it."""
    if arguments and arguments[0] == "run":
        return ["run", *OPTIONS, "--env", f"{MARK}={mark}", *arguments[1:]]
    return list(arguments)


def leftovers(mark: str, grace: float) -> dict[int, str]:
    """Processes that carry the mark in their environment and do not go away within the time of grace."""
    deadline = time.monotonic() + grace
    while True:
        found = {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                if mark.encode() in Path("/proc", entry, "environ").read_bytes():
                    command = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry)] = command.decode(errors="replace")
            except OSError:
                continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def husk(
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
    wrapper: Sequence[str] = (),
) -> Result:
    """husk with these arguments, to its end. A wrapper is a command that executes husk in special circumstances."""
    with husk_process(arguments, env=env, wrapper=wrapper, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
        return finish(running.process, f"husk {shlex.join(arguments)}", stdin, timeout)


def shell_status(returncode: int) -> int:
    """Death by signal as shells and husk say it: 128 and the signal's number."""
    return 128 - returncode if returncode < 0 else returncode


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")

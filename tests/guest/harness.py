"""Runs a program natively and in husk on the same prepared tree, and compares everything that can be seen of it.

Both sides run as the same unprivileged user, in a copy of the same tree, with the same environment. Texts given to
`differential` may hold {work} and {guests}: the working directory and the directory of the guest programs, which have
other paths on the two sides. Outputs are compared with those paths replaced.

Environment: HUSK_CMD is the command to test (default: the one installed next to this Python).
HUSK_GUEST_NATIVE=1 runs the native side only, to check the guest programs themselves.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.guest import trees
from tests.guest.accepted import ACCEPTED
from tests.guest.build import guest_programs

NATIVE_ONLY = os.environ.get("HUSK_GUEST_NATIVE") == "1"
WORK = "/workspace"
GUESTS = "/guests"
MARK = "HUSK_TEST_MARK"
BASE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "{work}", "LANG": "C.UTF-8", "TZ": "UTC"}

# What may differ from run to run, by name: a test lists those it needs.
NORMALISERS: Mapping[str, tuple[str, str]] = {
    "pid": (r"\bpid[ =]\d+", "pid N"),
    "job": (r"\[(\d+)\] \d+", r"[\1] N"),
    "time": (r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS"),
    "seconds": (r"\b\d+\.\d+s\b", "N s"),
    "inode": (r"\binode[ =]\d+", "inode N"),
    "address": (r"\b0x[0-9a-f]{6,16}\b", "0xN"),
}


@dataclass
class Result:
    """One run: its exit code as a shell would give it, its outputs, and the tree it left."""

    status: int
    out: str
    err: str
    tree: dict[str, str] = field(default_factory=dict)


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
    grace: float = 1.0,
    **popen: object,
) -> Iterator[Running]:
    """husk as a child in a session of its own. At the end nothing of it may be left: no process, no state."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="hs-") as state:
        Path(state).chmod(0o755)
        inherited = {key: value for key, value in os.environ.items() if key in ("PYTHONPATH", "PATH")}
        own = {"HOME": state, "TMPDIR": state, "XDG_RUNTIME_DIR": state, "XDG_STATE_HOME": state, MARK: mark}
        # A cache may stay; it lies apart, so that what is left in the state directory is left by mistake.
        own["XDG_CACHE_HOME"] = str(guest_programs().parent / "cache")
        process = subprocess.Popen(
            [*wrapper, *husk_command(), *_with_mark(arguments, mark)],
            env={**inherited, **own, **(env or {})},
            start_new_session=True,
            **popen,  # type: ignore[call-overload]
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
                os.kill(pid, signal.SIGKILL)
        assert not left, f"processes left behind: {left}"
        rest = list(Path(state).iterdir())
        assert process.returncode == -signal.SIGKILL or not rest, f"state left behind: {rest}"


def _with_mark(arguments: Sequence[str], mark: str) -> list[str]:
    """`run` also puts the mark into the guest's environment, so that a stray guest can be found by it."""
    if arguments and arguments[0] == "run":
        return ["run", "--env", f"{MARK}={mark}", *arguments[1:]]
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
                    found[int(entry)] = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def husk(
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float = 60,
    env: Mapping[str, str] | None = None,
    wrapper: Sequence[str] = (),
) -> Result:
    """husk with these arguments, to its end. A wrapper is a command that executes husk in special circumstances."""
    pipe = subprocess.PIPE
    with husk_process(arguments, env=env, wrapper=wrapper, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        process = running.process
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"husk {shlex.join(arguments)} did not end within {timeout} s\n{_text(out)}\n{_text(err)}")
    return Result(shell_status(process.returncode), _text(out), _text(err))


def shell_status(returncode: int) -> int:
    """Death by signal as shells and husk say it: 128 and the signal's number."""
    return 128 - returncode if returncode < 0 else returncode


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


@functools.cache
def guest_ids() -> tuple[int, int]:
    """The user the guest runs as: ours, or, when we are root, the one husk chooses. Native runs use the same."""
    if os.getuid() != 0:
        return os.getuid(), os.getgid()
    if NATIVE_ONLY:
        return 65534, 65534
    found = husk(["run", "--", "/bin/sh", "-c", "id -u; id -g"])
    assert found.status == 0, f"husk cannot run `id`: {found.err}"
    uid, gid = map(int, found.out.split())
    assert uid != 0, "started by root, husk runs the guest as root"
    return uid, gid


def native(
    arguments: Sequence[str], work: Path, *, env: Mapping[str, str], stdin: bytes = b"", timeout: float = 60
) -> Result:
    command = list(arguments)
    if os.getuid() == 0:
        uid, gid = guest_ids()
        command = [
            *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--inh-caps=-all", "--"),
            *command,
        ]
    with subprocess.Popen(
        command,
        cwd=work,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"natively {shlex.join(arguments)} did not end within {timeout} s\n{_text(out)}\n{_text(err)}")
    return Result(shell_status(process.returncode), _text(out), _text(err))


def differential(
    arguments: Sequence[str],
    *,
    case: str = "",
    tree: trees.Tree | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    status: int = 0,
    normalise: Iterable[str] = (),
    ignore: Iterable[str] = (),
    mounts: Sequence[str] = (),
    timeout: float = 60,
) -> Result:
    """Runs both sides, fails on any difference, and gives the native result for further questions.

    status is what the native run must end with: two sides that fail alike prove nothing.
    """
    with scratch() as place:
        trees.prepare(place / "native", {"./": "", **(tree or {})})
        shutil.copytree(place / "native", place / "husk", symlinks=True)
        for side in (place / "native", place / "husk"):
            side.chmod(0o755)
            if os.getuid() == 0:
                trees.give_to(side, *guest_ids())
        first = _native_side(arguments, place / "native", env, stdin, normalise, ignore, timeout)
        assert first.status == status, f"natively: exit code {first.status}, not {status}\n{first.out}\n{first.err}"
        if NATIVE_ONLY:
            return first
        second = _husk_side(arguments, place / "husk", env, stdin, normalise, ignore, mounts, timeout)
    problems = []
    if first.status != second.status:
        problems.append(f"exit code: natively {first.status}, in husk {second.status}")
    problems += compare_lines(case, first, second)
    problems += trees.difference(first.tree, second.tree)
    if problems:
        again = shlex.join([*husk_command(), "run", "--mount", f"{guest_programs()}:{GUESTS}:ro", "--", *_place(arguments, WORK, GUESTS)])
        pytest.fail("\n".join([f"natively and in husk differ ({case or arguments[0]}):", *problems, f"again: {again}"]))
    return first


def _place(texts: Iterable[str], work: str, guests: str) -> list[str]:
    return [text.replace("{work}", work).replace("{guests}", guests) for text in texts]


def _environment(env: Mapping[str, str] | None, work: str, guests: str) -> dict[str, str]:
    both = {**BASE_ENV, **(env or {})}
    return dict(zip(both, _place(both.values(), work, guests), strict=True))


def _native_side(
    arguments: Sequence[str],
    work: Path,
    env: Mapping[str, str] | None,
    stdin: bytes,
    normalise: Iterable[str],
    ignore: Iterable[str],
    timeout: float,
) -> Result:
    guests = str(guest_programs())
    environment = {**_environment(env, str(work), guests), MARK: "native"}
    result = native(_place(arguments, str(work), guests), work, env=environment, stdin=stdin, timeout=timeout)
    result.out, result.err = (clean(text, str(work), guests, normalise) for text in (result.out, result.err))
    result.tree = trees.snapshot(work, str(work), ignore)
    return result


def _husk_side(
    arguments: Sequence[str],
    work: Path,
    env: Mapping[str, str] | None,
    stdin: bytes,
    normalise: Iterable[str],
    ignore: Iterable[str],
    mounts: Sequence[str],
    timeout: float,
) -> Result:
    options = ["--mount", f"{work}:{WORK}:rw", "--mount", f"{guest_programs()}:{GUESTS}:ro", "--workdir", WORK]
    for mount in mounts:
        options += ["--mount", mount]
    for key, value in _environment(env, WORK, GUESTS).items():
        options += ["--env", f"{key}={value}"]
    result = husk(["run", *options, "--", *_place(arguments, WORK, GUESTS)], stdin=stdin, timeout=timeout)
    result.out, result.err = (clean(text, WORK, GUESTS, normalise) for text in (result.out, result.err))
    result.tree = trees.snapshot(work, WORK, ignore)
    return result


def clean(text: str, work: str, guests: str, normalise: Iterable[str]) -> str:
    text = text.replace(work, "{work}").replace(guests, "{guests}")
    for name in normalise:
        pattern, replacement = NORMALISERS[name]
        text = re.sub(pattern, replacement, text)
    return text


def compare_lines(case: str, first: Result, second: Result) -> list[str]:
    """Differences line by line, without those accepted.py lists for this case; an unused entry is one, too."""
    entries = [entry for entry in ACCEPTED if entry.case == case]
    used = set()
    problems = []
    for name, left, right in (("stdout", first.out, second.out), ("stderr", first.err, second.err)):
        before, after = left.split("\n"), right.split("\n")
        if len(before) == len(after):
            for index, (mine, other) in enumerate(zip(before, after, strict=True)):
                for entry in entries:
                    if mine != other and re.fullmatch(entry.native, mine) and re.fullmatch(entry.husk, other):
                        used.add(entry)
                        after[index] = mine
        problems += difflib.unified_diff(before, after, f"{name} natively", f"{name} in husk", "", "", 2, lineterm="")
    problems += [f"accepted difference has vanished, remove it: {entry}" for entry in entries if entry not in used]
    return problems

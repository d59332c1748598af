"""compat/compare: run a command under a prefix, in a directory of its own, and keep what it did.

Everything is bounded: time, what is kept of each output, how many files are looked at. Every run sees the same path as
its working directory, so that a program which prints it does not differ for that.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

from husk.compat.prefixes import Shown, show_paths
from husk.sandbox.errors import UsageError

MOST_OUTPUT = 4 << 20  # bytes kept of each output
MOST_FILES = 5000
MOST_CONTENT = 1 << 20  # bytes kept of a file; larger ones are compared by their hash
MOST_HASHED = 1 << 30  # bytes hashed in a run; beyond them sizes are compared
GRACE = 0.5  # seconds in which what the program left behind may still write
TIMED_OUT = "ended by the time limit"


@dataclass(frozen=True)
class FileState:
    """A file below the working directory after the run. `content` is None where only the digest is known."""

    kind: str
    mode: int
    size: int
    digest: str
    content: bytes | None


@dataclass
class Outcome:
    """What a run did. `status` is in words: "exit code 3", "SIGSEGV"."""

    status: str
    stdout: bytes
    stderr: bytes
    files: dict[str, FileState] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)  # what was too much to keep
    seconds: float = 0.0


def show_directory(words: Sequence[str], place: str) -> list[str]:
    """The prefix, with what its sandbox needs to work in `place`: `{}` stands for it, and for sandboxes that husk knows
    the options are added."""
    if any("{}" in word for word in words):
        return [word.replace("{}", place) for word in words]
    return show_paths("--under", words, Shown(writable=(place,), workdir=place))


def run_under(prefix: Sequence[str], command: Sequence[str], place: str, seconds: float) -> Outcome:
    """Run the command once. `place` is made anew, and gone afterwards."""
    words = [*show_directory(prefix, place), *command]
    _remove(place)
    os.mkdir(place, 0o755)
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            words,
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        _remove(place)
        raise UsageError(f"{words[0]!r} cannot be started: {reason}; is it installed?") from None
    assert process.stdout and process.stderr
    out, err = kept = (_Kept(process.stdout), _Kept(process.stderr))
    try:
        try:
            process.wait(timeout=seconds)
            status = _status(process.returncode)
        except subprocess.TimeoutExpired:
            status = TIMED_OUT
        for one in kept:
            one.wait(GRACE if status != TIMED_OUT else 0)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for one in kept:
        one.wait(GRACE)
    files, cut = read_files(place)
    cut += [f"{name} beyond {MOST_OUTPUT} bytes" for name, one in (("stdout", out), ("stderr", err)) if one.more]
    _remove(place)
    return Outcome(status, out.content(), err.content(), files, cut, time.monotonic() - began)


def _status(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _remove(place: str) -> None:
    """A program may leave directories without permissions behind."""
    if not os.path.lexists(place):
        return
    for folder, names, _ in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(place, ignore_errors=True)


class _Kept:
    """Reads an output to its end in a thread, and keeps the beginning."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._parts, self._size, self.more = pipe, list[bytes](), 0, False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self._pipe.fileno(), 1 << 16):
                room = MOST_OUTPUT - self._size
                self.more = self.more or len(part) > room
                if room > 0:
                    self._parts.append(part[:room])
                    self._size += len(self._parts[-1])
            self._pipe.close()

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def content(self) -> bytes:
        return b"".join(list(self._parts))


# -- files -------------------------------------------------------------------------------------------------------------
def read_files(place: str) -> tuple[dict[str, FileState], list[str]]:
    """What lies below a directory, and what was left out because it is too much."""
    found: dict[str, FileState] = {}
    budget = MOST_HASHED
    for name in _walk(place):
        if len(found) == MOST_FILES:
            return found, [f"files beyond the first {MOST_FILES}"]
        state, hashed = _state(os.path.join(place, name), budget)
        budget -= hashed
        if state:
            found[name] = state
    return found, [] if budget > 0 else [f"contents beyond {MOST_HASHED} bytes"]


def _walk(place: str) -> Iterator[str]:
    for folder, names, files in os.walk(place):
        names.sort()
        for name in sorted([*names, *files]):
            yield os.path.relpath(os.path.join(folder, name), place)


def _state(path: str, budget: int) -> tuple[FileState | None, int]:
    try:
        info = os.lstat(path)
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISLNK(info.st_mode):
            target = os.fsencode(os.readlink(path))
            return FileState("link", 0, len(target), "", target), 0
        if not stat.S_ISREG(info.st_mode):
            kind = "directory" if stat.S_ISDIR(info.st_mode) else "special file"
            return FileState(kind, mode, 0, "", b""), 0
        if info.st_size > budget:
            return FileState("file", mode, info.st_size, "", None), 0
        digest, content = _content(path, info.st_size)
        return FileState("file", mode, info.st_size, digest, content), info.st_size
    except OSError:
        return None, 0


def _content(path: str, size: int) -> tuple[str, bytes | None]:
    digest, kept = hashlib.blake2b(digest_size=16), b""
    with open(path, "rb") as file:
        left = size  # it may still grow
        while left > 0 and (part := file.read(min(left, 1 << 20))):
            digest.update(part)
            left -= len(part)
            if size <= MOST_CONTENT:
                kept += part
    return digest.hexdigest(), kept if size <= MOST_CONTENT else None

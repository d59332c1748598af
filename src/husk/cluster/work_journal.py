"""cluster: a journal of work: what has ended so far, so that work that was killed can go on.

A file of JSON lines. The first one says what the work is; then there is a line for each piece that ended. Lines are
only ever added. A line that was cut, by a kill or a full disk, is dropped: its piece is done again.

Not here: what a line says. That is the business of whoever brings the work.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from husk.sandbox.errors import HuskError

SYNC_EVERY = 1.0  # seconds of work that a power failure may cost
PATIENCE = 5  # seconds to wait for room: work that filled the disk gives it back when it ends
_MOST_HEADER = 1 << 20


class WorkJournal:
    """Open for adding, and locked: two processes never write one journal. `lines` are those of earlier attempts."""

    def __init__(self, path: Path, number: int, header: dict[str, Any] | None = None) -> None:
        """A new one with this header; without, an existing one is gone on with. `number` is its format."""
        self.path = path
        self._synced = time.monotonic()
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if header is not None else 0)
        self._fd = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise HuskError(f"{path.parent}: another husk is running it.") from None
        self.lines: list[dict[str, Any]] = []
        if header is not None:
            self.header = header
            self._size = 0
            self.append({"format": number, **header})
        else:
            self._load(number)
            os.ftruncate(self._fd, self._size)

    def append(self, line: dict[str, Any]) -> None:
        content = json.dumps(line).encode() + b"\n"
        for attempt in range(PATIENCE + 1):
            try:
                written = 0
                while written < len(content):
                    written += os.write(self._fd, content[written:])
                self._size += len(content)
                break
            except OSError as error:
                os.ftruncate(self._fd, self._size)  # nothing but whole lines stays
                if attempt == PATIENCE:
                    raise HuskError(
                        f"{self.path}: {error.strerror}; what is recorded stays: make room, and run the same with"
                        " --resume."
                    ) from None
                time.sleep(1)
        if time.monotonic() - self._synced > SYNC_EVERY:
            self.sync()

    def sync(self) -> None:
        os.fsync(self._fd)
        self._synced = time.monotonic()

    def close(self) -> None:
        try:
            self.sync()
        finally:
            os.close(self._fd)

    def _load(self, number: int) -> None:
        with open(self._fd, "rb", closefd=False) as file:
            lines = list(_whole_lines(file.read()))
        if not lines or lines[0][0].get("format") != number:
            os.close(self._fd)
            raise HuskError(f"{self.path}: not the journal of a run; remove it.")
        self.header, self._size = lines[0][0], lines[-1][1]
        self.lines = [line for line, _ in lines[1:]]


def read_header(path: Path, number: int) -> dict[str, Any] | None:
    """What a journal is about; None: there is none, or not one of ours."""
    try:
        with open(path, "rb") as file:
            header = json.loads(file.readline(_MOST_HEADER))
    except (OSError, ValueError):
        return None
    return header if isinstance(header, dict) and header.get("format") == number else None


def _whole_lines(content: bytes) -> Iterator[tuple[dict[str, Any], int]]:
    """Each line with where it ends, up to the first that is damaged."""
    end = 0
    for line in content.splitlines(keepends=True):
        try:
            document = json.loads(line)
        except ValueError:
            return
        if not line.endswith(b"\n") or not isinstance(document, dict):
            return
        end += len(line)
        yield document, end

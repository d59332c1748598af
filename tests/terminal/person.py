"""A person at a terminal: types, waits for what appears, drags the window. Waits for text, never for time."""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time

from tests.lib.running import PATIENCE


class Person:
    """Runs `command` in a session of its own, on a pseudo-terminal whose master is the person's eyes and hands."""

    def __init__(self, command: list[str], *, env: dict[str, str] | None = None) -> None:
        self.master, slave = os.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **(env or {})},
        )
        self.slave = slave  # kept, so that the terminal's modes can be looked at when the program is gone
        self.seen = ""  # all that ever appeared
        # A letter of several bytes may come in two pieces.
        self._letters = codecs.getincrementaldecoder("utf-8")("replace")
        self._read_to = 0

    def type(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self.master, data) :]

    def expect(self, pattern: str) -> re.Match[str]:
        """Wait until `pattern` appears in what was not yet looked at."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = re.compile(pattern, re.S).search(self.seen, self._read_to)
            if found:
                self._read_to = found.end()
                return found
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{pattern!r} not in {self.seen[self._read_to :]!r}; all: {self.seen!r}")

    def _read(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self.master], [], [], min(seconds, 0.2))[0]:
            # Nothing to read: over, or patience is left.
            return seconds > 0 and (self.process.poll() is None or bool(select.select([self.master], [], [], 0)[0]))
        self._look()
        return True

    def _look(self) -> None:
        self.seen += self._letters.decode(os.read(self.master, 65536))

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.slave)

    def wait(self) -> int:
        """The exit code; what appears meanwhile is kept."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running after {self.seen!r}"
            self._read(0.05)
        while select.select([self.master], [], [], 0)[0]:
            self._look()
        return self.process.returncode

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGHUP)  # the window is closed
            self.wait()
        os.close(self.slave)
        os.close(self.master)

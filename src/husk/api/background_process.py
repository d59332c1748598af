"""api: a program that runs on in a box while the application does something else: what it wrote so far, the ports that
lead to it, and its end. What `husk run -d`, `logs` and `stop` are on the command line.

A thread of its own reads what the program writes, so that the program never waits for the application. Only the end of
it is kept: a server may write for weeks.
"""

from __future__ import annotations

import os
import signal as signals
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from husk.sandbox.errors import HuskError
from husk.sandbox.stdio.capture import ROOM

if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.api.options import Command
    from husk.api.process import Process
    from husk.api.run_result import Result

KEPT = 4 << 20  # bytes of output, by default
PATIENCE = 10.0  # seconds between SIGTERM and the end, as for `husk stop`
MOMENT = 0.3  # seconds in which a port that leads nowhere hangs up
PAUSE = 0.05  # seconds between two looks at a port


@dataclass(frozen=True)
class Port:
    """A port of the host that leads to the port `guest` of a box. `host` is its address, as "127.0.0.1:32987"."""

    host: str
    guest: int

    @property
    def address(self) -> tuple[str, int]:
        """The same for socket.create_connection."""
        name, _, number = self.host.rpartition(":")
        return name.strip("[]"), int(number)

    def answers(self) -> bool:
        """Does a server in the box answer there? Found out by connecting, which takes up to a third of a second. husk
        accepts every caller, and hangs up at once where no server listens in the box; a server keeps the connection
        open, at least for a moment."""
        try:
            with socket.create_connection(self.address, MOMENT) as one:
                try:
                    return bool(one.recv(1))
                except TimeoutError:
                    return True
        except OSError:
            return False


@dataclass(frozen=True)
class Logs:
    """A part of what a program wrote. `next` is where the part after it begins: give it to `logs` to go on from there.
    `lost` bytes before `data` are no longer kept."""

    data: bytes
    next: int
    lost: int = 0

    @property
    def text(self) -> str:
        """`data` as text. Bytes that are not UTF-8 are replaced."""
        return self.data.decode("utf-8", "replace")


class BackgroundProcess:
    """What `Sandbox.start` gives: a program that runs on. Standard output and standard error are one stream, as on a
    terminal. It ends with `stop`, with the `with` block, or with its box."""

    def __init__(self, process: Process, ports: Callable[[], list[Port]], *, kept: int = KEPT) -> None:
        self._process, self._ports, self._room = process, ports, kept
        self._lock = threading.Lock()
        self._kept = bytearray()
        self._dropped = 0
        self._reader = threading.Thread(target=self._read, name=f"husk-output-{process.pid}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with stream:
            while piece := os.read(stream.fileno(), ROOM):
                with self._lock:
                    self._kept += piece
                    # Not at each piece: moving what is kept to the front costs as much as there is.
                    if len(self._kept) > 2 * self._room:
                        self._drop()

    def _drop(self) -> None:
        beyond = max(0, len(self._kept) - self._room)
        del self._kept[:beyond]
        self._dropped += beyond

    # -- what it is ------------------------------------------------------------------------------------------------
    @property
    def args(self) -> Command:
        """What was started, as it was given."""
        return self._process.args

    @property
    def argv(self) -> list[str]:
        """What was started, as a list."""
        return self._process.argv

    @property
    def pid(self) -> int:
        """Of the program, on the host."""
        return self._process.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        """Its standard input, if it was started with stdin=PIPE."""
        return self._process.stdin

    @property
    def ports(self) -> list[Port]:
        """The ports of the host that lead into the box (`publish`)."""
        return self._ports()

    # -- looking ---------------------------------------------------------------------------------------------------
    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.returncode

    def poll(self) -> int | None:
        """The return code, or None while it runs."""
        return self._process.poll()

    def logs(self, since: int = 0) -> Logs:
        """What it wrote from byte `since` on, as far as it is kept."""
        with self._lock:
            self._drop()
            begin = max(since, self._dropped)
            data = bytes(self._kept[begin - self._dropped :])
            return Logs(data, max(begin, self._dropped + len(self._kept)), max(0, self._dropped - since))

    def wait_ready(self, timeout: float | None = None) -> None:
        """Until a server answers at every published port. subprocess.TimeoutExpired: it did not in `timeout` seconds.
        HuskError: the program ended before."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not all(port.answers() for port in self.ports):
            if self.poll() is not None:
                raise HuskError(f"the program ended before it answered: {self.result().explain()}")
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0, self.logs().data)
            time.sleep(PAUSE)

    # -- ending ----------------------------------------------------------------------------------------------------
    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; the return code. subprocess.TimeoutExpired leaves it running."""
        return self.result(timeout).returncode

    def result(self, timeout: float | None = None) -> Result:
        """Until it has ended, and then everything that is known about it; `stdout` has the output that is kept."""
        result = self._process.result(timeout)
        self._close_stdin()
        self._reader.join()
        logs = self.logs()
        result.stdout = logs.data
        if logs.lost:
            result.lost["stdout"] = logs.lost
        return result

    def _close_stdin(self) -> None:
        try:
            if self.stdin is not None:
                self.stdin.close()
        except BrokenPipeError:
            pass  # what was still buffered

    def send_signal(self, number: int) -> None:
        """Send a signal to the program. Nothing happens if it has ended."""
        self._process.send_signal(number)

    def stop(self, timeout: float = PATIENCE) -> Result:
        """SIGTERM, and after `timeout` seconds the end, for all that the program has started."""
        if self.poll() is None:
            self.send_signal(signals.SIGTERM)
            try:
                return self.result(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.result()

    def kill(self) -> None:
        """End it at once, with all that it has started."""
        self._process.kill()

    def __enter__(self) -> BackgroundProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.returncode is None else f"ended with {self.returncode}"
        return f"<husk.BackgroundProcess {self.args!r}, {state}>"


__all__ = ["BackgroundProcess", "Logs", "Port"]

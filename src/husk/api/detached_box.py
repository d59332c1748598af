"""api: a box that `husk run -d` started, looked at from Python: its ports, what it wrote, its end. It belongs to a husk
of its own, so nothing here ends with the application. Not here: programs that end with it (background_process)."""

from __future__ import annotations

import os
import subprocess
import time

from husk.api.background_process import PATIENCE, PAUSE, Logs, Port
from husk.api.run_result import speaking_python
from husk.sandbox.kept.control import call
from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.operations import list_boxes
from husk.sandbox.kept.output_log import NAME, OLDER


class DetachedBox:
    """The box of that name, which runs in the background or did. UsageError: there is none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._kept = KeptBoxes()
        with speaking_python():
            if not self.running:
                self._kept.get(name)

    @property
    def running(self) -> bool:
        """Does its program still run?"""
        return self._kept.is_running(self.name)

    @property
    def ports(self) -> list[Port]:
        """The ports of the host that lead into it, while it runs."""
        running = list_boxes(self._kept, including_stopped=False)
        return [Port(*port) for row in running if row["name"] == self.name for port in row["ports"]]

    def poll(self) -> int | None:
        """Its exit code as a shell has it, 128 + n where signal n ended it; None while it runs."""
        if self.running:
            return None
        with speaking_python():
            return self._kept.get(self.name).exit_code

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; the exit code. subprocess.TimeoutExpired leaves it running."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(f"the box {self.name}", timeout or 0)
            time.sleep(PAUSE)
        return code

    def logs(self) -> Logs:
        """What its program wrote, standard output and error together: the last 32 to 64 MiB."""
        found = b""
        for name in (OLDER, NAME):
            try:
                with open(os.path.join(self._kept.path(self.name), name), "rb") as file:
                    found += file.read()
            except FileNotFoundError:
                pass
        return Logs(found, len(found))

    def stop(self, timeout: float = PATIENCE) -> int:
        """SIGTERM, and after `timeout` seconds the end; the exit code."""
        if self.running:
            with speaking_python():
                connection = call(self._kept.path(self.name), self.name)
                try:
                    connection.send({"do": "stop", "seconds": timeout})
                    answer, _ = connection.receive()
                finally:
                    connection.close()
            if answer is not None:
                return int(answer["code"])
        return self.wait()

    def __repr__(self) -> str:
        return f"<husk.DetachedBox {self.name!r}, {'running' if self.running else 'ended'}>"


__all__ = ["DetachedBox"]

"""conform/execute: workers run units, several at once: threads of this process, or the workers of a cluster."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Protocol

from husk.conform.execute.one_unit import Stopped, Stopping, run_unit

if TYPE_CHECKING:
    from husk.conform.execute.where import Where
    from husk.conform.units import Ended, Unit


class Workers(Protocol):
    def submit(self, unit: Unit) -> None:
        """Take a unit, and run it when there is room. It is called for all units at the beginning, and later for the
        rest of units whose process ended early."""

    def next_ended(self, seconds: float) -> tuple[Unit, Ended | None] | None:
        """A unit that has ended, in any order; None: none did within `seconds`. Instead of what it left behind there is
        None where the unit was lost for good: its cases are then missing, and the run is not whole."""

    def running(self) -> list[tuple[Unit, float]]:
        """What runs now, with the seconds that each runs already, for progress; may be empty."""

    def close(self) -> None:
        """End what still runs, and wait for it. No unit is given out afterwards."""


class LocalWorkers:
    """Threads, each of which waits for one process at a time."""

    def __init__(self, where: Where, jobs: int) -> None:
        self._where, self._stopping = where, Stopping()
        self._waiting: queue.SimpleQueue[Unit | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[Unit, Ended] | Exception] = queue.SimpleQueue()
        self._running: dict[int, tuple[Unit, float]] = {}
        self._threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(jobs)]
        for thread in self._threads:
            thread.start()

    def submit(self, unit: Unit) -> None:
        self._waiting.put(unit)

    def next_ended(self, seconds: float) -> tuple[Unit, Ended | None] | None:
        try:
            ended = self._ended.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(ended, Exception):
            raise ended
        return ended

    def running(self) -> list[tuple[Unit, float]]:
        now = time.monotonic()
        return [(unit, now - began) for unit, began in list(self._running.values())]

    def close(self) -> None:
        self._stopping.stop()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        while (unit := self._waiting.get()) is not None and not self._stopping.stopped:
            self._running[number] = (unit, time.monotonic())
            try:
                self._ended.put((unit, run_unit(unit, self._where, self._stopping)))
            except Stopped:
                return
            except Exception as error:  # the thread that asks for results raises it
                self._ended.put(error)
            finally:
                del self._running[number]

"""cluster: work done by threads of this process."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from husk.cluster.trees import Tree
from husk.cluster.work import Answers, Stop, Work
from husk.sandbox.errors import HuskError


class LocalWorkers:
    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def stream(self, work: Work, items: Iterable[Any]) -> Answers:
        stop = Stop()
        left = enumerate(items)
        running: dict[Future[bytes], int] = {}
        with ThreadPoolExecutor(self._jobs, thread_name_prefix="husk-work") as threads:
            try:
                while True:
                    while len(running) < self._jobs and (following := next(left, None)) is not None:
                        running[threads.submit(work, following[1], stop)] = following[0]
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        number = running.pop(future)
                        yield number, _answer(future)
            finally:
                stop.ask()
                for future in running:
                    future.cancel()

    def carry(self, path: Path) -> Tree:
        return Tree(path)

    def close(self) -> None:
        pass


def _answer(future: Future[bytes]) -> bytes | HuskError:
    try:
        return future.result()
    except HuskError as error:
        return error

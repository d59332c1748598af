"""cluster: what workers are given and what comes back: the words that here and elsewhere share.

A piece of *work* is a function of husk's, named by its module, that takes one item and answers with bytes. The item is
made by whoever asked and may be anything that can be pickled. The answer may hold what an untrusted guest wrote: so it
is bytes, made with JSON, and never a pickle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from husk.cluster.trees import Tree
from husk.sandbox.errors import HuskError


class Stop:
    """Tells work that nobody waits for its answer any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._calls: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        return self._asked

    def ask(self) -> None:
        with self._lock:
            self._asked = True
            calls, self._calls = self._calls, []
        for call in calls:
            call()

    @contextmanager
    def calls(self, end: Callable[[], None]) -> Iterator[None]:
        """While the `with` lasts: `end` is called, in another thread, when the work is to stop."""
        with self._lock:
            asked = self._asked
            if not asked:
                self._calls.append(end)
        if asked:
            end()
        try:
            yield
        finally:
            with self._lock:
                if end in self._calls:
                    self._calls.remove(end)


Work = Callable[[Any, Stop], bytes]
Answers = Generator[tuple[int, "bytes | HuskError"], None, None]


class Stopped(HuskError):
    """The work was broken off because nobody waits for it."""


class LostWork(HuskError):
    """Workers died each time they did this piece of work, so it has no answer."""


class Workers(Protocol):
    """Something that does work: this process's threads, or a cluster."""

    def stream(self, work: Work, items: Iterable[Any]) -> Answers:
        """What became of each item, with its number, as it ends. HuskError: the work raised it, or it is LostWork.
        Items are asked for as there is room. Closing the iterator ends what is still running."""

    def carry(self, path: Path) -> Tree:
        """A file or directory for items to name: workers that do not have it, or have another one, are sent it."""

    def close(self) -> None: ...

"""api: boxes kept ready. Each has its namespaces, filter and listener, and a guest that waits behind all walls for its
command. So a start costs no more than telling the guest what to run.

A box is used once and then closed: a command must not find what another one left. One thread makes and closes boxes, so
that callers of `run` wait for neither.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Unpack

from husk.api import at_exit as living
from husk.api.options import mounts_of
from husk.api.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.api.options import BoxOptions, Command, RunOptions
    from husk.api.run_result import Result

LOOK = 1.0  # seconds between two looks at boxes that wait
GRACE = 0.02  # after a box was taken: making the next one takes the processor its command needs to start


class Pool:
    """`size` boxes, made with the arguments of Sandbox, ready to run something at once.

    Before a box counts as ready it has run `warm` once (nothing, if None), so that what programs look up at their start
    is known already. Give the interpreter you are going to use: ["python3", "-c", "pass"]."""

    def __init__(
        self, size: int, image: str = "", *, warm: Command | None = ("true",), **options: Unpack[BoxOptions]
    ) -> None:
        if size < 1:
            raise ValueError("a pool holds at least one box")
        self.size = size
        # Links in their paths are followed now: a guest of one box might put others there for the next.
        options["mounts"] = mounts_of(options.get("mounts", ()))
        self._image, self._options, self._warm = image, options, warm
        self._ready: deque[Sandbox] = deque()
        self._used: deque[Sandbox] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._taken = 0.0  # when a box was last taken
        self._failure: BaseException | None = None
        self._ready.append(self._made())  # here, so that a mistake in the arguments is told at once
        self._keeper = threading.Thread(target=self._keep, name="husk-pool", daemon=True)
        self._keeper.start()
        living.born(self)

    def _made(self) -> Sandbox:
        box = Sandbox(self._image, **self._options)
        try:
            if self._warm is not None:
                box.warm_up(self._warm)
        except BaseException:
            box.close()
            raise
        return box

    # -- using it ----------------------------------------------------------------------------------------------
    def run(self, args: Command, **options: Unpack[RunOptions]) -> Result:
        """Sandbox.run in a fresh box."""
        with self.box() as box:
            return box.run(args, **options)

    @contextmanager
    def box(self) -> Iterator[Sandbox]:
        """A fresh box for as long as the `with` lasts."""
        box = self.take()
        try:
            yield box
        finally:
            self._give_back(box)

    def take(self) -> Sandbox:
        """A fresh box, which is the caller's to close. When none is ready one is made now."""
        with self._change:
            self._must_be_open()
            while self._ready:
                box = self._ready.popleft()
                self._taken = time.monotonic()
                self._change.notify_all()
                if box.ready:
                    return box
                self._used.append(box)  # it died while it waited
        return self._made()

    def _give_back(self, box: Sandbox) -> None:
        self._add(box, self._used)

    @property
    def ready(self) -> int:
        """How many boxes wait."""
        return len(self._ready)

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Until all boxes are ready; False after `timeout` seconds. HuskError: they cannot be made."""
        with self._change:
            self._change.wait_for(lambda: len(self._ready) >= self.size or self._failure or self._closed, timeout)
            if self._failure is not None:
                raise self._failure
            return len(self._ready) >= self.size

    def _must_be_open(self) -> None:
        if self._closed:
            raise ValueError("the pool is closed")

    # -- keeping it full ---------------------------------------------------------------------------------------
    def _keep(self) -> None:
        while True:
            with self._change:
                if self._closed:
                    return
                work = bool(self._used) or len(self._ready) < self.size
                if not work or self._failure is not None:
                    self._change.wait(LOOK)
                    self._failure = None  # whatever it was may have passed
                used = list(self._used)
                self._used.clear()
                for box in [box for box in self._ready if not box.ready]:
                    self._ready.remove(box)
                    used.append(box)
                if (grace := self._taken + GRACE - time.monotonic()) > 0:
                    self._change.wait_for(lambda: self._closed, grace)
                lacking = len(self._ready) < self.size and not self._closed
            if lacking:
                self._make_one()  # not kept if the pool was closed meanwhile
            for box in used:
                box.close()

    def _make_one(self) -> None:
        try:
            box = self._made()
        except BaseException as failure:
            with self._change:
                self._failure = failure
                self._change.notify_all()
            return
        self._add(box, self._ready)

    def _add(self, box: Sandbox, boxes: deque[Sandbox]) -> None:
        """Close the box instead where the pool was closed."""
        with self._change:
            if not self._closed:
                boxes.append(box)
                self._change.notify_all()
                return
        box.close()

    # -- life --------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Boxes in use are ended too when they are given back. Safe to call twice."""
        with self._change:
            if self._closed:
                return
            self._closed = True
            boxes = [*self._ready, *self._used]
            self._ready.clear()
            self._used.clear()
            self._change.notify_all()
        living.gone(self)
        self._keeper.join()
        for box in boxes:
            box.close()

    def forget(self) -> None:
        """In a forked child; the boxes forget themselves."""
        self._closed = True
        self._change = threading.Condition()
        self._ready.clear()
        self._used.clear()

    def __repr__(self) -> str:
        return f"<husk.Pool, {'closed' if self._closed else f'{self.ready} of {self.size} boxes are ready'}>"

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["Pool"]

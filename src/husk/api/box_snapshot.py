"""api: the state of a box's files, for as long as the application holds it: to go back to it, or to open several boxes
from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.api import at_exit as living
from husk.api.options import box_name, ports_of
from husk.api.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.api.sandbox import Sandbox


class Snapshot:
    """What `Sandbox.snapshot` gives. Any number of boxes can be opened from it, even after the first is closed. It
    holds files only: no processes, and nothing that lies on an `rw` mount."""

    def __init__(self, runs: Runs, opened: Callable[[Runs], Sandbox]) -> None:
        """`opened` makes the public face of a new box."""
        with runs.lock:
            # A fork without the hooks would be a way around them.
            self._hooks = runs.hooks.copy()
            self._policy, self._events, self._opened = runs.policy.again(), runs.keeps_events, opened
            self._files = runs.snapshot()
        self._closed = False
        living.born(self)

    def open(self, *, keep: str = "", publish: Iterable[str] = ()) -> Sandbox:
        """A box that begins with these files, and with the mounts, network, limits and hooks of the box they are from,
        but not with its name or published ports. `keep`: a name to keep the new box under."""
        if self._closed:
            raise ValueError("the snapshot is closed")
        policy = self._policy.again()
        policy.keep, policy.publish = box_name(keep), ports_of(publish)
        return self._opened(Runs(policy, self._hooks.copy(), events=self._events, start=self._files))

    def close(self) -> None:
        """Boxes that were opened from it stay. Safe to call twice."""
        if not self._closed:
            self._closed = True
            living.gone(self)
            self._files.close()

    def forget(self) -> None:
        """In a forked child. Called by husk itself."""
        self._closed = True
        self._files.forget()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<husk.Snapshot of a box of {self._policy.image or 'the host'}, {state}>"

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


__all__ = ["Snapshot"]

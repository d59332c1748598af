"""vfs: listeners that are called before something changes that a guest could have looked up. One list per box, shared
by all its trees.

The name caches of the box's runs subscribe. No change is recorded here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.node import Dir

    Listener = Callable[[Dir, bool, bool], None]


class Invalidation:
    """All methods are called under the vfs's lock."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    def subscribe(self, listener: Listener) -> None:
        self._listeners = (*self._listeners, listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners = tuple(other for other in self._listeners if other != listener)

    def announce(self, directory: Dir, structural: bool, removed: bool = False) -> None:
        """Names or metadata in `directory` are about to change. `structural`: so may what paths through it lead to.
        `removed`: it is empty, and about to be removed. No path leads through it then, so unless `structural` is set
        only what is remembered of it and of names that it lacks is concerned."""
        for listener in self._listeners:
            listener(directory, structural, removed)

"""vfs: who has a part in the box's changes. Listeners that are called before something changes that a guest could have
looked up, and the vfs's lock with its partner. One of each per box, shared by all its trees.

The name caches of the box's runs subscribe. No change is recorded here.
"""

from __future__ import annotations

from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from husk.vfs.node import Dir

    Listener = Callable[[Dir, bool], None]

    class Partner(Protocol):
        """Changes the trees, too, but only while no thread has the lock."""

        def begin(self) -> None: ...
        def end(self) -> None: ...


class VfsLock(RLock):  # type: ignore[misc]  # final in typeshed only
    """Whoever looks at the box's trees, or changes them, holds it.

    The partner hears of it when a thread takes the lock, and when it gives the lock back: between the two it changes
    nothing, and what it changed before has been entered."""

    def __init__(self) -> None:
        self.partner: Partner | None = None
        self._depth = 0

    def __enter__(self) -> bool:  # type: ignore[override]  # in typeshed it is `acquire`
        self.acquire()
        if not self._depth and self.partner is not None:
            try:
                self.partner.begin()
            except BaseException:
                self.release()
                raise
        self._depth += 1
        return True

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        try:
            if not self._depth and self.partner is not None:
                self.partner.end()
        finally:
            self.release()

    def after_fork(self) -> None:
        """In the child: another thread of the parent may have held it. Only this thread is left, and no partner."""
        self._at_fork_reinit()  # type: ignore[attr-defined]  # not in typeshed
        self.partner, self._depth = None, 0


class Invalidation:
    """All methods are called under the vfs's lock."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    def subscribe(self, listener: Listener) -> None:
        self._listeners = (*self._listeners, listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners = tuple(other for other in self._listeners if other != listener)

    def announce(self, directory: Dir, structural: bool) -> None:
        """Names or metadata in `directory` are about to change. `structural`: so may what paths through it lead to."""
        for listener in self._listeners:
            listener(directory, structural)

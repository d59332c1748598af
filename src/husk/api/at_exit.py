"""api: the boxes that are open in this process: none outlives the process, and no forked child harms one.

At exit all open boxes are closed. After a fork the child forgets them: they are the parent's. The child only closes its
copies of the descriptors, so that the boxes end with the parent even while the child lives on.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

from husk.kernel.blocking import forget as forget_waits


class Living(Protocol):
    def close(self) -> None: ...
    def forget(self) -> None: ...


_living: weakref.WeakSet[Living] = weakref.WeakSet()
_hooked = False


def born(one: Living) -> None:
    global _hooked
    if not _hooked:
        _hooked = True
        atexit.register(_close_all)
        os.register_at_fork(after_in_child=_forget_all)
    _living.add(one)


def gone(one: Living) -> None:
    _living.discard(one)


def _close_all() -> None:
    for one in list(_living):
        one.close()


def _forget_all() -> None:
    for one in list(_living):
        one.forget()
    _living.clear()
    forget_waits()

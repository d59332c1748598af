"""api: what is alive in this process, so that nothing of it outlives the process or is harmed by a child of it.

At exit everything still open is closed. After a fork the child forgets it all: boxes are the parent's, and only the
descriptors are closed, so that the parent's end ends its boxes even while the child lives on.
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

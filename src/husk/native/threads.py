"""native: husk's own threads, which a host in trouble may refuse."""

from __future__ import annotations

import _thread
import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def start_thread(body: Callable[..., object], *words: object) -> None:
    """OSError where there is none to be had, as for all else the host does not give. (Python's RuntimeError is what a
    mistake of ours raises, too.)"""
    try:
        _thread.start_new_thread(body, words)
    except RuntimeError:
        raise OSError(errno.EAGAIN, "no more threads") from None

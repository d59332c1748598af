"""native: starting husk's own threads, which a host short of memory may refuse."""

from __future__ import annotations

import _thread
import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def start_thread(body: Callable[..., object], *words: object) -> None:
    """Raises OSError where the host refuses a thread, as for every other resource. Python raises RuntimeError, which a
    mistake of ours would raise too."""
    try:
        _thread.start_new_thread(body, words)
    except RuntimeError:
        raise OSError(errno.EAGAIN, "no more threads") from None

"""vfs: the clock that dates what husk itself changes."""

from __future__ import annotations

import time

# The host stamps files with its coarse clock. A finer one here would make directories look newer than files made
# after them.
CLOCK_REALTIME_COARSE = 5


def now() -> int:
    """Nanoseconds since the epoch."""
    return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)

"""vfs: the clock that dates what husk itself changes. It is the one the host dates files with.

That is the coarse clock, but not alone. Since Linux 6.13 the host gives a file that was looked at a finer time at its
next change, and dates nothing that follows before it. No call tells that later moment, so husk asks for the date of a
new file. The coarse clock would date changes before those that came first; a finer one would make directories look
newer than files made after them.
"""

from __future__ import annotations

import os
import time

CLOCK_REALTIME_COARSE = 5
MFD_CLOEXEC, MFD_NOEXEC_SEAL = 1, 8


def about_now() -> int:
    """The coarse clock alone, where a few milliseconds do not matter: it costs a twentieth."""
    return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)


def now() -> int:
    """Nanoseconds since the epoch. Never fails: whoever dates a change has made it already."""
    fd = -1
    try:
        # Not kept: a descriptor held for good would be one more for whoever uses husk as a library.
        fd = os.memfd_create("", MFD_CLOEXEC | MFD_NOEXEC_SEAL)
        return os.fstat(fd).st_mtime_ns
    except OSError:  # no descriptor left; or before Linux 6.3, when the coarse clock was all there was
        return about_now()
    finally:
        if fd >= 0:
            os.close(fd)

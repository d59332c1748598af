"""sandbox: keep descriptors 0, 1 and 2 open in a process that makes boxes.

Guests get the descriptors with these numbers. Where the caller closed one, the host would give its number to the next
file husk opens: the directory of the box with its lock, the file of events, a socket. So the hole is filled first, as
Linux's C libraries do for set-user-id programs. Not here: what a guest gets instead of a terminal (`streams`).
"""

from __future__ import annotations

import os


def open_missing_std_fds() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            if opened != number:  # another thread was faster: its descriptor has the number now
                os.close(opened)

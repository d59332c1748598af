"""sandbox: keep descriptors 0, 1 and 2 open in a process that makes boxes; and which descriptors a guest may get.

Guests get the descriptors with these numbers. Where the caller closed one, the host would give its number to the next
file husk opens: the directory of the box with its lock, the file of events, a socket. So the hole is filled first, as
Linux's C libraries do for set-user-id programs. Not here: what a guest gets instead of a terminal (`streams`).
"""

from __future__ import annotations

import os

_S_IFMT, _S_IFSOCK = 0o170000, 0o140000


def open_missing_std_fds() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            if opened != number:  # another thread was faster: its descriptor has the number now
                os.close(opened)


def may_hand_over(fd: int) -> bool:
    """May a guest get this descriptor itself? Not a terminal and not a socket: `Streams` puts something in between."""
    try:
        return os.fstat(fd).st_mode & _S_IFMT != _S_IFSOCK and not os.isatty(fd)
    except OSError:
        return True  # closed; the guest gets EBADF when it uses it

"""compat: where telling arguments stand: by the number of a system call, and by the name of a C library's function that
hands its arguments on. Not here: what a value means to a runtime (surface.py).
"""

from __future__ import annotations

from husk.abi.registry import ROWS, number
from husk.compat.census import telling

# number -> positions of the telling arguments
TELLING: dict[int, tuple[int, ...]] = {nr: tuple(n for n, _, _ in telling(row.name)) for nr, row in ROWS.items()}

# Functions of C libraries whose name differs from the call's. `syscall` hands everything on.
_SPELLED = {"open64": "open", "openat64": "openat", "creat64": "creat", "mmap64": "mmap", "fcntl64": "fcntl",
            "prlimit": "prlimit64", "fallocate64": "fallocate", "sigaction": "rt_sigaction", "eventfd": "eventfd2",
            "signalfd": "signalfd4", "epoll_create": "epoll_create1", "posix_fadvise": "fadvise64",
            "__open_2": "open", "__open64_2": "open", "__openat_2": "openat", "__openat64_2": "openat",
            "__fcntl": "fcntl", "__open": "open", "__open64": "open", "__ioctl": "ioctl", "__mmap": "mmap",
            "__prctl": "prctl", "__socket": "socket", "__clone": "clone"}  # fmt: skip
# Positions differ from the call's where the function has other parameters.
TELLING_IMPORTS: dict[str, tuple[int, ...]] = {
    row.name: TELLING[nr] for nr, row in ROWS.items() if TELLING[nr] and row.name not in ("clone", "rt_sigaction")
}
TELLING_IMPORTS |= {name: TELLING[number(call)] for name, call in _SPELLED.items()}
TELLING_IMPORTS["clone"] = TELLING_IMPORTS["__clone"] = (2,)
TELLING_IMPORTS["waitpid"] = TELLING_IMPORTS["__waitpid"] = (2,)
TELLING_IMPORTS["wait3"] = (1,)
TELLING_IMPORTS["syscall"] = (0, 1, 2, 3, 4, 5)

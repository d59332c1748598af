"""sandbox, doctor: system calls Python does not offer, for the probes. Off the path of `husk run`."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

# x86-64 numbers
MMAP, MPROTECT = 9, 10
PTRACE, PRCTL, MOUNT, SETHOSTNAME, UNSHARE, SECCOMP = 101, 157, 165, 170, 272, 317
PROCESS_VM_READV, PIDFD_OPEN, PIDFD_GETFD = 310, 434, 438
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446


def call(number: int, *arguments: int | bytes | None) -> int:
    """The result, or OSError. Bytes are passed by address."""
    words = [ctypes.c_char_p(one) if one is None or isinstance(one, bytes) else ctypes.c_long(one) for one in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def no_new_privileges() -> None:
    call(PRCTL, 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS

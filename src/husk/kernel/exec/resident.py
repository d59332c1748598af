"""kernel: read the resident region, the data that the loader leaves in a guest process (native/loader/resident.h).

It is the guest's own memory, copied by fork and replaced by execve. The guest can forge it, so husk uses it as a hint.
"""

from __future__ import annotations

import os

DATA = 0x567F00001000
IDENTITY_AT, THUNKED_AT, EXE_LEN_AT, EXE_AT = 0x008, 0x018, 0x028, 0x500
MAGIC = 0x7365726B
UNASKED = b"/husk-run"  # below it programs have the names by which guests execute them; native/loader/directories.h


def _read(host_pid: int, offset: int, size: int) -> bytes | None:
    try:
        fd = _open(host_pid)
    except OSError:
        return None
    try:
        return os.pread(fd, size, DATA + offset)
    except OSError:
        return None
    finally:
        os.close(fd)


def _open(host_pid: int) -> int:
    return os.open(b"/proc/%d/mem" % host_pid, os.O_RDONLY | os.O_CLOEXEC)


def exe_of(host_pid: int) -> tuple[bytes, tuple[int, int]] | None:
    """The virtual path of a process's program at the time of its execve, and the file's identity."""
    try:
        fd = _open(host_pid)
    except OSError:
        return None
    try:
        head = os.pread(fd, 0x30, DATA)
        length = int.from_bytes(head[EXE_LEN_AT : EXE_LEN_AT + 4], "little")
        if int.from_bytes(head[:4], "little") != MAGIC or not 0 < length <= 4096:
            return None
        path = os.pread(fd, length, DATA + EXE_AT)
    except OSError:
        return None
    finally:
        os.close(fd)
    identity = head[IDENTITY_AT : IDENTITY_AT + 16]
    return path, (int.from_bytes(identity[:8], "little"), int.from_bytes(identity[8:], "little"))


def loader_done(host_pid: int) -> bool:
    """Has the loader finished? Until then the host shows the loader's name, and arguments without a script's."""
    return _read(host_pid, 0, 4) == MAGIC.to_bytes(4, "little")


def runs(host_pid: int, identity: tuple[int, int]) -> bool:
    """Does the process run the file with this identity?"""
    return _read(host_pid, IDENTITY_AT, 16) == identity[0].to_bytes(8, "little") + identity[1].to_bytes(8, "little")


def thunked_signals(host_pid: int) -> int:
    """Signals whose handler was set without SA_RESTART, as a mask (bit 0 is signal 1)."""
    return int.from_bytes(_read(host_pid, THUNKED_AT, 8) or b"", "little")

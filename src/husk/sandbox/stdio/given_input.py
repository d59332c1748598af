"""sandbox: bytes as the standard input of a guest."""

from __future__ import annotations

import os

from husk.native.threads import start_thread

PIECE = 1 << 16


def readable(data: bytes) -> int:
    """A descriptor to read `data` from; the caller closes it. A pipe, because that is what programs expect of input
    that is no terminal."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    read_end, write_end = os.pipe()
    try:
        start_thread(_fill, write_end, data)
    except BaseException:
        os.close(read_end)
        os.close(write_end)
        raise
    return read_end


def _fill(write_end: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(write_end, view[:PIECE]) :]
    except OSError:
        pass  # the last reader is gone
    finally:
        os.close(write_end)

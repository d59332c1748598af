"""compat: read a file that a person named, whole, if it is not too large for what it should be."""

from __future__ import annotations

import os

from husk.sandbox.errors import UsageError


def read_bounded(path: str | os.PathLike[str], most: int, wanted: str, why: str) -> bytes:
    """UsageError: it cannot be read, and `wanted` is the next step; or it has more than `most` bytes, and `why` says
    what is wrong with that."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}; {wanted}") from None
    if len(content) > most:
        raise UsageError(f"{name}: larger than {most >> 20} MiB{why}")
    return content

"""store: what an ingest leaves out: the person's patterns, and secrets (secrets.txt says which)."""

from __future__ import annotations

import os

from husk.native import _core
from husk.store.store_errors import StoreUsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.native._core import Pattern

LEAVE_OUT, SECRET, LOOK_INSIDE = 1, 2, 3
PRIVATE_KEY = b"PRIVATE KEY-----"
LOOKED_AT = 1 << 20  # a private key stands at the beginning, or behind a chain of certificates


def patterns(exclude: Iterable[str], *, include_secrets: bool) -> list[Pattern]:
    found = [pattern(text, LEAVE_OUT) for text in exclude]
    return found if include_secrets else found + secret_patterns()


def pattern(text: str, kind: int) -> Pattern:
    """A leading slash ties it to the top of the tree, one at the end to directories."""
    core = text.strip("/")
    if not core or "\0" in text or ".." in core.split("/"):
        raise StoreUsageError(f"--exclude {text!r} matches nothing; write a name such as 'build/' or '*.log'.")
    return (os.fsencode(core), text.startswith("/"), text.endswith("/"), kind)


def secret_patterns() -> list[Pattern]:
    with open(os.path.join(os.path.dirname(__file__), "secrets.txt"), encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return [pattern(text, {"name": SECRET, "key": LOOK_INSIDE}[how]) for how, text in lines]


def literal(path: bytes) -> Pattern:
    """Exactly this path of the tree."""
    escaped = b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\" else bytes([byte]) for byte in path)
    return (escaped, True, False, LEAVE_OUT)


def drop_keys(tree: _core.Tree, root_fd: int) -> None:
    """Look into the files whose names suggest a key."""
    for number in tree.marked():
        try:
            fd = _core.open_beneath(root_fd, tree.path(number), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # reading it will say what is wrong
        try:
            if PRIVATE_KEY in os.pread(fd, LOOKED_AT, 0):
                tree.drop(number)
        finally:
            os.close(fd)

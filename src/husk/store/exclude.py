"""store: what an ingest excludes: the caller's patterns, and secrets (listed in secrets.txt)."""

from __future__ import annotations

import os

from husk.native import _core
from husk.store.store_errors import StoreUsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.native._core import Pattern

EXCLUDE, SECRET, LOOK_INSIDE = 1, 2, 3
PRIVATE_KEY = b"PRIVATE KEY-----"
SEARCHED = 1 << 20  # a private key is at the beginning, or behind a chain of certificates


def patterns(exclude: Iterable[str], *, include_secrets: bool) -> list[Pattern]:
    found = [pattern(text, EXCLUDE) for text in exclude]
    return found if include_secrets else found + secret_patterns()


def pattern(text: str, kind: int) -> Pattern:
    """A leading slash anchors it at the top of the tree, a trailing one limits it to directories."""
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
    return (escaped, True, False, EXCLUDE)


def drop_keys(tree: _core.Tree, root_fd: int) -> None:
    """Exclude files that hold a private key, among those with a name that suggests one."""
    for number in tree.marked():
        try:
            fd = _core.open_beneath(root_fd, tree.path(number), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # the ingest reports the error when it reads the file
        try:
            if PRIVATE_KEY in os.pread(fd, SEARCHED, 0):
                tree.drop(number)
        finally:
            os.close(fd)

"""cli: which files of profiles the user trusts, by place and content, as direnv keeps it. A file that changed since is
not trusted any more."""

from __future__ import annotations

import hashlib
import os

from husk.sandbox.errors import HuskError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def config_directory() -> str:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    if not home.startswith("/"):  # the XDG specification: a relative one is to be ignored
        home = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "husk")


def user_file() -> str:
    return os.path.join(config_directory(), "config.toml")


def place_of(path: str) -> str:
    """Where a file stands: no link above it is left, but the file may be one itself. A program that may write to a
    project could make its husk.toml a link to another one that is trusted, with that one's mounts."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _mark(path: str) -> str:
    return os.path.join(config_directory(), "trusted", hashlib.sha256(os.fsencode(path)).hexdigest())


def _text(path: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()} {path}\n"


def is_trusted(path: str, content: bytes) -> bool:
    """`path` as `place_of` gives it."""
    try:
        with open(_mark(path), encoding="utf-8", errors="surrogateescape") as mark:
            return mark.read() == _text(path, content)
    except OSError:
        return False


def was_trusted(path: str) -> bool:
    """With an earlier content."""
    return os.path.exists(_mark(path))


def trust(path: str, content: bytes) -> None:
    mark = _mark(path)
    try:
        os.makedirs(os.path.dirname(mark), mode=0o700, exist_ok=True)
        new = f"{mark}.{os.getpid()}"
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8", errors="surrogateescape") as text:
            text.write(_text(path, content))
        os.replace(new, mark)
    except OSError as error:
        why = f"{mark} cannot be written ({error.strerror})"
        raise HuskError(f"{why}; set XDG_CONFIG_HOME to a directory of yours.") from None


def revoke(path: str) -> bool:
    """False: it was not trusted."""
    try:
        os.unlink(_mark(place_of(path)))
    except FileNotFoundError:
        return False
    return True


def trusted() -> Iterator[tuple[str, str]]:
    """Paths and digests."""
    folder = os.path.join(config_directory(), "trusted")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if len(name) == 64:
            with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as mark:
                digest, _, path = mark.read().removesuffix("\n").partition(" ")
            yield path, digest

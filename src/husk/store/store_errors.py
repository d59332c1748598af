"""store: what can go wrong, each as one sentence with the next step."""

from __future__ import annotations

import errno

from husk.abi import text


class StoreError(Exception):
    """The store cannot do it. `exit_code` is what a command ends with."""

    exit_code = 1


class StoreUsageError(StoreError):
    """The person asked for something that makes no sense."""

    exit_code = 2


# What is wrong with a path that a person named. With any other error the host fails, whatever the path is.
_WRONG_PATH = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO)


def cannot_open(error: OSError, doing: str, wanted: str) -> StoreError:
    """`doing` says what cannot be done with the path, `wanted` is the next step for the person who named it."""
    if error.errno in _WRONG_PATH:
        return StoreUsageError(f"{doing}: {error.strerror}; {wanted}")
    return StoreError(f"{doing}: {error.strerror}.")


class BadManifest(StoreError):
    """This manifest cannot be what husk wrote."""


def shown(path: bytes) -> str:
    """A path of a tree, for a person: archives and guests chose it."""
    return text.shortened(text.shown(path)) or "/"


def no_room(place: str) -> str:
    return f"there is no space left for the store at {place}; `husk store gc --delete` may free some."

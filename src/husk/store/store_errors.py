"""store: what can go wrong, each as one sentence with the next step."""

from __future__ import annotations

from husk.abi import text


class StoreError(Exception):
    """The store cannot do it. `exit_code` is what a command ends with."""

    exit_code = 1


class StoreUsageError(StoreError):
    """The person asked for something that makes no sense."""

    exit_code = 2


class BadManifest(StoreError):
    """This manifest cannot be what husk wrote."""


def shown(path: bytes) -> str:
    """A path of a tree, for a person: archives and guests chose it."""
    return text.shortened(text.shown(path)) or "/"


def no_room(place: str) -> str:
    return f"there is no space left for the store at {place}; `husk store gc --delete` may free some."

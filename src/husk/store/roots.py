"""store: roots: manifests that are kept although no image names them. Kept boxes need them, since a kept box may
outlive the image it was started from. A lease ends with its process; a root stays until it is removed.

roots/<id> holds hashes of manifests, one to a line, and `end`.
"""

from __future__ import annotations

import os

from husk.store.layout import is_hash, sync_directory, write_whole
from husk.store.locks import StoreLock
from husk.store.store_errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from husk.store.store import Store

FOLDER = "roots"


def add(store: Store, name: str, manifests: Sequence[str]) -> None:
    """The caller chooses a unique `name`."""
    with StoreLock(store.place, exclusive=False):
        for manifest in manifests:
            if not store.has(manifest):
                raise StoreError(
                    f"the manifest {manifest} is missing; `husk store verify` names the images it touches."
                )
        os.makedirs(os.path.join(store.place, FOLDER), 0o700, exist_ok=True)
        text = "".join(f"{manifest}\n" for manifest in manifests) + "end\n"
        write_whole(os.path.join(store.place, FOLDER, name), text.encode())


def share(store: Store, name: str, new: str) -> bool:
    """A root of the same manifests under a new name; False: there is no root of this name. The content is durable
    already, so only the new name is synced."""
    folder = os.path.join(store.place, FOLDER)
    with StoreLock(store.place, exclusive=False):
        try:
            os.link(os.path.join(folder, name), os.path.join(folder, new), follow_symlinks=False)
        except OSError:
            return False
        sync_directory(folder)
    return True


def remove(place: str, name: str) -> None:
    try:
        os.unlink(os.path.join(place, FOLDER, name))
    except (FileNotFoundError, NotADirectoryError):
        pass


def rooted(place: str) -> set[str]:
    """All manifests that roots name. The caller holds the lock."""
    found: set[str] = set()
    folder = os.path.join(place, FOLDER)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        names = []  # no box was ever kept from this store
    for name in names:
        if name.startswith("."):
            continue  # the writer was killed before it was done
        with open(os.path.join(folder, name), "rb") as file:
            words = file.read(1 << 20).decode("ascii", "replace").split()
        if not words or words.pop() != "end" or not all(map(is_hash, words)):
            raise StoreError(
                f"{folder}/{name} cannot be understood; `husk drop` the box it is for, or remove the file."
            )
        found.update(words)
    return found

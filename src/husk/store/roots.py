"""store: manifests that somebody needs for good although no image names them: kept boxes, which may outlive the image
they were started from. A lease goes with its process; a root stays until it is taken back.

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
    """The caller chooses a `name` that nobody else does."""
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
    """A root of the same manifests under a new name; false: there is none to share. What it says is on the disk
    already, so this waits for a name alone."""
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
        names = []  # a store that no box was kept from yet
    for name in names:
        if name.startswith("."):
            continue  # was being written
        with open(os.path.join(folder, name), "rb") as file:
            words = file.read(1 << 20).decode("ascii", "replace").split()
        if not words or words.pop() != "end" or not all(map(is_hash, words)):
            raise StoreError(
                f"{folder}/{name} cannot be understood; `husk drop` the box it is for, or remove the file."
            )
        found.update(words)
    return found

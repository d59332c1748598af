"""store: collection. Removes blobs that no image, lease or root names; without `delete` it only counts them. Images
that are a cache (packages of skills) are removed too, while no lease or root names them.

Everything happens under the exclusive lock: no writer is active, so an image names every blob that a writer found, and
no lease is being taken. If the collection is killed, garbage is left but nothing is missing: it removes only blobs that
nothing names.
"""

from __future__ import annotations

import os
import time

from husk.store import layout
from husk.store.images import CACHE
from husk.store.locks import PATIENCE, StoreLock, leased
from husk.store.manifests.manifest import Manifest
from husk.store.roots import rooted
from husk.store.staging import sweep
from husk.store.store_errors import StoreError
from husk.store.verify import all_blobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.store.store import Store


class Collected:
    """What was, or would be, removed."""

    def __init__(self, *, delete: bool) -> None:
        self.deleted = delete
        self.blobs = self.bytes = self.kept_blobs = self.young = self.leftovers = 0
        self.caches: list[str] = []  # images

    def as_json(self) -> dict[str, object]:
        return dict(vars(self))


def collect(store: Store, *, delete: bool = False, unused_for: float = 0.0, patience: float = PATIENCE) -> Collected:
    """`unused_for`: seconds a blob must have been in the store, so that recent ones stay for their next use."""
    result = Collected(delete=delete)
    with StoreLock(store.place, exclusive=True, patience=patience):
        used, stale = leased(store.place)
        used |= rooted(store.place)
        # Where no age is asked for the clock does not count: what was made before it was set back seems to be of the
        # future. Where one is, such a blob stays until the clock has come there.
        oldest = time.time() - unused_for if unused_for > 0 else float("inf")
        result.caches = _unused_caches(store, used, oldest)
        keep = _reachable(store, used, [name for name in store.images.list() if name not in result.caches])
        if delete:
            # Before the first removal: from now on the blobs that an index names must be checked.
            store.next_generation()
            result.leftovers = _remove_leftovers(store.place, stale)
            for name in result.caches:  # before what they name
                store.images.rm(name)
        for name in all_blobs(store.place):
            if name in keep:
                result.kept_blobs += 1
            elif layout.is_hash(name):  # anything else is left to verify
                _remove_blob(store.blob_path(name), oldest, result)
    return result


def _unused_caches(store: Store, used: set[str], oldest: float) -> list[str]:
    found = []
    for name in store.images.list():
        image = store.images.get(name)
        if CACHE in image.config.labels and used.isdisjoint(image.manifests) and store.images.last_used(name) <= oldest:
            found.append(name)
    return found


def _reachable(store: Store, manifests: set[str], images: list[str]) -> set[str]:
    """Everything that images, leases and roots name. Any error ends the collection: a guess could cost an image."""
    roots = set(manifests)
    for name in images:
        roots.update(store.images.get(name).manifests)
    keep = set(roots)
    for root in roots:
        try:
            fd = os.open(store.blob_path(root), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise StoreError(
                f"the manifest {root} is missing, so what it needs is unknown; `husk store verify` names its images."
            ) from None
        try:
            manifest = Manifest(fd)
            keep.update(entry.hash for entry in manifest.walk() if entry.is_file)
        finally:
            os.close(fd)
    return keep


def _remove_blob(path: str, oldest: float, result: Collected) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    # ctime: the rename that published the blob set it, and husk does not change it afterwards.
    if found.st_ctime > oldest:
        result.young += 1
        return
    result.blobs += 1
    result.bytes += found.st_size
    if not result.deleted:
        return
    try:
        os.unlink(path)
    except PermissionError:
        from husk.store.protect import release

        if not release(path):
            raise StoreError(f"{path} is protected; run the collection as a user who may remove that (root).") from None
        os.unlink(path)


def _remove_leftovers(place: str, stale: list[str]) -> int:
    count = len(sweep(place))
    for path in stale:
        os.unlink(path)
        count += 1
    for folder in ("images", "index", "roots", "."):
        if not os.path.isdir(os.path.join(place, folder)):
            continue  # no box was ever kept from this store
        for name in os.listdir(os.path.join(place, folder)):
            # A record that a killed process was writing: under the lock none is being written, except the version.
            if name.startswith(".") and not name.startswith(".version-"):
                os.unlink(os.path.join(place, folder, name))
                count += 1
    return count

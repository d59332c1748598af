"""store: the store as one object. Reading goes through `Store`, everything that adds through `Writing`.

Blobs can never be changed through husk: they are opened for reading only, and a writer only creates files that have no
name yet in blake3/. No method here removes one; `collect` and `verify` do, under the exclusive lock.
"""

from __future__ import annotations

import errno
import os
import time

from husk.store import layout
from husk.store.images import Image, ImageConfig, Images
from husk.store.locks import Lease, StoreLock
from husk.store.manifests.manifest import Manifest
from husk.store.store_errors import BadManifest, StoreError, StoreUsageError, no_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from husk.store.staging import Stage


class Store:
    """A store on disk. `Store.open(place)` opens it; `Store.create(place)` makes it first if it is not there."""

    __slots__ = ("images", "place")

    def __init__(self, place: str) -> None:
        self.place = place
        self.images = Images(place)

    @classmethod
    def open(cls, place: str | None = None) -> Store:
        """The default place is HUSK_STORE, else the user's data directory."""
        found = os.path.abspath(place) if place else layout.default_place()
        layout.check(found)
        return cls(found)

    @classmethod
    def create(cls, place: str | None = None) -> Store:
        found = os.path.abspath(place) if place else layout.default_place()
        layout.create(found)
        return cls.open(found)

    @property
    def blobs(self) -> str:
        return os.path.join(self.place, "blake3")

    def blob_path(self, hash_: str) -> str:
        return os.path.join(self.blobs, layout.blob_place(hash_))

    def has(self, hash_: str) -> bool:
        return os.path.lexists(self.blob_path(hash_))

    def open_blob(self, hash_: str) -> int:
        """A read-only descriptor, the caller's to close.

        Two virtual files of equal content get descriptors of one inode. Do not hand one to a guest as it is where
        flock, the inode number or the link count could be seen: see docs/design/009-store.md.
        """
        try:
            return os.open(self.blob_path(hash_), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise StoreError(
                f"the blob {hash_} is missing; `husk store verify --repair-from DIR` can bring it back."
            ) from None

    def open_manifest(self, hash_: str) -> Manifest:
        fd = self.open_blob(hash_)
        try:
            return Manifest(fd)
        except BadManifest as error:
            raise BadManifest(f"{hash_[:16]}: {error}") from None
        finally:
            os.close(fd)

    def writing(self) -> Writing:
        return Writing(self)

    def put_blob(self, source: bytes | int) -> str:
        """One blob, durable when this returns. For many, one `writing()` costs one sync."""
        with self.writing() as writing:
            return writing.put_blob(source)

    def put_manifest(self, data: bytes) -> str:
        with self.writing() as writing:
            return writing.put_manifest(data)

    def lease(self, manifests: Sequence[str]) -> Lease:
        """Keep these for as long as the lease is open."""
        with StoreLock(self.place, exclusive=False):
            return self._lease(manifests)

    def lease_image(self, name: str) -> tuple[Lease, Image]:
        """The record is read under the lock, so the manifests it names are still there when they are leased, and they
        stay leased even if another record replaces this one."""
        with StoreLock(self.place, exclusive=False):
            image = self.images.get(name)
            return self._lease(image.manifests), image

    def _lease(self, manifests: Sequence[str]) -> Lease:
        for manifest in manifests:
            if not self.has(manifest):
                raise StoreError(
                    f"the manifest {manifest} is missing; `husk store verify` names the images it touches."
                )
        return Lease(self.place, manifests)

    def generation(self) -> int:
        """Grows before anything is removed. It does not change while the caller holds the lock."""
        try:
            with open(os.path.join(self.place, "generation"), "rb") as file:
                return int(file.read(32))
        except (FileNotFoundError, ValueError):
            return 0

    def next_generation(self) -> None:
        """Called with the lock held exclusively. A full disk must not prevent a collection: only indices use the
        number, and they are caches, so where it cannot be written they are removed instead."""
        try:
            layout.write_whole(os.path.join(self.place, "generation"), b"%d\n" % (self.generation() + 1))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            folder = os.path.join(self.place, "index")
            for name in os.listdir(folder):
                os.unlink(os.path.join(folder, name))
            layout.sync_directory(folder)


class Writing:
    """A writer: it holds the store's lock shared, and stages blobs until `publish` makes all of them appear, synced.

    Leaving the `with` block normally publishes; leaving it by an exception publishes nothing.
    """

    __slots__ = ("_lock", "_stage", "store")

    def __init__(self, store: Store) -> None:
        self.store = store
        try:
            self._lock = StoreLock(store.place, exclusive=False)
        except OSError as error:
            raise StoreError(f"the store at {store.place} cannot be locked: {error.strerror}.") from None
        self._stage: Stage | None = None

    @property
    def stage(self) -> Stage:
        if self._stage is None:
            from husk.store.staging import Stage

            self._stage = Stage(self.store.place)
        return self._stage

    def put_blob(self, source: bytes | int) -> str:
        """Bytes, or a descriptor that is read from its beginning to its end."""
        return self.stage.put_fd(source) if isinstance(source, int) else self.stage.put(source)

    def put_manifest(self, data: bytes | bytearray) -> str:
        """The bytes `ManifestWriter.finish` gave. Give bytes from elsewhere to `check_manifest` first."""
        return self.stage.put(data)

    def publish(self, jobs: int = 1) -> None:
        if self._stage is not None:
            self._stage.publish(jobs)

    def set_image(self, name: str, layers: Sequence[str], config: ImageConfig | None = None) -> Image:
        """Publish first, then write the image record: never the other way round."""
        self.publish()
        for layer in layers:
            if not self.store.has(layer):
                raise StoreUsageError(f"the image {name!r} cannot have the layer {layer}: there is no such manifest.")
        flat = layers[0]
        if len(layers) > 1:
            from husk.store.flatten import flatten

            flat = self.put_manifest(flatten([self.store.open_manifest(layer) for layer in layers]))
            self.publish()
        image = Image(layers, config, time.time_ns(), flat)
        self.store.images.set(name, image)
        return image

    def close(self) -> None:
        """Drop what was not published."""
        if self._stage is not None:
            self._stage.remove()
            self._stage = None
        self._lock.close()

    def __enter__(self) -> Writing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.publish()
        except OSError as failure:
            error = failure
        finally:
            self.close()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(no_room(self.store.place)) from error
        if kind is None and error is not None:
            raise error

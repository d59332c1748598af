"""skills: layers of packages: filled once, inside a box, then kept in the store as an image and mounted read-only.

An image's name is a hash of the request, so the same request finds it again without pip, npm or network. It is a cache:
`husk store gc` may collect it while it is unused, and a lock file says how to make it again.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat as st
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.remove_tree import DIRECTORY, empty_directory
from husk.skills.cache_place import cache_place
from husk.store import ImageConfig, Store, StoreError
from husk.store.images import CACHE, PACKAGES
from husk.store.ingest import Options, ingest
from husk.store.locks import Lease

WISH, DIGEST = "husk.wish", "husk.lock-digest"
LOCK_NAME = b".packages.lock"  # in the layer: its packages, with versions and hashes
MOST_LOCK = 64 << 20
Filled = tuple[Path, str]  # the directory that becomes the layer, and the text of its lock


@dataclass
class Layer:
    """An image of the store, leased: it is not collected until `close`."""

    image: str
    lock: str
    cached: bool
    lease: Lease

    def close(self) -> None:
        self.lease.close()


def get_layer(
    place: str, kind: str, wish: dict[str, object], fill: Callable[[Path], Filled], *, pinned: str = ""
) -> Layer:
    """The layer for `wish`. Only if there is none yet, `fill` is called with an empty directory to work in. A layer
    whose lock is `pinned` also fits, whatever it was made for: it holds the same bytes."""
    text = json.dumps(wish, sort_keys=True)
    name = f"{PACKAGES}{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    try:
        store = Store.create(place or None)
        base = cache_place("installing")
        with open(base / ".lock", "w") as lock:
            # One installation at a time: a second one for the same wish waits and finds the layer. The lock ends with
            # its process, so directories found here are leftovers of a killed one.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if found := _cached(store, name, kind, wish, pinned):
                return found
            for left in base.glob("new-*"):
                _remove(left)
            staging = base / f"new-{os.getpid()}"
            staging.mkdir()
            try:
                content, locked = fill(staging)
                _add_lock(content, locked)
                labels = {CACHE: "packages", WISH: text, DIGEST: _digest(locked)}
                # Packages hold certificates and example keys: these are public, not secrets.
                ingest(store, str(content), name, Options(include_secrets=True, config=ImageConfig(labels=labels)))
            finally:
                _remove(staging)
            lease, _ = store.lease_image(name)
            return Layer(name, locked, False, lease)
    except StoreError as error:
        raise HuskError(str(error)) from None


def today(fresh: bool) -> dict[str, object]:
    """For a wish: with the day in it, no layer of an earlier day fits."""
    return {"day": time.strftime("%Y-%m-%d", time.gmtime())} if fresh else {}


def read_untrusted(path: Path) -> str:
    """Read a file that a box wrote. The box has ended, but its file may be anything: a link to a host file, a FIFO,
    gigabytes."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not st.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        data = file.read(MOST_LOCK + 1)
    if len(data) > MOST_LOCK:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data.decode()


def _add_lock(content: Path, locked: str) -> None:
    if content.is_symlink() or not content.is_dir():
        raise HuskError(f"{content}: the installation left something else in the place of the packages.")
    path = content / os.fsdecode(LOCK_NAME)
    try:
        path.unlink(missing_ok=True)
        with open(path, "x", encoding="utf-8") as file:  # never through a link
            file.write(locked)
    except OSError as error:
        raise HuskError(f"{path}: {error.strerror}.") from None


def _remove(left: Path) -> None:
    try:
        fd = os.open(left, DIRECTORY)
        try:
            empty_directory(fd)
        finally:
            os.close(fd)
        left.rmdir()
    except OSError:
        pass


def image_content(place: str, image: str) -> str:
    """The content of an image, for a wish: its name may mean another image tomorrow."""
    if not image:
        return ""
    try:
        return Store.open(place or None).images.get(image).flat
    except StoreError as error:
        raise UsageError(str(error)) from None


def _cached(store: Store, name: str, kind: str, wish: dict[str, object], pinned: str) -> Layer | None:
    names = store.images.list()
    found = name if name in names else ""
    if not found and pinned:
        digest = _digest(pinned)
        for other in names:
            if other.startswith(f"{PACKAGES}{kind}-") and _matches(store, other, digest, wish):
                found = other
                break
    if not found:
        return None
    lease, image = store.lease_image(found)
    try:
        store.images.used(found)
        entry = store.open_manifest(image.flat).lookup(LOCK_NAME)
        if entry is None:
            raise StoreError(f"the image {found!r} is no layer of packages; `husk store rm` it.")
        fd = store.open_blob(entry.hash)
        with open(fd, "rb") as file:
            return Layer(found, file.read(MOST_LOCK).decode(), True, lease)
    except BaseException:
        lease.close()
        raise


def _matches(store: Store, name: str, digest: str, wish: dict[str, object]) -> bool:
    """Does the layer fit? Hashes pin the packages, but an installation also depends on its Python and its image."""
    labels = store.images.get(name).config.labels
    if labels.get(DIGEST) != digest:
        return False
    made = json.loads(labels.get(WISH, "{}"))
    return all(made.get(part) == wish.get(part) for part in ("python", "image"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

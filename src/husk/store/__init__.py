"""store: content-addressed blobs, manifests over them, images that name manifests, and the collection of what is
unused.

Knows nothing of guests, mounts or the kernel. The names below are what other layers use; each is imported when asked
for, because `husk run` without an image must not pay for a store.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.store.images import Image, ImageConfig
    from husk.store.manifests.manifest import Entry, Manifest
    from husk.store.manifests.manifest_writer import ManifestWriter
    from husk.store.store import Store, Writing
    from husk.store.store_errors import BadManifest, StoreError, StoreUsageError

__all__ = [
    "BadManifest",
    "Entry",
    "Image",
    "ImageConfig",
    "Manifest",
    "ManifestWriter",
    "Store",
    "StoreError",
    "StoreUsageError",
    "Writing",
]

_HOMES = {
    "BadManifest": "store_errors",
    "Entry": "manifests.manifest",
    "Image": "images",
    "ImageConfig": "images",
    "Manifest": "manifests.manifest",
    "ManifestWriter": "manifests.manifest_writer",
    "Store": "store",
    "StoreError": "store_errors",
    "StoreUsageError": "store_errors",
    "Writing": "store",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Not importlib.import_module: importing that costs a start from an image more than all of these.
    return getattr(__import__(f"{__name__}.{_HOMES[name]}", fromlist=[name]), name)

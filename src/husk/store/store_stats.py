"""store: statistics about a store or one image."""

from __future__ import annotations

import os

from husk.store.layout import blob_place
from husk.store.verify import all_blobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.store.store import Store


def store_stat(store: Store) -> dict[str, object]:
    blobs = count = 0
    for name in all_blobs(store.place):
        try:
            count += os.stat(os.path.join(store.place, "blake3", name if "/" in name else blob_place(name))).st_size
            blobs += 1
        except OSError:
            continue
    return {
        "store": store.place,
        "images": len(store.images.list()),
        "blobs": blobs,
        "bytes": count,
        "quarantined": len(os.listdir(os.path.join(store.place, "quarantine"))),
        "generation": store.generation(),
    }


def image_stat(store: Store, name: str) -> dict[str, object]:
    image = store.images.get(name)
    files = directories = others = count = 0
    blobs: dict[str, int] = {}
    for layer in image.layers:
        for entry in store.open_manifest(layer).walk():
            if entry.is_file:
                files += 1
                count += entry.size
                blobs[entry.hash] = entry.size
            elif entry.is_directory:
                directories += 1
            else:
                others += 1
    return {
        "image": name,
        "layers": image.layers,
        "files": files,
        "directories": directories,
        "others": others,
        "bytes": count,
        "blobs": len(blobs),
        "blob_bytes": sum(blobs.values()),
        "config": image.config.as_json(),
    }

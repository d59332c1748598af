"""images: pull. Fetch an image's documents and layers from a registry, then import them as any other OCI layout.

Blobs are collected in one file without a name beside the store: whatever happens, nothing is left of a pull that did
not end well. The import verifies every digest again and decides what names are allowed.
"""

from __future__ import annotations

import json
import os

from husk.images import oci
from husk.images.archive_limits import Budget, Limits, Refused
from husk.images.decompress import FileRange
from husk.images.image_import import import_found
from husk.images.registry.image_reference import Reference
from husk.images.registry.registry_client import INDEXES, MANIFESTS, Registry
from husk.images.source import DOCUMENT_LIMIT, Bundle
from husk.store.images import check_name
from husk.store.ingest import failure
from husk.store.layout import write_all
from husk.store.store_errors import StoreError, StoreUsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from husk.images.image_import import ImportReport, Progress
    from husk.store.store import Store

    Advance = Callable[[int, int], None]  # bytes fetched, of how many

DEPTH_LIMIT = 4
# Kinds of layers that husk can read. Others are encrypted, or lie elsewhere than in the registry.
_LAYERS = (
    "application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd", "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar", "application/vnd.docker.image.rootfs.diff.tar.zstd",
)  # fmt: skip


class Pulled(Bundle):
    """What was fetched so far, under the names of an OCI layout. `close` forgets it."""

    def __init__(self, place: str) -> None:
        self._fd = os.open(place, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        self._ranges: dict[str, tuple[int, int]] = {}
        self._end = 0

    def add(self, name: str, data: bytes) -> None:
        start = self._end
        self.append(data)
        self.note(name, start)

    def append(self, data: bytes) -> None:
        write_all(self._fd, data)
        self._end += len(data)

    @property
    def end(self) -> int:
        return self._end

    def room(self) -> int:
        """How many bytes more the file system has room for."""
        found = os.statvfs(self._fd)
        return found.f_bavail * found.f_frsize

    def note(self, name: str, start: int) -> None:
        """What was appended since `start` is the file `name`."""
        self._ranges[name] = start, self._end - start

    def piece(self, name: str) -> FileRange:
        at, size = self._ranges[name]
        return FileRange(self._fd, at, size)

    def close(self) -> None:
        os.close(self._fd)


def pull(
    store: Store,
    text: str,
    name: str = "",
    *,
    platform: str = "",
    insecure: bool = False,
    limits: Limits | None = None,
    advance: Advance | None = None,
    progress: Progress | None = None,
) -> tuple[ImportReport, str]:
    """Make an image of what a registry has under a reference. Also returns the digest of its manifest."""
    ref = Reference(text)
    name = check_name(name or ref.name)
    wanted = oci.read_platform(platform)
    budget = Budget(limits or Limits())
    registry = Registry(ref, insecure=insecure)
    try:
        bundle = Pulled(store.place)
        try:
            try:
                digest = _fetch(registry, bundle, wanted, budget.limits, advance)
            except OSError as error:
                raise StoreError(failure(store, error)) from error
            return import_found(store, bundle, text, name, budget, progress, wanted), digest
        finally:
            bundle.close()
    finally:
        registry.close()


def _fetch(
    registry: Registry, bundle: Pulled, platform: tuple[str, ...], limits: Limits, advance: Advance | None
) -> str:
    data, manifest = _find_manifest(registry, platform)
    digest = oci.digest_of(data)
    bundle.add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    index = {"schemaVersion": 2, "manifests": [{"digest": digest, "size": len(data)}]}
    bundle.add("index.json", json.dumps(index).encode())
    bundle.add(oci.blob_name(digest), data)
    layers = oci.list_of(manifest, "layers")
    if len(layers) > oci.LAYER_LIMIT:
        raise Refused(f"it has {len(layers)} layers, more than any real image.")
    for layer in layers:
        kind = layer.get("mediaType") if isinstance(layer, dict) else None
        if kind not in _LAYERS:
            raise Refused(f"one of its layers is {str(kind)[:100]!r}, which husk cannot read; it reads tar archives.")
    parts = {oci.digest_in(one): _size(one) for one in [manifest.get("config"), *layers]}
    if parts[oci.digest_in(manifest.get("config"))] > DOCUMENT_LIMIT:
        raise Refused("its configuration is larger than any real one.")
    total = sum(parts.values())
    if total > limits.size:
        raise Refused(f"it has {total} bytes and --max-bytes allows {limits.size}; if you trust it, raise that.")
    if total > bundle.room():
        raise StoreError(f"it has {total} bytes, and there is room for {bundle.room()} beside the store; make some.")
    begin = bundle.end

    def write(piece: bytes) -> None:
        bundle.append(piece)
        if advance is not None:
            advance(bundle.end - begin, total)

    for part, size in parts.items():
        start = bundle.end
        registry.blob(part, size, write)
        bundle.note(oci.blob_name(part), start)
    return digest


def _find_manifest(registry: Registry, platform: tuple[str, ...]) -> tuple[bytes, dict[str, Any]]:
    """The manifest for a platform, through indexes where there are any."""
    wanted = registry.ref.wanted
    for _ in range(DEPTH_LIMIT):
        data, kind = registry.manifest(wanted)
        document = oci.json_object(data, registry.ref.text)
        kind = str(document.get("mediaType") or kind)
        if kind in MANIFESTS or (kind not in INDEXES and "config" in document and "layers" in document):
            return data, document
        if kind not in INDEXES and "manifests" not in document:
            raise Refused(f"{registry.ref.text!r} is {kind[:100]!r} there, no image that husk can read.")
        wanted = _choose(registry, document, platform)
    raise Refused("its indexes lie in one another too deeply.")


def _choose(registry: Registry, index: dict[str, Any], platform: tuple[str, ...]) -> str:
    seen = []
    for descriptor in oci.list_of(index, "manifests")[: oci.LAYER_LIMIT]:
        said = descriptor.get("platform") if isinstance(descriptor, dict) else None
        parts: tuple[str, ...] = ()
        if isinstance(said, dict):
            parts = tuple(str(said.get(key) or "") for key in ("os", "architecture", "variant"))
        if parts and parts[0] == "unknown":
            continue  # an attestation about another image
        # Without a platform in the descriptor, the configuration says it, and the import looks there.
        if not parts or parts[: len(platform)] == platform:
            return oci.digest_in(descriptor)
        seen.append("/".join(part for part in parts if part))
    raise StoreUsageError(
        f"{registry.ref.text!r} is not there for {'/'.join(platform)}, only for {', '.join(seen[:20]) or 'nothing'}; "
        "--platform chooses another."
    )


def _size(descriptor: Any) -> int:
    size = descriptor.get("size") if isinstance(descriptor, dict) else None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise Refused("its manifest does not say how large its parts are.")
    return size

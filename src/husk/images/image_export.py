"""images: export to a root file system as tar, or to an OCI layout as directory or tar.

The same image gives the same bytes. An export is written under a temporary name beside its target and renamed when
complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat as st
import sys

from blake3 import blake3

from husk.abi.text import decoded
from husk.images.archive_layer import OPAQUE_NAME, WHITEOUT_NAME
from husk.images.oci import ARCHITECTURE, OS, REF_NAME
from husk.images.tarwrite import TarWriter
from husk.store.manifests.check_manifest import check_manifest
from husk.store.store_errors import BadManifest, StoreError, StoreUsageError, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from husk.store.images import Image, ImageConfig
    from husk.store.manifests.manifest import Entry, Manifest
    from husk.store.store import Store

CHUNK = 1 << 20
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_NOT_KEPT = {st.S_IFCHR: "a device", st.S_IFBLK: "a device", st.S_IFSOCK: "a socket"}


class ExportReport:
    """What an export did."""

    def __init__(self, image: str, form: str, place: str) -> None:
        self.image, self.format, self.place = image, form, place
        self.bytes = 0
        self.left_out: list[tuple[bytes, str]] = []

    def as_json(self) -> dict[str, object]:
        return {**vars(self), "left_out": [{"path": decoded(path), "why": why} for path, why in self.left_out]}


def export(store: Store, name: str, place: str, form: str = "tar") -> ExportReport:
    """Export to `place`, which must not exist; "-" is standard output."""
    report = ExportReport(name, form, place)
    lease, image = store.lease_image(name)
    try:
        for manifest in image.manifests:
            _check_manifest(store, manifest)
        if place == "-":
            if form != "tar":
                raise StoreUsageError("only --format tar can go to standard output; name a file or a directory.")
            _write_tar(store, image, sys.stdout.buffer.write, report)
            sys.stdout.buffer.flush()
            return report
        if os.path.lexists(place):
            raise StoreUsageError(f"{place} is there already; name another, or remove it first.")
        _export_to(store, image, report)
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error.strerror}; look at the file system it is on.") from None
    finally:
        lease.close()
    return report


def _check_manifest(store: Store, manifest: str) -> None:
    """Check the manifest before its names get out: programs that unpack an archive believe them."""
    with os.fdopen(store.open_blob(manifest), "rb") as file:
        try:
            check_manifest(file.read())
        except BadManifest as error:
            raise StoreError(
                f"the manifest {manifest[:16]} is none husk wrote: {error}; `husk store verify` says more."
            ) from None


def _export_to(store: Store, image: Image, report: ExportReport) -> None:
    folder, last = os.path.split(os.path.abspath(report.place))
    beside = os.path.join(folder, f".{last}-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        if report.format == "tar":
            with open(beside, "xb") as file:
                _write_tar(store, image, file.write, report)
        elif report.place.endswith(".tar"):
            layout = beside + ".d"
            try:
                _write_layout(store, image, layout, report)
                with open(beside, "xb") as file:
                    _pack_layout(layout, file.write)
            finally:
                shutil.rmtree(layout, ignore_errors=True)
        else:
            _write_layout(store, image, beside, report)
        os.rename(beside, report.place)
    except BaseException:
        if os.path.isdir(beside):
            shutil.rmtree(beside, ignore_errors=True)
        elif os.path.lexists(beside):
            os.unlink(beside)
        raise


def _write_tar(store: Store, image: Image, write: Callable[[bytes], object], report: ExportReport) -> None:
    def counted(data: bytes) -> None:
        write(data)
        report.bytes += len(data)

    _layer_tar(store, store.open_manifest(image.flat), counted, report, whiteouts=False)


def _layer_tar(
    store: Store, manifest: Manifest, write: Callable[[bytes], object], report: ExportReport, *, whiteouts: bool
) -> None:
    """All entries, depth first: an unpacker sets a directory's time when it is done with its content."""
    writer = TarWriter(write)
    firsts: dict[int, bytes] = {}  # the first name of each hard-linked file, by inode
    for entry in _depth_first(manifest):
        if why := _NOT_KEPT.get(st.S_IFMT(entry.mode)):
            report.left_out.append((entry.path, why))
            continue
        if entry.is_whiteout:
            folder, slash, name = entry.path.rpartition(b"/")
            writer.add(folder + slash + WHITEOUT_NAME + name, st.S_IFREG)
            continue
        if whiteouts and entry.name.startswith(WHITEOUT_NAME):
            raise StoreError(f"{shown(entry.path)} would mean something else in an OCI layer; export it as tar.")
        _add(store, writer, entry, firsts)
        if entry.is_opaque:
            writer.add(entry.path + b"/" + OPAQUE_NAME if entry.path else OPAQUE_NAME, st.S_IFREG)
    writer.finish()


def _depth_first(manifest: Manifest) -> Iterator[Entry]:
    waiting = [manifest.entry(0)]
    while waiting:
        entry = waiting.pop()
        yield entry
        if entry.is_directory:
            waiting += reversed([*manifest.children(entry)])


def _add(store: Store, writer: TarWriter, entry: Entry, firsts: dict[int, bytes]) -> None:
    several = entry.nlink > 1 and not entry.is_directory
    first = firsts.get(entry.inode, b"") if several else b""
    if several and not first:
        firsts[entry.inode] = entry.path
    whole = entry.is_file and not first
    writer.add(
        entry.path or b".",
        entry.mode,
        uid=entry.uid,
        gid=entry.gid,
        mtime_ns=entry.mtime_ns,
        target=b"" if first else entry.target,
        linked_to=first,
        xattrs=None if first else entry.xattrs,
        size=entry.size if whole else 0,
        content=_content(store, entry) if whole else (),
    )


def _content(store: Store, entry: Entry) -> Iterator[bytes]:
    fd = store.open_blob(entry.hash)
    digest = blake3()
    try:
        left = entry.size
        while piece := os.read(fd, CHUNK):
            digest.update(piece)
            left -= len(piece)
            if left >= 0:
                yield piece
    finally:
        os.close(fd)
    # A damaged blob must not be exported under a digest that calls it whole.
    if left or digest.hexdigest() != entry.hash:
        raise StoreError(f"the blob {entry.hash} is damaged; `husk store verify` says what to do.")


def _write_layout(store: Store, image: Image, folder: str, report: ExportReport) -> None:
    blobs = os.path.join(folder, "blobs", "sha256")
    os.makedirs(blobs)
    layers = [_layer_blob(store, layer, blobs, report) for layer in image.layers]
    config = _blob(blobs, _CONFIG, _json(_config(image.config, [str(layer["digest"]) for layer in layers])), report)
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}
    found = _blob(blobs, _MANIFEST, _json(manifest), report)
    found |= {"annotations": {REF_NAME: report.image}, "platform": {"architecture": ARCHITECTURE, "os": OS}}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [found]}
    for name, document in (("index.json", index), ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        with open(os.path.join(folder, name), "xb") as file:
            file.write(_json(document))


def _config(config: ImageConfig, diff_ids: list[str]) -> dict[str, object]:
    said: dict[str, object] = {
        "Env": [f"{name}={value}" for name, value in config.env.items()],
        "User": config.user,
        "WorkingDir": config.workdir,
        "Entrypoint": config.entrypoint,
        "Cmd": config.cmd,
        "Labels": config.labels,
    }
    return {
        "architecture": ARCHITECTURE,
        "os": OS,
        "config": {name: value for name, value in said.items() if value},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }


def _layer_blob(store: Store, layer: str, blobs: str, report: ExportReport) -> dict[str, object]:
    beside = os.path.join(blobs, f".{layer}")
    digest = hashlib.sha256()
    size = 0
    with open(beside, "wb") as file:

        def write(data: bytes) -> None:
            nonlocal size
            file.write(data)
            digest.update(data)
            size += len(data)

        _layer_tar(store, store.open_manifest(layer), write, report, whiteouts=True)
    os.rename(beside, os.path.join(blobs, digest.hexdigest()))
    report.bytes += size
    return {"mediaType": _LAYER, "digest": f"sha256:{digest.hexdigest()}", "size": size}


def _blob(blobs: str, kind: str, data: bytes, report: ExportReport) -> dict[str, object]:
    digest = hashlib.sha256(data).hexdigest()
    with open(os.path.join(blobs, digest), "wb") as file:
        file.write(data)
    report.bytes += len(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode()


def _pack_layout(layout: str, write: Callable[[bytes], object]) -> None:
    """The layout as one archive, descriptions first."""
    writer = TarWriter(write)
    blobs = os.path.join(layout, "blobs", "sha256")
    for name in ("oci-layout", "index.json"):
        _pack_file(writer, os.path.join(layout, name), name)
    for folder in ("blobs", "blobs/sha256"):
        writer.add(folder.encode(), st.S_IFDIR | 0o755)
    for name in sorted(os.listdir(blobs)):
        _pack_file(writer, os.path.join(blobs, name), f"blobs/sha256/{name}")
    writer.finish()


def _pack_file(writer: TarWriter, path: str, name: str) -> None:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        writer.add(name.encode(), st.S_IFREG | 0o644, size=size, content=iter(lambda: file.read(CHUNK), b""))

"""images: import. Nothing of a source is visible in the store before all of it was read and checked."""

from __future__ import annotations

import os
import stat as st
import time

from husk.abi.text import decoded
from husk.images import oci
from husk.images.archive_layer import LayerBuilder
from husk.images.archive_limits import Budget, Limits, Refused
from husk.images.decompress import FileRange, compression, decompress
from husk.images.source import Bundle, FolderBundle, TarBundle, decompress_to_file, looks_like_bundle, open_archive
from husk.images.tarread import TarReader
from husk.store.images import PACKAGES, ImageConfig, check_name
from husk.store.ingest import Options, failure, ingest
from husk.store.manifests.manifest import Manifest
from husk.store.manifests.manifest_writer import ManifestWriter
from husk.store.store_errors import StoreError, StoreUsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.store.store import Store, Writing

    Progress = Callable[[int, int], None]  # files and bytes done


class ImportReport:
    """What an import did."""

    def __init__(self, kind: str) -> None:
        self.kind = kind  # directory, tar, oci
        self.image = ""
        self.layers: list[str] = []
        self.flat = ""
        self.files = self.bytes = 0
        self.new_blobs = self.new_bytes = 0
        self.left_out: list[tuple[bytes, str]] = []
        self.seconds = 0.0

    def as_json(self) -> dict[str, object]:
        left_out = [{"path": decoded(path), "why": why} for path, why in self.left_out]
        return {**vars(self), "left_out": left_out}


def import_image(
    store: Store,
    source: str,
    name: str = "",
    *,
    ref: str = "",
    limits: Limits | None = None,
    progress: Progress | None = None,
    data: bool = True,
) -> ImportReport:
    """Make an image of a directory or an archive. Not `data`: a plain root without a program is refused, since it is
    most likely not what was meant."""
    started = time.monotonic()
    if name:
        check_name(name)
    budget = Budget(limits or Limits())
    try:
        if os.path.isdir(source):
            report = _import_directory(store, source, name, ref, budget, progress, data)
        else:
            report = _import_archive(store, source, name, ref, budget, progress, data)
    except OSError as error:
        raise StoreError(failure(store, error)) from error
    report.seconds = time.monotonic() - started
    return report


def _import_directory(
    store: Store, source: str, name: str, ref: str, budget: Budget, progress: Progress | None, data: bool
) -> ImportReport:
    bundle = FolderBundle(source)
    try:
        found = _described(bundle, ref)
        if found is not None:
            with store.writing() as writing:
                return _import_layers(writing, bundle, found, name or _declared_name(found, source), budget, progress)
    finally:
        bundle.close()
    _refuse_ref(ref)
    return _import_tree(store, source, name or _file_name(source), progress, data)


def import_found(
    store: Store,
    bundle: Bundle,
    source: str,
    name: str,
    budget: Budget,
    progress: Progress | None,
    platform: tuple[str, ...] = oci.PLATFORM,
) -> ImportReport:
    """Make an image of an OCI layout that came another way than as a file. `source` is what messages call it."""
    started = time.monotonic()
    found = oci.find_image(bundle, "", platform)
    if found is None:
        raise Refused(f"{source} holds no image.")
    try:
        with store.writing() as writing:
            report = _import_layers(writing, bundle, found, name, budget, progress)
    except OSError as error:
        raise StoreError(failure(store, error)) from error
    report.seconds = time.monotonic() - started
    return report


def _described(bundle: Bundle, ref: str) -> oci.FoundImage | None:
    """A root file system may hold a manifest.json too; the one of `docker save` is a list."""
    saved = bundle.has("manifest.json") and bundle.document("manifest.json").lstrip()[:1] == b"["
    return oci.find_image(bundle, ref) if saved or bundle.has("oci-layout") else None


def _import_tree(store: Store, source: str, name: str, progress: Progress | None, data: bool) -> ImportReport:
    report = ImportReport("directory")
    with store.writing() as writing:  # from the beginning: no collection may run between the blobs and their name
        # Secrets too: a root file system is wanted whole, and a missing file would break what runs in it.
        found = ingest(store, source, "", Options(include_secrets=True), progress)
        report.files, report.bytes = found.files, found.bytes
        report.new_blobs, report.new_bytes = found.new_blobs, found.new_bytes
        manifest = found.manifest
        if not data:
            _require_program(source, store.open_manifest(manifest))
        if found.others:
            manifest = _without_devices(writing, store.open_manifest(manifest), report)
        _set_image(writing, name, [manifest], ImageConfig(), report)
    return report


def _require_program(source: str, root: Manifest) -> None:
    if not any(st.S_ISREG(entry.mode) and entry.mode & 0o111 for entry in root.walk()):
        raise StoreUsageError(
            f"{source} holds no program, so it is no root file system; name one, or use --data for files to be mounted."
        )


def _without_devices(writing: Writing, manifest: Manifest, report: ImportReport) -> str:
    """A box has devices of its own, and a socket file is useless without its listener."""
    writer = ManifestWriter()
    for entry in manifest.walk():
        kinds = {st.S_IFCHR: "a device", st.S_IFBLK: "a device", st.S_IFSOCK: "a socket"}
        if why := kinds.get(st.S_IFMT(entry.mode)):
            report.left_out.append((entry.path, why))
            continue
        writer.copy(entry)
    return writing.put_manifest(writer.finish())


def _import_archive(
    store: Store, source: str, name: str, ref: str, budget: Budget, progress: Progress | None, data: bool
) -> ImportReport:
    fd, size = open_archive(source)
    with store.writing() as writing:
        try:
            if looks_like_bundle(fd, size, budget):
                if compression(FileRange(fd, 0, size)):
                    packed = fd
                    fd, size = decompress_to_file(packed, size, writing.stage.fd, budget)
                    os.close(packed)
                bundle = TarBundle(os.dup(fd), size, budget)
                try:
                    found = _described(bundle, ref)
                    if found is not None:
                        own = name or _declared_name(found, source)
                        return _import_layers(writing, bundle, found, own, budget, progress)
                finally:
                    bundle.close()
            _refuse_ref(ref)
            report = ImportReport("tar")
            layer = LayerBuilder(writing.stage, budget, whiteouts=False)
            _read_layer(layer, FileRange(fd, 0, size), budget, progress, report)
            manifest = writing.put_manifest(layer.finish())
            if not data:
                _require_program(source, _open_staged(writing, manifest))
            _set_image(writing, name or _file_name(source), [manifest], ImageConfig(), report)
            return report
        finally:
            os.close(fd)


def _import_layers(
    writing: Writing, bundle: Bundle, found: oci.FoundImage, name: str, budget: Budget, progress: Progress | None
) -> ImportReport:
    check_name(name)
    report = ImportReport("oci")
    layers: list[str] = []
    below: list[Manifest] = []
    for source in found.layers:
        try:
            piece = bundle.piece(source.name)
        except KeyError:
            raise Refused(f"the layer {source.name} is missing from the archive; fetch it again.") from None
        layer = LayerBuilder(writing.stage, budget, whiteouts=True, below=below)
        packed, plain = _read_layer(layer, piece, budget, progress, report)
        if source.digest not in ("", packed) or source.diff_id != plain:
            raise Refused(f"the layer {source.name} is not what its digest says; fetch the archive again.")
        layers.append(writing.put_manifest(layer.finish()))
        below.append(_open_staged(writing, layers[-1]))
    _set_image(writing, name, layers, found.config, report)
    return report


def _read_layer(
    layer: LayerBuilder, piece: FileRange, budget: Budget, progress: Progress | None, report: ImportReport
) -> tuple[str, str]:
    """Read one layer; returns the digests of the compressed and the plain bytes."""
    stream = decompress(piece, budget)

    def advance(files: int, size: int) -> None:
        if progress is not None:
            progress(report.files + files, report.bytes + size)

    layer.read(TarReader(stream, budget), progress and advance)
    report.files += layer.files
    report.bytes += layer.bytes
    report.left_out += layer.left_out
    return f"sha256:{piece.digest.hexdigest()}", f"sha256:{stream.digest.hexdigest()}"


def _open_staged(writing: Writing, manifest: str) -> Manifest:
    """Open a manifest that may not be published yet."""
    try:
        fd = writing.stage.open_staged(manifest)
    except FileNotFoundError:
        return writing.store.open_manifest(manifest)
    try:
        return Manifest(fd)
    finally:
        os.close(fd)


def _set_image(writing: Writing, name: str, layers: list[str], config: ImageConfig, report: ImportReport) -> None:
    report.new_blobs += writing.stage.new_blobs
    report.new_bytes += writing.stage.new_bytes
    image = writing.set_image(name, layers, config)
    report.image, report.layers, report.flat = name, image.layers, image.flat


def _declared_name(found: oci.FoundImage, source: str) -> str:
    """The name the archive gives, if husk allows it as a name. Names of package layers are husk's own: an archive may
    not claim one."""
    try:
        if not found.name.startswith(PACKAGES):
            return check_name(found.name)
    except StoreUsageError:
        pass
    return _file_name(source)


def _file_name(source: str) -> str:
    name = os.path.basename(os.path.abspath(source))
    for ending in (".gz", ".xz", ".zst", ".bz2", ".tgz", ".txz", ".tzst", ".tar"):
        name = name.removesuffix(ending)
    try:
        return check_name(name)
    except StoreUsageError:
        raise StoreUsageError(f"{source} gives no name for the image; say which with --name.") from None


def _refuse_ref(ref: str) -> None:
    if ref:
        raise StoreUsageError("--ref chooses among the images of an archive; this is a plain root without any.")

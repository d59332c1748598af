"""store: verify. Hashes every blob again, and moves damaged ones to quarantine.

Reading needs no lock: blobs do not change. Moving does, since it removes a name that others may use.
"""

from __future__ import annotations

import os
import threading

from blake3 import blake3

from husk.abi.text import decoded
from husk.store import layout
from husk.store.locks import StoreLock
from husk.store.manifests.check_manifest import check_manifest
from husk.store.staging import run_threads
from husk.store.store import Store
from husk.store.store_errors import BadManifest, StoreError, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from husk.store.manifests.plain_manifest import PlainManifest

SMALL = 1 << 20


class Finding:
    """One blob, manifest or record that is not as it should be."""

    def __init__(self, what: str, hash_: str, why: str) -> None:
        self.what, self.hash, self.why = what, hash_, why
        self.images: list[str] = []
        self.paths: list[str] = []  # at most a few
        self.quarantined = self.repaired = False

    def as_json(self) -> dict[str, object]:
        return dict(vars(self))


class Outcome:
    """Counts of everything that was read, and the findings."""

    def __init__(self) -> None:
        self.blobs = self.bytes = self.images = 0
        self.findings: list[Finding] = []

    @property
    def clean(self) -> bool:
        return all(finding.repaired for finding in self.findings)

    def as_json(self) -> dict[str, object]:
        return {
            "blobs": self.blobs,
            "bytes": self.bytes,
            "images": self.images,
            "clean": self.clean,
            "findings": [finding.as_json() for finding in self.findings],
        }


def all_blobs(place: str) -> Iterator[str]:
    """Hashes of all blobs. A file below blake3/ that is not named by a hash is given as its path."""
    top = os.path.join(place, "blake3")
    for first in sorted(os.listdir(top)):
        folder = os.path.join(top, first)
        # Not through a link: what it points to does not belong to the store.
        if len(first) != 2 or os.path.islink(folder) or not os.path.isdir(folder):
            yield f"./{first}"
            continue
        for name in _names(folder):
            yield name if layout.is_hash(name) and name.startswith(first) else f"{first}/{name}"


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except (NotADirectoryError, FileNotFoundError):
        return []


def verify(store: Store, jobs: int = 0, progress: Callable[[int, int], None] | None = None) -> Outcome:
    """Read everything and change nothing. `settle` acts on what this found."""
    outcome = Outcome()
    names = iter(all_blobs(store.place))
    lock = threading.Lock()

    def work(_: int) -> None:
        while True:
            with lock:
                name = next(names, None)
            if name is None:
                return
            size, why = _check_blob(store, name)
            with lock:
                outcome.blobs += 1
                outcome.bytes += size
                if why:
                    outcome.findings.append(Finding("mode" if why.startswith("its mode") else "blob", name, why))
                done = outcome.blobs, outcome.bytes
            if progress:
                progress(*done)

    run_threads(jobs or len(os.sched_getaffinity(0)), work)
    _check_images(store, outcome)
    outcome.findings.sort(key=lambda finding: (finding.what, finding.hash))
    return outcome


def _check_blob(store: Store, name: str) -> tuple[int, str]:
    """(size, what is wrong) of one file below blake3/."""
    if not layout.is_hash(name):
        return 0, "nothing of this name belongs there"
    try:
        fd = os.open(store.blob_path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return 0, ""  # collected meanwhile
    except OSError as error:
        return 0, f"it cannot be read: {error.strerror}"
    try:
        hasher = blake3()
        size = 0
        while data := os.read(fd, SMALL):
            hasher.update(data)
            size += len(data)
        mode = os.fstat(fd).st_mode & 0o7777
    except OSError as error:
        return 0, f"it cannot be read: {error.strerror}"
    finally:
        os.close(fd)
    if hasher.hexdigest() != name:
        return size, "its content has changed"
    return size, "" if mode == 0o444 else f"its mode is {mode:o}, not 444"


def _check_images(store: Store, outcome: Outcome) -> None:
    """Add to each finding the images that use it, and find what images name that is missing."""
    found = {finding.hash: finding for finding in outcome.findings}
    checked: dict[str, PlainManifest] = {}

    def finding(what: str, hash_: str, why: str) -> Finding:
        if hash_ not in found:
            found[hash_] = Finding(what, hash_, why)
            outcome.findings.append(found[hash_])
        return found[hash_]

    for name in store.images.list():
        outcome.images += 1
        try:
            layers = store.images.get(name).manifests
        except StoreError as error:
            finding("image", name, str(error)).images.append(name)
            continue
        for layer in layers:
            if layer in found and found[layer].what in ("blob", "manifest"):
                found[layer].what = "manifest"
                found[layer].images.append(name)
                continue
            try:
                _check_one_manifest(store, layer, name, finding, found, checked)
            except BadManifest as error:
                finding("manifest", layer, str(error)).images.append(name)
            except FileNotFoundError:
                finding("manifest", layer, "it is missing").images.append(name)


def _check_one_manifest(
    store: Store,
    layer: str,
    image: str,
    finding: Callable[[str, str, str], Finding],
    found: dict[str, Finding],
    checked: dict[str, PlainManifest],
) -> None:
    if layer not in checked:  # images share layers, and checking one takes long
        with open(store.blob_path(layer), "rb") as file:
            checked[layer] = check_manifest(file.read())
    manifest = checked[layer]
    for number in range(len(manifest)):
        raw = manifest.entry(number)
        if raw[2] & 0o170000 != 0o100000:
            continue
        blob = raw[12].hex()
        if blob not in found:
            try:
                size = os.stat(store.blob_path(blob)).st_size
            except FileNotFoundError:
                finding("blob", blob, "it is missing")
            else:
                if size != raw[7]:
                    finding("manifest", layer, f"{shown(raw[0])} has another size than its blob").images.append(image)
        if blob in found and found[blob].what == "blob":
            touched = found[blob]
            if image not in touched.images:
                touched.images.append(image)
            if len(touched.paths) < 5:
                touched.paths.append(decoded(raw[0]))


def settle(store: Store, outcome: Outcome) -> None:
    """Correct modes, and move damaged files to quarantine. `repair` can then restore blobs from elsewhere."""
    for finding in outcome.findings:
        if finding.what == "mode":  # the content is good
            fd = store.open_blob(finding.hash)
            os.fchmod(fd, 0o444)
            os.close(fd)
            finding.repaired = True
    damaged = [finding for finding in outcome.findings if _is_there(store, finding)]
    if damaged:
        with StoreLock(store.place, exclusive=True):
            store.next_generation()
            for finding in damaged:
                _quarantine(store, finding)


def _is_there(store: Store, finding: Finding) -> bool:
    return finding.what not in ("image", "mode") and os.path.lexists(_path(store, finding.hash))


def _path(store: Store, name: str) -> str:
    return store.blob_path(name) if layout.is_hash(name) else os.path.join(store.place, "blake3", name)


def _quarantine(store: Store, finding: Finding) -> None:
    path = _path(store, finding.hash)
    # Checked again under the lock: another verify may have replaced it with a good one.
    if layout.is_hash(finding.hash) and finding.what == "blob" and not _check_blob(store, finding.hash)[1]:
        return
    from husk.store.protect import release

    release(path)
    try:
        os.rename(path, os.path.join(store.place, "quarantine", f"{os.path.basename(path)}.{os.urandom(4).hex()}"))
        finding.quarantined = True
    except FileNotFoundError:
        pass
    layout.sync_directory(os.path.dirname(path))

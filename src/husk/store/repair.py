"""store: bringing back blobs that are missing, from another store or from a directory that still has the files."""

from __future__ import annotations

import os
import stat as st

from husk.native import _core
from husk.store import layout
from husk.store.store_errors import StoreError, StoreUsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.store.store import Store, Writing
    from husk.store.verify import Finding, Outcome


def repair(store: Store, outcome: Outcome, source: str) -> None:
    """Restore what `verify` found missing and `settle` moved away."""
    wanted = {
        finding.hash: finding
        for finding in outcome.findings
        if finding.what != "image" and layout.is_hash(finding.hash) and not store.has(finding.hash)
    }
    if not os.path.isdir(source):
        raise StoreUsageError(f"--repair-from {source}: there is no such directory.")
    with store.writing() as writing:
        if _is_store(source):
            for hash_ in list(wanted):
                _try(writing, os.path.join(source, "blake3", layout.blob_place(hash_)), wanted)
        else:
            sizes = _sizes(store)
            lengths = {sizes.get(hash_, -1) for hash_ in wanted}
            # A manifest's own length is not written anywhere: with one missing every file is a candidate.
            for path, size in _files(source):
                if not wanted:
                    break
                if size in lengths or -1 in lengths:
                    _try(writing, path, wanted)
        writing.publish()
    for finding in outcome.findings:
        finding.repaired = finding.repaired or (layout.is_hash(finding.hash) and store.has(finding.hash))


def _is_store(source: str) -> bool:
    """Is it a store of this version? The blobs of an older one are found as plain files, which takes longer."""
    try:
        with open(os.path.join(source, "version"), "rb") as file:
            return file.read(100) == layout.VERSION
    except OSError:
        return False


def _try(writing: Writing, path: str, wanted: dict[str, Finding]) -> None:
    """Hash it first: what is not wanted must not come into the store."""
    from blake3 import blake3

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return
    try:
        hasher = blake3()
        at = 0
        while data := os.pread(fd, 1 << 20, at):
            hasher.update(data)
            at += len(data)
        # The copy is hashed again on its way in, and named by that: a file that changes now cannot get a wrong name.
        if hasher.hexdigest() in wanted:
            wanted.pop(writing.put_blob(fd), None)
    finally:
        os.close(fd)


def _files(top: str) -> Iterator[tuple[str, int]]:
    tree = _core.Tree()
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        tree.scan(fd, [], False)
    finally:
        os.close(fd)
    for number in range(len(tree)):
        path = os.path.join(top, os.fsdecode(tree.path(number)))
        try:
            found = os.lstat(path)
        except OSError:
            continue
        if st.S_ISREG(found.st_mode):
            yield path, found.st_size


def _sizes(store: Store) -> dict[str, int]:
    """How large each blob is that an image names."""
    sizes: dict[str, int] = {}
    for name in store.images.list():
        try:
            for layer in store.images.get(name).manifests:
                for entry in store.open_manifest(layer).walk():
                    if entry.is_file:
                        sizes[entry.hash] = entry.size
        except StoreError:
            continue  # verify has said so already
    return sizes

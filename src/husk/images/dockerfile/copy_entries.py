"""images: what one COPY puts into an image, as entries of a layer: from the context, or from another image."""

from __future__ import annotations

import os
import stat as st
from typing import TYPE_CHECKING

from blake3 import blake3

from husk.images import tarread
from husk.images.build_layers import is_directory, resolve
from husk.images.dockerfile.build_context import open_file
from husk.images.tarread import TarEntry
from husk.store.store_errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from husk.images.dockerfile.build_context import BuildContext, ContextFile
    from husk.images.dockerfile.dockerfile_syntax import Instruction
    from husk.store.manifests.manifest import Entry, Manifest
    from husk.store.store import Store

_KINDS = {
    st.S_IFREG: tarread.FILE,
    st.S_IFDIR: tarread.DIRECTORY,
    st.S_IFLNK: tarread.SYMLINK,
    st.S_IFIFO: tarread.FIFO,
}


class Item:
    """One name to copy. `rel` is its path below the source, empty for the source itself, whose own name is `base`.

    `digest` is of a file's content, by BLAKE3: the store's name for it.
    """

    __slots__ = ("base", "digest", "gid", "kind", "mode", "mtime_ns", "path", "rel", "size", "target", "uid", "xattrs")

    def __init__(self, base: bytes, rel: bytes, kind: int, mode: int) -> None:
        self.base, self.rel, self.kind, self.mode = base, rel, kind, mode
        self.uid = self.gid = self.mtime_ns = self.size = 0
        self.target = b""
        self.digest = self.path = ""
        self.xattrs: dict[bytes, bytes] = {}

    def key(self) -> list[object]:
        attributes = [[name.hex(), value.hex()] for name, value in sorted(self.xattrs.items())]
        names = [os.fsdecode(one) for one in (self.base, self.rel, self.target)]
        return [*names, self.kind, self.mode, self.uid, self.gid, self.mtime_ns, self.digest, attributes]


def from_context(said: Instruction, context: BuildContext, patterns: list[str]) -> list[Item]:
    """Owned by root and of no time: equal files give equal layers."""
    found = []
    for pattern in patterns:
        for path, name in context.sources(said, pattern):
            base = os.fsencode(os.path.basename(name))
            found += [_of_context(file, base) for file in context.files(said, path, name)]
    return found


def _of_context(file: ContextFile, base: bytes) -> Item:
    made = Item(base, os.fsencode(file.rel), file.kind, file.mode)
    made.path, made.digest, made.target = file.path, file.digest, os.fsencode(file.target)
    made.size = file.size if file.kind == st.S_IFREG else 0
    return made


def from_image(said: Instruction, store: Store, manifest: Manifest, sources: list[str]) -> list[Item]:
    """With the owners and times they have there."""
    found = []
    for source in sources:
        wanted = source.encode("utf-8", "surrogateescape")
        at = resolve(manifest, wanted)
        entry = manifest.lookup(at)
        if entry is None:
            raise said.wrong(f"there is no {source} in what is copied from; patterns are for the context only.")
        found += [_of_image(store, one, at, os.path.basename(wanted.rstrip(b"/"))) for one in _below(manifest, entry)]
    return found


def _below(manifest: Manifest, entry: Entry) -> Iterator[Entry]:
    waiting = [entry]
    while waiting:
        one = waiting.pop()
        yield one
        if one.is_directory:
            waiting += list(manifest.children(one))[::-1]


def _of_image(store: Store, entry: Entry, top: bytes, base: bytes) -> Item:
    rel = entry.path[len(top) :].lstrip(b"/") if top else entry.path
    made = Item(base, rel, st.S_IFMT(entry.mode), st.S_IMODE(entry.mode))
    made.uid, made.gid, made.mtime_ns, made.target = entry.uid, entry.gid, entry.mtime_ns, entry.target
    made.xattrs = entry.xattrs
    if entry.is_file:
        made.digest, made.size, made.path = entry.hash, entry.size, store.blob_path(entry.hash)
    return made


class CopyEntries:
    """The items at their places in the image: what archive_layer.LayerBuilder reads.

    `owner` and `mode` go before an item's own; directories that are made on the way are the owner's, too.
    """

    def __init__(
        self,
        items: Iterable[Item],
        below: Manifest | None,
        to: bytes,
        *,
        into: bool,
        owner: tuple[int, int] | None,
        mode: int | None,
    ) -> None:
        self.items, self.below, self.to, self.into = items, below, to, into
        self.owner, self.mode = owner, mode
        self._file: BinaryIO | None = None
        self._hasher = blake3()
        self._left = 0
        self._item: Item | None = None

    def __iter__(self) -> Iterator[TarEntry]:
        there: set[bytes] = set()  # names given so far, and directories that were there before
        top = self.to
        into = self.into or is_directory(self.below, top)
        last: dict[bytes, Item] = {}  # two sources may have the same name: the last one holds
        start = top
        for item in self.items:
            if not item.rel:
                start = top if item.kind == st.S_IFDIR or not into else os.path.join(top, item.base)
            # A directory in place of the link /lib -> usr/lib would hide all of /usr/lib: resolve the parents.
            full = os.path.join(start, item.rel) if item.rel else start
            if item.kind == st.S_IFDIR:
                place = resolve(self.below, full)
            else:
                place = os.path.join(resolve(self.below, os.path.dirname(full)), os.path.basename(full))
            last[place] = item
        for place, item in last.items():
            for parent in _parents(place):
                if parent not in there and parent not in last and not is_directory(self.below, parent):
                    yield self._directory(parent)
                there.add(parent)
            if item.kind == st.S_IFDIR and (not place or is_directory(self.below, place)):
                continue  # an existing directory keeps its metadata
            yield self._entry(item, place)
            self._close()

    def _directory(self, path: bytes) -> TarEntry:
        entry = TarEntry(path, tarread.DIRECTORY, 0)
        entry.mode = 0o755
        entry.uid, entry.gid = self.owner or (0, 0)
        return entry

    def _entry(self, item: Item, place: bytes) -> TarEntry:
        entry = TarEntry(place, _KINDS[item.kind], 0)
        entry.mode = item.mode if self.mode is None or item.kind == st.S_IFLNK else self.mode
        entry.uid, entry.gid = self.owner or (item.uid, item.gid)
        entry.target, entry.mtime_ns, entry.xattrs = item.target, item.mtime_ns, item.xattrs or None
        if item.kind == st.S_IFREG:
            self._file, self._hasher, self._item = open_file(item.path), blake3(), item
            entry.size = self._left = item.size
        return entry

    def content(self, most: int) -> bytes:
        assert self._file is not None and self._item is not None
        data = self._file.read(min(most, self._left))
        self._left -= len(data)
        self._hasher.update(data)
        # The layer is cached under the digests that were read first: nothing else may get into it.
        if (not data and self._left) or (not self._left and self._hasher.hexdigest() != self._item.digest):
            raise StoreError(f"{self._item.path} was changed meanwhile; build again.")
        return data

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _parents(path: bytes) -> Iterator[bytes]:
    """The directories above a path, the highest first, without the root."""
    parts = path.split(b"/")[:-1]
    for count in range(1, len(parts) + 1):
        yield b"/".join(parts[:count])

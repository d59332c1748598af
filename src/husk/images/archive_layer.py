"""images: turn the entries of an archive into a manifest. Decides which names are allowed, and where.

No name of an archive ever reaches a file system. But a program that unpacks an exported image, and the reader of a
report, believe the names. So `..`, absolute names, names below something that is no directory, and duplicate names are
refused.

A million entries take about 550 bytes of memory each at the peak: a file's metadata stays packed into bytes until all
entries are known, because only then it is known which of them are hard links.
"""

from __future__ import annotations

import stat as st
import struct

from husk.images import tarread
from husk.images.archive_limits import refuse
from husk.store.manifests.manifest import OPAQUE, WHITEOUT
from husk.store.manifests.manifest_writer import ManifestWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol

    from husk.images.archive_limits import Budget
    from husk.images.tarread import TarEntry
    from husk.store.manifests.manifest import Manifest
    from husk.store.staging import Stage

    class Entries(Protocol):
        """What a layer is read from: an archive, or copied files in the same form."""

        def __iter__(self) -> Iterator[TarEntry]: ...
        def content(self, most: int) -> bytes: ...


SMALL = 1 << 20
NAME_LIMIT, PATH_LIMIT = 255, 4095
WHITEOUT_NAME, OPAQUE_NAME, AUFS_NAME = b".wh.", b".wh..wh..opq", b".wh..wh."
_PACKED = struct.Struct("<IIIQq32s")  # mode, uid, gid, size, mtime, blob
_NO_DIGEST = bytes(32)
_MODES = {tarread.SYMLINK: st.S_IFLNK, tarread.FIFO: st.S_IFIFO, tarread.FILE: st.S_IFREG}
IMPLIED = st.S_IFDIR | 0o755, 0, 0, 0

Attributes = tuple[int, int, int, int]  # mode, uid, gid, mtime


def archive_path(name: bytes, what: str = "its name") -> bytes:
    """The path in the manifest for a name in an archive; the root is empty."""
    if name.startswith(b"/"):
        raise refuse(name, f"{what} is absolute")
    if b"\0" in name:
        raise refuse(name, f"{what} has a NUL in it")
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise refuse(name, f"{what} leads out of the archive")
    if len(name) > PATH_LIMIT or any(len(part) > NAME_LIMIT for part in parts):
        raise refuse(name, f"{what} is longer than Linux allows")
    return b"/".join(parts)


class LayerBuilder:
    """Builds one layer. `whiteouts`: names that begin with .wh. are whiteouts, as in OCI layers.

    `below`: the layers under it, lowest first; a directory the archive does not mention has its metadata from there.
    """

    def __init__(self, stage: Stage, budget: Budget, *, whiteouts: bool, below: Sequence[Manifest] = ()) -> None:
        self.stage, self.budget, self.whiteouts, self.below = stage, budget, whiteouts, below
        self.left_out: list[tuple[bytes, str]] = []
        self.files = self.bytes = 0
        self._files: dict[bytes, bytes] = {}
        self._directories: dict[bytes, Attributes | None] = {b"": None}  # None: implied by a name below it
        self._targets: dict[bytes, bytes] = {}
        self._xattrs: dict[bytes, dict[bytes, bytes]] = {}
        self._links: dict[bytes, bytes] = {}  # further hard links, and the first name of each
        self._hidden: dict[bytes, bool] = {}  # whiteouts
        self._opaque: set[bytes] = set()
        self._left_out: set[bytes] = set()

    def read(self, reader: Entries, progress: Callable[[int, int], None] | None = None) -> None:
        for count, entry in enumerate(reader):
            if progress is not None and not count % 256:
                progress(self.files, self.bytes)
            path = archive_path(entry.name)
            self.budget.count_names(entry.name, len(path) + len(entry.target))
            folder, _, name = path.rpartition(b"/")
            if self.whiteouts and name.startswith(WHITEOUT_NAME):
                self._whiteout(entry, folder, name)
            elif entry.kind in (tarread.CHARACTER, tarread.BLOCK_DEVICE):
                self._leave_out(path, "a device")
            elif entry.kind == tarread.DIRECTORY:
                self._directory(entry, path)
            elif not path:
                raise refuse(entry.name, "the root of an archive is a directory")
            else:
                self._check_new(entry, path, folder)
                if entry.kind == tarread.LINK:
                    self._link(entry, path)
                else:
                    self._file(entry, path, reader)

    def _check_new(self, entry: TarEntry, path: bytes, folder: bytes) -> None:
        if path in self._files or path in self._directories or path in self._links:
            raise refuse(entry.name, "the name comes twice")
        if folder not in self._directories:
            self._add_parents(entry, folder)

    def _add_parents(self, entry: TarEntry, folder: bytes) -> None:
        """Add the parent directories, which an archive need not mention."""
        at = 0
        while at < len(folder):
            at = folder.find(b"/", at + 1)
            at = len(folder) if at < 0 else at
            path = folder[:at]
            if path in self._files or path in self._links:
                raise refuse(entry.name, f"it lies in {path.decode('utf-8', 'backslashreplace')!r}, no directory")
            if path not in self._directories:
                # One short entry can imply two thousand parents, two megabytes of names together.
                self.budget.entry(entry.name)
                self.budget.count_names(entry.name, len(path))
                self._directories[path] = None

    def _directory(self, entry: TarEntry, path: bytes) -> None:
        if path in self._files or path in self._links:
            raise refuse(entry.name, "the name comes twice")
        if path not in self._directories:
            self._add_parents(entry, path.rpartition(b"/")[0])
        # A directory may be repeated, and several archivers do so: the last entry holds.
        self._directories[path] = st.S_IFDIR | entry.mode, entry.uid, entry.gid, entry.mtime_ns
        self._keep_xattrs(entry, path)

    def _file(self, entry: TarEntry, path: bytes, reader: Entries) -> None:
        digest = _NO_DIGEST
        if entry.kind == tarread.FILE:
            digest = bytes.fromhex(self._content(entry, reader))
            self.files += 1
            self.bytes += entry.size
        elif entry.kind == tarread.SYMLINK:
            if not entry.target or b"\0" in entry.target or len(entry.target) > PATH_LIMIT:
                raise refuse(entry.name, "what it leads to is empty, too long, or has a NUL in it")
            self._targets[path] = entry.target
        mode = _MODES[entry.kind] | (0o777 if entry.kind == tarread.SYMLINK else entry.mode)
        self._files[path] = _PACKED.pack(mode, entry.uid, entry.gid, entry.size, entry.mtime_ns, digest)
        self._keep_xattrs(entry, path)

    def _content(self, entry: TarEntry, reader: Entries) -> str:
        if entry.size > SMALL:
            return self.stage.copy_pieces(iter(lambda: reader.content(SMALL), b""))[0]
        return self.stage.put_one_of_many(reader.content(entry.size))

    def _link(self, entry: TarEntry, path: bytes) -> None:
        first = archive_path(entry.target, "what it is linked to")
        first = self._links.get(first, first)
        if first in self._left_out:
            self._leave_out(path, "a device")
            return
        if first not in self._files:
            raise refuse(entry.name, f"it is linked to {entry.target!r}, no file that comes before it")
        self._links[path] = first

    def _whiteout(self, entry: TarEntry, folder: bytes, name: bytes) -> None:
        if folder not in self._directories:
            self._add_parents(entry, folder)
        if name == OPAQUE_NAME:
            self._opaque.add(folder)
        elif name.startswith(AUFS_NAME):
            self._leave_out(folder + b"/" + name, "a note of aufs")
        elif len(name) == len(WHITEOUT_NAME):
            raise refuse(entry.name, "it hides nothing")
        else:
            hidden = name[len(WHITEOUT_NAME) :]
            if hidden in (b".", b".."):
                raise refuse(entry.name, "it hides what is no name")
            self._hidden[folder + b"/" + hidden if folder else hidden] = True

    def _leave_out(self, path: bytes, why: str) -> None:
        self.left_out.append((path, why))
        self._left_out.add(path)

    def _keep_xattrs(self, entry: TarEntry, path: bytes) -> None:
        for name, value in (entry.xattrs or {}).items():
            # The rest are labels of a host's security modules. The ids of an ACL are the archive's, like its owners.
            if name.startswith((b"user.", b"system.posix_acl_")) or name == b"security.capability":
                if not name or len(name) > NAME_LIMIT or b"\0" in name or len(value) > 65536:
                    raise refuse(entry.name, "an attribute of it is badly named or too large")
                self.budget.count_names(entry.name, len(name) + len(value))
                self._xattrs.setdefault(path, {})[name] = value

    def finish(self) -> bytes:
        """The manifest. Empties this object, so that only one copy of each name is in memory at the end."""
        writer = ManifestWriter()
        self._xattrs.setdefault(b"", {})
        for path, attributes in self._directories.items():
            mode, uid, gid, mtime_ns = attributes or self._implied(path)
            # A whiteout and a directory of the same name: what lies below is hidden, and the directory starts empty.
            opaque = path in self._opaque or self._hidden.pop(path, False)
            writer.add(path, mode, uid=uid, gid=gid, mtime_ns=mtime_ns, xattrs=self._xattrs.get(path),
                       flags=OPAQUE if opaque and self.whiteouts else 0)  # fmt: skip
        linked = set(self._links.values())
        for path, first in self._links.items():
            self._hidden.pop(path, None)
            self._add(writer, path, first, self._files[first], linked)
        while self._files:
            path, packed = self._files.popitem()
            self._hidden.pop(path, None)
            self._add(writer, path, path, packed, linked)
        for path in self._hidden:
            writer.add(path, 0, flags=WHITEOUT)
        return writer.finish()

    def _add(self, writer: ManifestWriter, path: bytes, first: bytes, packed: bytes, linked: set[bytes]) -> None:
        mode, uid, gid, size, mtime_ns, blob = _PACKED.unpack(packed)
        writer.add(
            path,
            mode,
            uid=uid,
            gid=gid,
            size=size,
            mtime_ns=mtime_ns,
            target=self._targets.get(first, b""),
            xattrs=self._xattrs.get(first),
            blob=blob if st.S_ISREG(mode) else b"",
            link=first if first in linked else None,
        )

    def _implied(self, path: bytes) -> Attributes:
        for layer in reversed(self.below):
            found = layer.lookup(path)
            if found is not None and found.is_directory:
                self._xattrs.setdefault(path, found.xattrs)
                return found.mode, found.uid, found.gid, found.mtime_ns
            if any(_hides_below(layer, above) for above in _path_and_parents(path)):
                break
        return IMPLIED


def _path_and_parents(path: bytes) -> Iterator[bytes]:
    """The path and its parent directories, without the root."""
    while path:
        yield path
        path = path.rpartition(b"/")[0]


def _hides_below(layer: Manifest, path: bytes) -> bool:
    """Does this layer hide all lower layers at `path`?"""
    entry = layer.lookup(path)
    return entry is not None and (not entry.is_directory or entry.is_opaque)

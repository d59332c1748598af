"""store: reading a manifest. It is mapped, never copied: opening one with a million names costs as much as a small one.

The C core does the work (native/store/manifest.c). docs/formats/manifest.md has the format; `check_manifest` checks one
that comes from elsewhere.
"""

from __future__ import annotations

import os
import stat as st

from husk.native import _core
from husk.store.store_errors import BadManifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.native._core import RawEntry

WHITEOUT = 1
OPAQUE = 2
NO_BLOB = bytes(32)
HEADER_SIZE, BODY_AT = 256, 120


class Entry:
    """One name: what lstat gives for it, and where its content is. `number` is its position in the manifest."""

    __slots__ = (
        "blob",
        "child_count",
        "first_child",
        "flags",
        "gid",
        "inode",
        "mode",
        "mtime_ns",
        "nlink",
        "number",
        "parent",
        "path",
        "raw_xattrs",
        "rdev_major",
        "rdev_minor",
        "size",
        "target",
        "uid",
    )

    def __init__(self, number: int, raw: RawEntry) -> None:
        self.number = number
        (
            self.path,
            self.parent,
            self.mode,
            self.uid,
            self.gid,
            self.nlink,
            self.flags,
            self.size,
            self.mtime_ns,
            self.inode,
            self.rdev_major,
            self.rdev_minor,
            self.blob,
            self.target,
            self.raw_xattrs,
            self.first_child,
            self.child_count,
        ) = raw

    @property
    def name(self) -> bytes:
        return self.path.rpartition(b"/")[2]

    @property
    def is_directory(self) -> bool:
        return st.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return st.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        return st.S_ISLNK(self.mode)

    @property
    def is_whiteout(self) -> bool:
        return bool(self.flags & WHITEOUT)

    @property
    def is_opaque(self) -> bool:
        return bool(self.flags & OPAQUE)

    @property
    def hash(self) -> str:
        """The hash of its blob; empty if it is no regular file."""
        return self.blob.hex() if self.is_file else ""

    @property
    def xattrs(self) -> dict[bytes, bytes]:
        return unpack_xattrs(self.raw_xattrs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and all(getattr(self, name) == getattr(other, name) for name in Entry.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Entry {self.number} {self.path!r} {self.mode:o}>"


class Manifest:
    """A tree of names. Paths are bytes, relative, without a slash at either end; the root is empty."""

    __slots__ = ("mapped",)

    def __init__(self, fd: int) -> None:
        """The descriptor may be closed afterwards.

        Checks the header only; entries are bounds-checked when they are read.
        """
        try:
            self.mapped = _core.Manifest(fd)
        except ValueError as error:
            raise BadManifest(f"a manifest cannot be read: {error}; `husk store verify` says more.") from None

    @classmethod
    def checked(cls, fd: int) -> Manifest:
        """For a manifest that is no blob of a store: no hash names it and `verify` does not read it. So all of it is
        read and compared with the checksum in its header."""
        from blake3 import blake3

        manifest = cls(fd)
        hasher, at = blake3(), HEADER_SIZE
        while data := os.pread(fd, 1 << 20, at):
            hasher.update(data)
            at += len(data)
        if os.pread(fd, 32, BODY_AT) != hasher.digest():
            raise BadManifest("a manifest is damaged: its checksum does not fit its content.")
        return manifest

    def __len__(self) -> int:
        return len(self.mapped)

    def lookup(self, path: bytes) -> Entry | None:
        number = self.mapped.lookup(path)
        return None if number < 0 else self.entry(number)

    def entry(self, number: int) -> Entry:
        try:
            return Entry(number, self.mapped.entry(number))
        except ValueError as error:
            raise BadManifest(f"a manifest is damaged: {error}; `husk store verify` says more.") from None

    def listdir(self, path: bytes) -> list[bytes]:
        """Names in the directory, sorted. KeyError: no such directory."""
        found = self.lookup(path)
        if found is None or not found.is_directory:
            raise KeyError(path)
        return [child.name for child in self.children(found)]

    def children(self, directory: Entry) -> Iterator[Entry]:
        for number in range(directory.first_child, directory.first_child + directory.child_count):
            yield self.entry(number)

    def walk(self) -> Iterator[Entry]:
        """All entries, a directory before what is in it."""
        for number in range(len(self.mapped)):
            yield self.entry(number)


def unpack_xattrs(raw: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(raw):
        name_size = int.from_bytes(raw[at : at + 2], "little")
        end = at + 6 + name_size
        value_size = int.from_bytes(raw[at + 2 : at + 6], "little")
        if end + value_size > len(raw):
            raise BadManifest("a manifest is damaged: its attributes are cut short; `husk store verify` says more.")
        found[raw[at + 6 : end]] = raw[end : end + value_size]
        at = end + value_size
    return found


def pack_xattrs(xattrs: dict[bytes, bytes]) -> bytes:
    return b"".join(
        len(name).to_bytes(2, "little") + len(value).to_bytes(4, "little") + name + value
        for name, value in sorted(xattrs.items())
    )

"""images: the source of an import: a directory or an archive that holds an OCI layout or a `docker save`.

A `Bundle` gives byte ranges of files by name. For a directory each name is opened beneath it without following links;
for an archive one pass notes where its members are. An archive that is compressed as a whole is decompressed once, into
an unnamed file.
"""

from __future__ import annotations

import os
import stat as st

from husk.images import tarread
from husk.images.archive_layer import archive_path
from husk.images.archive_limits import Budget, Refused, refuse
from husk.images.decompress import FileRange, PlainStream, decompress
from husk.images.tarread import TarReader
from husk.native import _core
from husk.store.layout import write_all
from husk.store.store_errors import StoreError, StoreUsageError, cannot_open

DOCUMENT_LIMIT = 8 << 20  # of index, manifest and configuration
MEMBER_LIMIT = 20_000
_DESCRIPTIONS = (b"oci-layout", b"index.json", b"manifest.json")


class Bundle:
    """Files by name."""

    def piece(self, name: str) -> FileRange:
        """Where the file's bytes are, valid until `close`. KeyError: there is no such file."""
        raise NotImplementedError

    def has(self, name: str) -> bool:
        try:
            self.piece(name)
        except KeyError:
            return False
        return True

    def document(self, name: str) -> bytes:
        try:
            piece = self.piece(name)
        except KeyError:
            raise Refused(f"{name} is missing from the image archive; fetch it again.") from None
        if piece.size > DOCUMENT_LIMIT:
            raise refuse(name.encode(), f"it has {piece.size} bytes, more than a description of an image needs")
        data = b"".join(iter(piece.read, b""))
        if len(data) != piece.size:
            raise Refused(f"{name} is cut short; fetch the archive again.")
        return data

    def close(self) -> None:
        """No range is valid afterwards."""


class FolderBundle(Bundle):
    """A directory."""

    def __init__(self, path: str) -> None:
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: dict[str, int] = {}

    def piece(self, name: str) -> FileRange:
        if name not in self._open:
            try:
                path = archive_path(os.fsencode(name))
                fd = _core.open_beneath(self._root, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError, Refused):
                raise KeyError(name) from None
            except OSError as error:
                raise StoreError(f"{name} cannot be read ({error.strerror}); make it readable and try again.") from None
            self._open[name] = fd
        fd = self._open[name]
        found = os.fstat(fd)
        if not st.S_ISREG(found.st_mode):
            raise KeyError(name)
        return FileRange(fd, 0, found.st_size)

    def close(self) -> None:
        for fd in (*self._open.values(), self._root):
            os.close(fd)
        self._open.clear()


class TarBundle(Bundle):
    """A tar archive that is not compressed. This object owns `fd`."""

    def __init__(self, fd: int, size: int, budget: Budget) -> None:
        self._fd = fd
        self._members: dict[bytes, tuple[int, int]] = {}
        self._links: dict[bytes, bytes] = {}
        reader = TarReader(PlainStream(FileRange(fd, 0, size), Budget(budget.limits)), budget, seeking=True)
        for entry in reader:
            name = archive_path(entry.name)
            if name in self._members or name in self._links:
                raise refuse(entry.name, "the name comes twice")
            if entry.kind == tarread.FILE:
                self._members[name] = reader.position, entry.size
            elif entry.kind == tarread.SYMLINK:
                # An older `docker save` writes a layer that occurs twice as a link to the first.
                self._links[name] = os.path.normpath(os.path.join(os.path.dirname(name), entry.target))
            if len(self._members) + len(self._links) > MEMBER_LIMIT:
                raise refuse(entry.name, f"an archive of images has no more than {MEMBER_LIMIT} members")

    def piece(self, name: str) -> FileRange:
        path = os.fsencode(name)
        at, size = self._members[self._links.get(path, path)]
        return FileRange(self._fd, at, size)

    def close(self) -> None:
        os.close(self._fd)


def looks_like_bundle(fd: int, size: int, budget: Budget) -> bool:
    """Is there a description of an image among the first members? Tools put it in different places, the last one too.
    A root file system is known by its first directory; then no more of it is read. Reading the whole decides."""
    reader = TarReader(decompress(FileRange(fd, 0, size), Budget(budget.limits)), Budget(budget.limits))
    for entry in reader:
        first, _, below = archive_path(entry.name).partition(b"/")
        if first in _DESCRIPTIONS and not below and entry.kind == tarread.FILE:
            return True
        hexadecimal = first.partition(b".")[0]
        is_digest = len(hexadecimal) == 64 and not hexadecimal.strip(b"0123456789abcdef")
        if first and first != b"blobs" and not is_digest and (below or entry.kind != tarread.FILE):
            return False
    return False


def open_archive(path: str) -> tuple[int, int]:
    """(descriptor, size) of a regular file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise cannot_open(error, f"{path} cannot be imported", "name a directory or an archive.") from None
    found = os.fstat(fd)
    if not st.S_ISREG(found.st_mode):
        os.close(fd)
        raise StoreUsageError(f"{path} cannot be imported: it is neither directory nor file; name one of these.")
    return fd, found.st_size


def decompress_to_file(fd: int, size: int, scratch: int, budget: Budget) -> tuple[int, int]:
    """(descriptor, size) of the decompressed archive, in an unnamed file of the directory `scratch`."""
    stream = decompress(FileRange(fd, 0, size), budget)
    plain = os.open(f"/proc/self/fd/{scratch}", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    try:
        count = 0
        while data := stream.read():
            count += len(data)
            write_all(plain, data)
    except BaseException:
        os.close(plain)
        raise
    return plain, count

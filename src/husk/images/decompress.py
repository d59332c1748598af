"""images: read a file that may be compressed (gzip, xz, bzip2, zstd) as a stream, with bounded memory.

The first bytes tell the compression, never the name. Output comes in chunks, so a decompression bomb costs no more
memory than anything else, and the budget ends it.
"""

from __future__ import annotations

import bz2
import functools
import hashlib
import lzma
import os
import zlib

from husk.images.archive_limits import Budget, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Decompressor(Protocol):
        def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...
        @property
        def eof(self) -> bool: ...
        @property
        def needs_input(self) -> bool: ...
        @property
        def unused_data(self) -> bytes: ...


CHUNK = 1 << 18
DICTIONARY = 128 << 20  # the most memory a compressed stream may ask for
MAGIC = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd"))


class FileRange:
    """A range of bytes of a file, read by position: the descriptor's own offset does not matter."""

    __slots__ = ("at", "digest", "end", "fd", "size")

    def __init__(self, fd: int, at: int, size: int) -> None:
        self.fd, self.at, self.size, self.end = fd, at, size, at + size
        self.digest = hashlib.sha256()

    def read(self) -> bytes:
        data = os.pread(self.fd, min(CHUNK, self.end - self.at), self.at)
        self.at += len(data)
        self.digest.update(data)
        return data

    def head(self) -> bytes:
        return os.pread(self.fd, min(8, self.size), self.at)


class _Gzip:
    """zlib's object with the interface of the other decompressors."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data


class PlainStream:
    """A stream that is not compressed."""

    def __init__(self, source: FileRange, budget: Budget) -> None:
        self.source, self.budget = source, budget
        self.digest = source.digest  # of what comes out

    def read(self) -> bytes:
        data = self.source.read()
        self.budget.unpacked(len(data))
        return data

    def seek(self, count: int) -> bool:
        """Skip `count` bytes; False: there are fewer."""
        self.source.at += count
        return self.source.at <= self.source.end


class CompressedStream:
    """A format the standard library decompresses. Concatenated streams count as one."""

    def __init__(self, source: FileRange, budget: Budget, make: Callable[[], Decompressor], magic: bytes) -> None:
        self.source, self.budget, self.make, self.magic = source, budget, make, magic
        self.digest = hashlib.sha256()
        self._now: Decompressor | None = make()
        self._pending = b""
        self._out = 0

    def read(self) -> bytes:
        while self._now is not None:
            data = self._pending
            if not data and self._now.needs_input:
                data = self.source.read()
            self._pending = b""
            try:
                found = self._now.decompress(data, CHUNK)  # also without data: zlib may still hold output back
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, MemoryError) as error:
                raise Refused(f"the archive cannot be unpacked ({error}); fetch it again.") from None
            if self._now.eof:
                self._next(self._now.unused_data)
            elif not data and not found:
                raise Refused("the archive is cut short; fetch it again.")
            if found:
                self._out += len(found)
                self.budget.unpacked(len(found))
                self.budget.ratio(self.source.size, self._out)
                self.digest.update(found)
                return found
        return b""

    def _next(self, rest: bytes) -> None:
        """Only padding or another stream may follow a stream."""
        while True:
            rest = rest.lstrip(b"\0")
            if len(rest) >= len(self.magic):
                break
            more = self.source.read()
            if not more:
                break
            rest += more
        if not rest:
            self._now = None
        elif rest.startswith(self.magic):
            self._now, self._pending = self.make(), rest
        else:
            raise Refused("something else follows the packed archive; pack it again without that.")


class _ReadableRange:
    """A range as the file object that zstandard wants."""

    def __init__(self, source: FileRange) -> None:
        self.source, self._held = source, b""

    def read(self, size: int) -> bytes:
        data = self._held or self.source.read()
        self._held = data[size:]
        return data[:size]


class ZstdStream:
    """A zstd stream."""

    def __init__(self, source: FileRange, budget: Budget) -> None:
        import zstandard

        self.source, self.budget = source, budget
        self.digest = hashlib.sha256()
        self._error = zstandard.ZstdError
        unpacker = zstandard.ZstdDecompressor(max_window_size=DICTIONARY)
        self._stream = unpacker.stream_reader(_ReadableRange(source), read_across_frames=True)  # type: ignore[arg-type]
        self._out = 0

    def read(self) -> bytes:
        try:
            found: bytes = self._stream.read(CHUNK)
        except self._error as error:
            raise Refused(f"the archive cannot be unpacked ({error}); fetch it again.") from None
        self._out += len(found)
        self.budget.unpacked(len(found))
        self.budget.ratio(self.source.size, self._out)
        self.digest.update(found)
        return found


Stream = PlainStream | CompressedStream | ZstdStream


def compression(source: FileRange) -> str:
    head = source.head()
    return next((name for magic, name in MAGIC if head.startswith(magic)), "")


def decompress(source: FileRange, budget: Budget) -> Stream:
    kind = compression(source)
    if kind == "gzip":
        return CompressedStream(source, budget, _Gzip, b"\x1f\x8b")
    if kind == "xz":
        make_xz = functools.partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, DICTIONARY)
        return CompressedStream(source, budget, make_xz, b"\xfd7zXZ\0")
    if kind == "bzip2":
        return CompressedStream(source, budget, bz2.BZ2Decompressor, b"BZh")
    if kind == "zstd":
        return ZstdStream(source, budget)
    return PlainStream(source, budget)

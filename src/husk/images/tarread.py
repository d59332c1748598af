"""images: read a tar archive strictly: ustar, pax and GNU's long names, and nothing that two readers could read in two
ways.

Not tarfile: that is lenient by design (it stops at a header it does not like, and follows sparse maps), and ten times
slower. Here is only the format; archive_layer.py decides which names are allowed.
"""

from __future__ import annotations

import struct

from husk.images.archive_limits import Budget, Refused, refuse
from husk.images.decompress import PlainStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.images.decompress import Stream

BLOCK = 512
HEADER = struct.Struct("100s8s8s8s12s12s8s1s100s8s32s32s8s8s155s12x")
EXTENSION_LIMIT = 2 << 20  # of a pax header or a long name: attributes of 64 KiB, a few of them
FILE, LINK, SYMLINK, CHARACTER, BLOCK_DEVICE, DIRECTORY, FIFO = b"0", b"1", b"2", b"3", b"4", b"5", b"6"
KINDS = frozenset((FILE, LINK, SYMLINK, CHARACTER, BLOCK_DEVICE, DIRECTORY, FIFO))
_XATTR = b"SCHILY.xattr."
_EMPTY = bytes(BLOCK)


class TarEntry:
    """One entry, with names as in the archive. Read a file's `size` bytes from the reader before the next entry."""

    __slots__ = ("gid", "kind", "mode", "mtime_ns", "name", "size", "target", "uid", "xattrs")

    def __init__(self, name: bytes, kind: bytes, size: int) -> None:
        self.name, self.kind, self.size = name, kind, size
        self.mode = self.uid = self.gid = self.mtime_ns = 0
        self.target = b""
        self.xattrs: dict[bytes, bytes] | None = None


class TarReader:
    """Iterate, and for a file call `content`; what is not read is skipped.

    `seeking`: skip by seeking instead of reading, where the archive is not compressed.
    """

    def __init__(self, stream: Stream, budget: Budget, *, seeking: bool = False) -> None:
        self.stream, self.budget = stream, budget
        self._seek = stream.seek if seeking and isinstance(stream, PlainStream) else None
        self._held = b""
        self._at = 0  # in what is held
        self._left = 0  # of the current entry's content
        self._padding = 0
        self.position = 0  # of the next byte, in the unpacked stream

    def _read(self, size: int) -> bytes:
        """`size` bytes; fewer only at the end."""
        end = self._at + size
        if end <= len(self._held):
            found = self._held[self._at : end]
        else:
            parts = [self._held[self._at :]]
            lacking = size - len(parts[0])
            self._held, end = b"", 0
            while lacking > 0:
                piece = self.stream.read()
                if not piece:
                    break
                if len(piece) > lacking:
                    self._held, end = piece, lacking
                    piece = piece[:lacking]
                parts.append(piece)
                lacking -= len(piece)
            found = b"".join(parts)
        self._at = end
        self.position += len(found)
        return found

    def _whole(self, size: int) -> bytes:
        found = self._read(size)
        if len(found) < size:
            raise Refused("the archive is cut short; fetch it again.")
        return found

    def content(self, most: int) -> bytes:
        """The next bytes of the current file, at most `most`; empty at its end."""
        found = self._whole(min(most, self._left))
        self._left -= len(found)
        return found

    def _skip(self) -> None:
        if self._seek is not None and self._left > len(self._held) - self._at:
            far = self._left - (len(self._held) - self._at)
            self.position += self._left
            self._held, self._at, self._left = b"", 0, 0
            if not self._seek(far):
                raise Refused("the archive is cut short; fetch it again.")
        while self._left:
            self.content(1 << 20)
        if self._padding:
            self._whole(self._padding)
            self._padding = 0

    def __iter__(self) -> Iterator[TarEntry]:
        pax: dict[bytes, bytes] = {}
        long_name = long_target = None
        while True:
            self._skip()
            header = self._read(BLOCK)
            if header == _EMPTY:
                if pax or long_name is not None or long_target is not None:
                    raise Refused("the archive ends where an entry should follow; fetch it again.")
                self._finish()
                return
            if len(header) < BLOCK:
                raise Refused("the archive is cut short, or is no tar archive; fetch it again.")
            entry, kind = self._entry(header)
            if kind in b"xgLK":
                if not 0 <= entry.size <= EXTENSION_LIMIT:  # a negative size would read the same header for ever
                    raise refuse(entry.name, f"its extended header has {entry.size} bytes")
                data = self._whole(entry.size)
                self._whole(-entry.size % BLOCK)
                if kind == b"x":
                    if pax:
                        raise refuse(entry.name, "two extended headers follow each other")
                    pax = _records(entry.name, data)
                elif kind == b"g":
                    _check_global(entry.name, _records(entry.name, data))
                elif kind == b"L" and long_name is None:
                    long_name = data.rstrip(b"\0")
                elif kind == b"K" and long_target is None:
                    long_target = data.rstrip(b"\0")
                else:
                    raise refuse(entry.name, "two long names follow each other")
                self.budget.entry(entry.name)
                continue
            if long_name is not None:
                entry.name = long_name
            if long_target is not None:
                entry.target = long_target
            if pax:
                _apply(entry, pax)
            pax, long_name, long_target = {}, None, None
            _check(entry)
            self._left, self._padding = entry.size, -entry.size % BLOCK
            self.budget.entry(entry.name)
            yield entry

    def _entry(self, header: bytes) -> tuple[TarEntry, bytes]:
        (name, mode, uid, gid, size, mtime, check, kind, target, magic, _, _, _, _, prefix) = HEADER.unpack(header)
        name = name.partition(b"\0")[0]
        digits = check.strip(b" \0")
        if digits.strip(b"01234567") or sum(header) - sum(check) + 256 != int(digits or b"0", 8):
            if magic[:5] == b"ustar":
                raise refuse(name, "the checksum of its header is wrong")
            raise Refused("this is no tar archive, or a damaged one; name a directory, a tar archive or an OCI layout.")
        if magic == b"ustar\x0000" and prefix[:1] != b"\0":
            name = prefix.partition(b"\0")[0] + b"/" + name
        if kind == b"\0" and name.endswith(b"/"):
            kind = DIRECTORY  # as in the seventh edition of Unix
        elif kind in b"\x007":
            kind = FILE
        entry = TarEntry(name, kind, _number(name, size))
        entry.mode = _number(name, mode) & 0o7777
        entry.uid, entry.gid = _number(name, uid), _number(name, gid)
        entry.mtime_ns = _number(name, mtime) * 1_000_000_000
        entry.target = target.partition(b"\0")[0]
        return entry, kind

    def _finish(self) -> None:
        """Only zeros may follow: another reader could take the rest for another archive. Reading to the end also checks
        the checksums of the compression."""
        while data := self._read(1 << 20):
            if data.count(0) != len(data):
                raise Refused("something follows the end of the archive; pack it again without that.")


def _number(name: bytes, field: bytes) -> int:
    if field[0] & 0x80:  # GNU's base-256 form for numbers too large for octal digits
        value = int.from_bytes(field, "big", signed=True)
        return value if field[0] == 0xFF else value + (1 << (8 * len(field) - 1))
    digits = field.strip(b" \0")
    if not digits:
        return 0
    if digits.strip(b"01234567"):
        raise refuse(name, f"its header has {digits!r} where a number belongs")
    return int(digits, 8)


def _records(name: bytes, data: bytes) -> dict[bytes, bytes]:
    """`LENGTH KEY=VALUE newline`, where LENGTH counts the whole record."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + 20)
        digits = data[at:space] if space > 0 else b""
        size = int(digits) if digits.isdigit() else 0
        record = data[at : at + size]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not equals or not key or len(record) < size or record[-1:] != b"\n" or key in found:
            raise refuse(name, "its extended header is malformed")
        found[key] = value
        at += size
    return found


def _check_global(name: bytes, records: dict[bytes, bytes]) -> None:
    for key in records:
        if key in (b"path", b"linkpath", b"size", b"uid", b"gid") or key.startswith((_XATTR, b"GNU.sparse.")):
            raise refuse(name, f"a header for all entries sets {key.decode('ascii', 'replace')!r}")


def _apply(entry: TarEntry, pax: dict[bytes, bytes]) -> None:
    for key, value in pax.items():
        if key == b"path":
            entry.name = value
        elif key == b"linkpath":
            entry.target = value
        elif key in (b"size", b"uid", b"gid"):
            if not value.isdigit() or len(value) > 19:
                raise refuse(entry.name, f"its {key.decode()} is {value!r}")
            setattr(entry, key.decode(), int(value))
        elif key == b"mtime":
            entry.mtime_ns = _time(entry.name, value)
        elif key.startswith(_XATTR):
            entry.xattrs = entry.xattrs or {}
            entry.xattrs[key[len(_XATTR) :]] = value
        elif key.startswith(b"GNU.sparse."):
            raise refuse(entry.name, "it is a sparse file; make the archive without --sparse")


def _time(name: bytes, text: bytes) -> int:
    whole, _, fraction = text.removeprefix(b"-").partition(b".")
    if not whole.isdigit() or len(whole) > 12 or (fraction and not fraction.isdigit()):
        raise refuse(name, f"its time is {text!r}")
    value = int(whole) * 1_000_000_000 + int(fraction[:9].ljust(9, b"0"))
    return -value if text.startswith(b"-") else value


def _check(entry: TarEntry) -> None:
    if entry.kind not in KINDS:
        sparse = entry.kind == b"S"
        what = "it is a sparse file; make the archive without --sparse" if sparse else f"its type is {entry.kind!r}"
        raise refuse(entry.name, what)
    if entry.kind == FILE and entry.name.endswith(b"/"):
        raise refuse(entry.name, "it is a file for some readers of archives, and a directory for others")
    if entry.size < 0 or (entry.size and entry.kind != FILE):
        raise refuse(entry.name, f"it has {entry.size} bytes, which such an entry cannot have")
    if not 0 <= entry.uid < 1 << 32 or not 0 <= entry.gid < 1 << 32:
        raise refuse(entry.name, "its owner is no user Linux could have")
    if abs(entry.mtime_ns) >= 1 << 62:
        raise refuse(entry.name, "its time is none Linux could keep")

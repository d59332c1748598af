"""vfs: PROCMAP_QUERY — one mapping of /proc/PID/maps, asked for by its address. Linux's rules, on the file's text."""

from __future__ import annotations

import errno
import struct

from husk.vfs.node import error

# size, flags and address of the question; then start, end, flags, page size, offset and inode of the mapping; device;
# room for the name and for the build id, and where they go
QUERY = struct.Struct("<9Q4I2Q")
SMALLEST, LARGEST = 16, 4096
READABLE, WRITABLE, EXECUTABLE, SHARED, OR_NEXT, OF_FILE = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
KNOWN = READABLE | WRITABLE | EXECUTABLE | SHARED | OR_NEXT | OF_FILE
PAGE = 4096


class MapQuery:
    """A question as the guest gave it: `given` has `size` bytes, as its first word says."""

    __slots__ = ("_fields", "_size", "name_at")

    def __init__(self, given: bytes) -> None:
        if any(given[QUERY.size :]):
            raise error(errno.E2BIG)
        self._size = len(given)
        self._fields = list(QUERY.unpack(given[: QUERY.size].ljust(QUERY.size, b"\0")))
        *_, name_size, id_size, self.name_at, id_at = self._fields
        if self._fields[1] & ~KNOWN or bool(name_size) != bool(self.name_at) or bool(id_size) != bool(id_at):
            raise error(errno.EINVAL)

    def answer(self, text: bytes) -> tuple[bytes, bytes]:
        """What to write over the question, and the name to write at `name_at`, if any. `text` is that of maps."""
        asked, address = self._fields[1:3]
        for line in text.splitlines():
            words = line.split(None, 5)
            start, end = (int(word, 16) for word in words[0].split(b"-"))
            if end <= address:
                continue
            if start > address and not asked & OR_NEXT:
                break
            name = words[5] if len(words) > 5 else b""
            flags = _flags(words[1])
            of_file = int(words[4]) != 0 or name[:1] == b"/"
            if not asked & (READABLE | WRITABLE | EXECUTABLE | SHARED) & ~flags and (of_file or not asked & OF_FILE):
                return self._told(start, end, flags, words, name)
            if not asked & OR_NEXT:
                break
        raise error(errno.ENOENT)

    def _told(self, start: int, end: int, flags: int, words: list[bytes], name: bytes) -> tuple[bytes, bytes]:
        fields, room = self._fields, self._fields[11]
        text = name + b"\0" if name and room else b""
        if len(text) > room:
            raise error(errno.ENAMETOOLONG)
        device = [int(word, 16) for word in words[3].split(b":")]
        # No build id is told: a program reads it from the file, as where there is none.
        told = [start, end, flags, PAGE, int(words[2], 16), int(words[4]), *device, len(text), 0]
        return QUERY.pack(*fields[:3], *told, *fields[13:])[: self._size], text


def _flags(shown: bytes) -> int:
    """Of "rw-p" and the like."""
    bits = zip(b"rwxs", (READABLE, WRITABLE, EXECUTABLE, SHARED), strict=True)
    return sum(bit for letter, bit in bits if letter in shown)

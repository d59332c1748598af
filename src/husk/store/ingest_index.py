"""store: the index of an ingest: what the last ingest of a directory saw, so that the next one reads only changes.

A cache: without it, or with one that is damaged, everything is read again. One file per directory, found by the
directory's device and inode: magic, the store's generation, BLAKE3 of the records, records (native/store/tree_read.c:
`known`). A file counts as unchanged if device, inode, size, and both times to the nanosecond are the same. That misses
a write through a mapping for which the kernel has not yet updated mtime.
"""

from __future__ import annotations

import os

from blake3 import blake3

from husk.store.layout import write_whole

MAGIC = b"huskidx1"
HEAD = len(MAGIC) + 8 + 32
# A file with an mtime less than this before the read may be written again within the same tick: FAT has the coarsest
# clock in use, of two seconds. Such files are read again next time.
TOO_YOUNG_NS = 2_000_000_000


class Index:
    """Records of one directory, and the generation of the store for which they were true."""

    __slots__ = ("_path", "generation", "records")

    def __init__(self, place: str, root: os.stat_result) -> None:
        self._path = os.path.join(place, "index", f"{root.st_dev:x}-{root.st_ino:x}")
        self.generation = -1
        self.records = b""
        try:
            with open(self._path, "rb") as file:
                data = file.read()
        except OSError:
            return
        records = data[HEAD:]
        if data.startswith(MAGIC) and data[HEAD - 32 : HEAD] == blake3(records).digest():
            self.generation = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
            self.records = records

    def save(self, generation: int, records: bytes) -> None:
        if (generation, records) == (self.generation, self.records):
            return
        data = MAGIC + generation.to_bytes(8, "little") + blake3(records).digest() + records
        write_whole(self._path, data)

"""store: a second reader of manifests, in plain Python, written from docs/formats/manifest.md.

Slow, and independent of the C reader on purpose: tests compare the two, and `check_manifest` uses this one.
"""

from __future__ import annotations

import stat as st
import struct

from husk.store.store_errors import BadManifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import RawEntry

MAGIC = b"huskmani"
HEADER = struct.Struct("<8sIIQQQQQQQQQQII16s32s96sQ")
ENTRY = struct.Struct("<QIIIIIIIIQqIIQII32sQII")
SLOT = struct.Struct("<II")
BLOCK = 64
BLOOM_BITS = 6
NAMES_PER_BLOCK = 42
LONGEST_PROBE = 256
PATH_LIMIT = 4095
MOST_ENTRIES = 0xFFFFFFFE
_MASK = 0xFFFFFFFFFFFFFFFF


def name_hash(seed: bytes, data: bytes) -> int:
    """SipHash-1-3."""
    k0, k1 = int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:], "little")
    v0, v1, v2, v3 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    whole = len(data) & ~7
    words: list[int] = [*struct.unpack_from(f"<{whole // 8}Q", data)]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _rotate(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _MASK


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _MASK
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 = (v2 + v3) & _MASK
    v3 = _rotate(v3, 16) ^ v2
    v0 = (v0 + v3) & _MASK
    v3 = _rotate(v3, 21) ^ v0
    v2 = (v2 + v1) & _MASK
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


def align(value: int, to: int) -> int:
    return -(-value // to) * to


class PlainManifest:
    """The same answers as native/store/manifest.c, from bytes or a mapping."""

    count: int

    def __init__(self, data: bytes) -> None:
        self.data = data
        size = len(data)
        if size < HEADER.size or data[:8] != MAGIC:
            raise BadManifest("it is not a manifest")
        (_, version, header_size, file_size, self.count, self.strings_at, self.strings_size, self.xattrs_at,
         self.xattrs_size, self.table_at, self.slots, self.bloom_at, self.blocks, self.longest, _, self.seed, self.body,
         _, check) = HEADER.unpack_from(data)  # fmt: skip
        if version != 1 or header_size != HEADER.size:
            raise BadManifest("it is a manifest of a version this husk does not know")
        if check != name_hash(bytes(16), bytes(data[: HEADER.size - 8])):
            raise BadManifest("its header is damaged")
        if file_size != size:
            raise BadManifest("it is cut short or has grown")
        if not 0 < self.count <= MOST_ENTRIES or (
            max(self.count * ENTRY.size, self.strings_size, self.xattrs_size, self.slots * 8, self.blocks * BLOCK)
            > size
        ):
            raise BadManifest("a part of it is larger than itself")
        if (self.strings_at, self.xattrs_at, self.table_at, self.bloom_at, size) != (
            HEADER.size + self.count * ENTRY.size,
            align(self.strings_at + self.strings_size, 8),
            align(self.xattrs_at + self.xattrs_size, 64),
            self.table_at + align(self.slots * 8, 64),
            self.bloom_at + self.blocks * BLOCK,
        ):
            raise BadManifest("its parts are not where they belong")
        if (
            self.slots.bit_count() != 1
            or self.blocks.bit_count() != 1
            or self.slots < self.count
            or self.longest > min(LONGEST_PROBE, self.slots)
        ):
            raise BadManifest("its tables have impossible sizes")

    def __len__(self) -> int:
        return self.count

    def entry(self, number: int) -> RawEntry:
        if not 0 <= number < self.count:
            raise BadManifest(f"entry {number} points out of bounds")
        fields = ENTRY.unpack_from(self.data, HEADER.size + number * ENTRY.size)
        (path, path_size, name, parent, mode, uid, gid, nlink, flags, size, mtime_ns, inode, xattrs_size, xattrs,
         major, minor, blob, first, count, _) = fields  # fmt: skip
        good = path + path_size + 1 <= self.strings_size and name <= path_size <= PATH_LIMIT
        good = good and xattrs + xattrs_size <= self.xattrs_size
        if st.S_ISDIR(mode):
            good = good and first + count <= self.count
        elif st.S_ISLNK(mode):
            good = good and first + count + 1 <= self.strings_size
        if not good:
            raise BadManifest(f"entry {number} points out of bounds")
        target = self._string(first, count) if st.S_ISLNK(mode) else b""
        children = (first, count) if st.S_ISDIR(mode) else (0, 0)
        attributes = bytes(self.data[self.xattrs_at + xattrs : self.xattrs_at + xattrs + xattrs_size])
        return (self._string(path, path_size), parent, mode, uid, gid, nlink, flags, size, mtime_ns, inode,
                major, minor, blob, target, attributes, *children)  # fmt: skip

    def _string(self, at: int, size: int) -> bytes:
        return bytes(self.data[self.strings_at + at : self.strings_at + at + size])

    def lookup(self, path: bytes) -> int:
        """The number of its entry; -1: no such name."""
        if len(path) > PATH_LIMIT:
            return -1
        hash_ = name_hash(self.seed, path)
        block = (hash_ * 0x9E3779B97F4A7C15 & _MASK) >> 32 & (self.blocks - 1)
        at = self.bloom_at + block * BLOCK
        for which in range(BLOOM_BITS):
            bit = hash_ >> 9 * which & 511
            if not self.data[at + bit // 8] >> bit % 8 & 1:
                return -1
        for probe in range(self.longest):
            slot = (hash_ + probe) & (self.slots - 1)
            entry, tag = SLOT.unpack_from(self.data, self.table_at + slot * 8)
            if not entry:
                return -1
            if tag == hash_ >> 32:
                try:
                    if self.entry(entry - 1)[0] == path:
                        return int(entry - 1)
                except BadManifest:
                    continue
        return -1

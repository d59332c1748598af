"""Forged manifests: each kind is refused with its own message, and none makes a reader read outside the file."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
from blake3 import blake3

from husk.native import _core
from husk.store.manifests.check_manifest import check_manifest
from husk.store.manifests.plain_manifest import ENTRY, HEADER, PlainManifest
from husk.store.store_errors import BadManifest
from tests.unit.store.test_manifest import opened
from tests.unit.store.trees import fixed, written

# Where the fields of an entry are, as docs/formats/manifest.md has them.
PATH, PATH_SIZE, NAME, PARENT, MODE, FLAGS = (0, "Q"), (8, "I"), (12, "I"), (16, "I"), (20, "I"), (36, "I")
SIZE, INODE, XATTRS_SIZE, XATTRS, RDEV, FIRST, COUNT = (
    (40, "Q"),
    (56, "I"),
    (60, "I"),
    (64, "Q"),
    (72, "I"),
    (112, "Q"),
    (120, "I"),
)


class Forger:
    """A good manifest to be damaged; `sealed` corrects its checksums, as an attacker would."""

    def __init__(self) -> None:
        self.data = bytearray(written(fixed()))
        self.plain = PlainManifest(bytes(self.data))

    def number(self, path: bytes) -> int:
        found = self.plain.lookup(path)
        assert found >= 0
        return found

    def set(self, path: bytes, field: tuple[int, str], value: int) -> None:
        at = HEADER.size + self.number(path) * ENTRY.size + field[0]
        struct.pack_into("<" + field[1], self.data, at, value)

    def rename(self, path: bytes, new: bytes) -> None:
        """Of the same length, in the pool of strings."""
        assert len(path) == len(new)
        at = self.plain.strings_at + ENTRY.unpack_from(self.data, HEADER.size + self.number(path) * ENTRY.size)[0]
        assert self.data[at : at + len(path)] == path
        self.data[at : at + len(path)] = new

    def empty_table(self) -> None:
        self.data[self.plain.table_at : self.plain.bloom_at] = bytes(self.plain.bloom_at - self.plain.table_at)

    def sealed(self) -> bytes:
        _core.manifest_seal(self.data, blake3(memoryview(self.data)[HEADER.size :]).digest())
        return bytes(self.data)


FORGERIES: list[tuple[str, Callable[[Forger], None], str]] = [
    ("dot dot", lambda it: it.rename(b"a/link", b"a/../x"), r"has \. or \.\. in it"),
    ("dot", lambda it: it.rename(b"dev", b"./x"), r"has \. or \.\. in it"),
    ("absolute", lambda it: it.rename(b"fifo", b"/ifo"), "absolute"),
    ("empty component", lambda it: it.rename(b"a/link", b"a//ink"), "empty"),
    ("NUL", lambda it: it.rename(b"fifo", b"fi\0o"), "NUL"),
    ("twice", lambda it: it.rename(b"gone", b"fifo"), "twice"),
    ("out of order", lambda it: it.rename(b"gone", b"aone"), "out of order"),
    ("directory in a file", lambda it: it.set(b"a", MODE, 0o010600), "no directory|children"),
    ("in another directory", lambda it: it.set(b"a/link", PARENT, 0), "another name"),
    ("cycle", lambda it: it.set(b"a", PARENT, it.number(b"a/b")), "comes after it"),
    ("its own directory", lambda it: it.set(b"a", PARENT, it.number(b"a")), "comes after it"),
    ("root that is a file", lambda it: it.set(b"", MODE, 0o100644), "root"),
    ("path out of range", lambda it: it.set(b"a", PATH, 1 << 40), "out of bounds"),
    ("path runs over", lambda it: it.set(b"a", PATH, (1 << 64) - 1), "out of bounds"),
    ("path too long", lambda it: it.set(b"a", PATH_SIZE, 0xFFFFFFFF), "out of bounds"),
    ("name behind the path", lambda it: it.set(b"a", NAME, 2), "out of bounds"),
    ("wrong name", lambda it: it.set(b"a/b", NAME, 1), "differs"),
    ("children out of range", lambda it: it.set(b"a", COUNT, 100), "out of bounds"),
    ("children run over", lambda it: it.set(b"a", FIRST, (1 << 64) - 1), "out of bounds"),
    ("children of another", lambda it: it.set(b"a", FIRST, 1), "children"),
    ("too few children", lambda it: it.set(b"dev", COUNT, 1), "no directory"),
    ("target out of range", lambda it: it.set(b"a/link", FIRST, 1 << 50), "out of bounds"),
    ("target too short", lambda it: it.set(b"a/link", COUNT, 3), "size"),
    ("attributes out of range", lambda it: it.set(b"a/b", XATTRS, 1 << 33), "out of bounds"),
    ("attributes cut short", lambda it: it.set(b"a/b", XATTRS_SIZE, 5), "cut short"),
    ("no such type", lambda it: it.set(b"fifo", MODE, 0o110600), "none of Linux"),
    ("bits beyond the mode", lambda it: it.set(b"fifo", MODE, 1 << 20 | 0o010600), "none of Linux"),
    ("content in a directory", lambda it: it.set(b"dev", (80, "Q"), 7), "only a regular file"),
    ("whiteout with a mode", lambda it: it.set(b"gone", MODE, 0o010600), "whiteout"),
    ("unknown flags", lambda it: it.set(b"fifo", FLAGS, 8), "flags"),
    ("size of a fifo", lambda it: it.set(b"fifo", SIZE, 9), "differs"),
    ("device number of a fifo", lambda it: it.set(b"fifo", RDEV, 9), "device"),
    ("link to a later entry", lambda it: it.set(b"fifo", INODE, 9), "comes after it"),
    ("link to another file", lambda it: it.set(b"fifo", INODE, it.number(b"dev")), "differs|different|hard link"),
    ("hidden bytes", lambda it: it.set(b"fifo", (124, "I"), 1), "differs"),
    ("hidden byte between parts", lambda it: it.data.__setitem__(it.plain.table_at - 1, 1), "differs"),
    ("name table", lambda it: it.empty_table(), "table"),
    ("filter", lambda it: it.data.__setitem__(it.plain.bloom_at, it.data[it.plain.bloom_at] ^ 1), "filter"),
    ("another seed", lambda it: it.data.__setitem__(104, it.data[104] ^ 1), "header"),
    ("reserved bytes", lambda it: it.data.__setitem__(200, 1), "header"),
    ("version", lambda it: it.data.__setitem__(8, 2), "version"),
    ("more entries than there are", lambda it: struct.pack_into("<Q", it.data, 24, 1 << 60), "larger than itself"),
    ("one entry more", lambda it: struct.pack_into("<Q", it.data, 24, it.plain.count + 1), "not where they belong"),
    ("table of no size", lambda it: struct.pack_into("<Q", it.data, 72, 0), "not where|impossible"),
    ("endless probes", lambda it: struct.pack_into("<I", it.data, 96, 0xFFFFFFFF), "impossible"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "complaint"), [row[1:] for row in FORGERIES], ids=[row[0] for row in FORGERIES])
def test_refused(spoil: Callable[[Forger], None], complaint: str) -> None:
    forger = Forger()
    spoil(forger)
    with pytest.raises(BadManifest, match=complaint):
        check_manifest(forger.sealed())


def test_the_forger_itself() -> None:
    """An undamaged one is accepted, otherwise all of the above would prove nothing."""
    check_manifest(Forger().sealed())


def test_a_damaged_byte_anywhere_is_noticed() -> None:
    good = written(fixed())
    for at in range(0, len(good), 7):
        data = bytearray(good)
        data[at] ^= 0x20
        with pytest.raises(BadManifest):
            check_manifest(bytes(data))


@pytest.mark.parametrize("seed", range(8))
def test_no_forgery_leads_a_reader_out_of_the_file(seed: int) -> None:
    """Random bytes in entries and tables, with good checksums: both readers give the same answer or refusal."""
    chance = random.Random(seed)
    for _ in range(60):
        forger = Forger()
        for _ in range(chance.randrange(1, 12)):
            at = chance.randrange(HEADER.size, len(forger.data) - 8)
            forger.data[at : at + 4] = chance.choice([b"\xff\xff\xff\xff", bytes(4), chance.randbytes(4)])
        data = forger.sealed()
        fast, plain = opened(data), PlainManifest(data)
        for path in [path for path, _, _ in fixed()] + [b"x", b"a/x"]:
            assert fast.mapped.lookup(path) == plain.lookup(path)
        for number in range(len(plain)):
            try:
                expected: object = plain.entry(number)
            except BadManifest:
                expected = None
            try:
                found: object = fast.mapped.entry(number)
            except ValueError:
                found = None
            assert found == expected

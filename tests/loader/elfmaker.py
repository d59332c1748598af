"""Builds small x86-64 ELF files byte by byte, odd ones on purpose: input for the loader's tests. Knows no loader."""

from __future__ import annotations

import struct

PT_LOAD, PT_GNU_STACK = 1, 0x6474E551
R, W, X = 4, 2, 1
BASE = 0x400000
PAGE = 4096


class Segment:
    """One program header; offset and sizes are taken as given, nothing is checked."""

    def __init__(self, flags: int, vaddr: int, offset: int, filesz: int, memsz: int, *, kind: int = PT_LOAD) -> None:
        self.packed = struct.pack("<IIQQQQQQ", kind, flags, offset, vaddr, vaddr, filesz, memsz, PAGE)


def header(entry: int, phoff: int, phnum: int, *, kind: int = 2) -> bytes:
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", kind, 62, 1, entry, phoff, 0, 0, 64, 56, phnum, 64, 0, 0)


def image(code: bytes, segments: list[Segment], *, phoff: int = 64, data: dict[int, bytes] | None = None) -> bytes:
    """A file whose first page holds header and code (code last in the page) plus blobs at given offsets."""
    table = b"".join(segment.packed for segment in segments)
    parts = {0: header(BASE + PAGE - 256, phoff, len(segments)), phoff: table, PAGE - 256: code, **(data or {})}
    out = bytearray(PAGE)
    for offset, blob in parts.items():
        out.extend(bytes(max(0, offset + len(blob) - len(out))))
        out[offset : offset + len(blob)] = blob
    return bytes(out)


def text() -> Segment:
    """The first page, readable and executable, at BASE."""
    return Segment(R | X, BASE, 0, PAGE, PAGE)


def exit_with(value: int) -> bytes:
    return b"\xbf" + struct.pack("<I", value) + b"\xb8\xe7\x00\x00\x00\x0f\x05"


def exit_with_byte_at(address: int) -> bytes:
    """movabs address, %rbx; movzbl (%rbx), %edi; exit_group."""
    return b"\x48\xbb" + struct.pack("<Q", address) + b"\x0f\xb6\x3b\xb8\xe7\x00\x00\x00\x0f\x05"


def increment_byte_at(address: int) -> bytes:
    """movabs address, %rbx; incb (%rbx)."""
    return b"\x48\xbb" + struct.pack("<Q", address) + b"\xfe\x03"

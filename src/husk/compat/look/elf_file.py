"""compat: read what an ELF file says of itself: segments, imports, exports, where its functions begin.

Headers are held against the limits that Linux has before pyelftools sees them; tables are read with struct, bounded, by
the addresses that the loader would use. Section headers help where they are there, and are never needed. Not here: what
the code does (code_graph.py).
"""

from __future__ import annotations

import os
import stat as st
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from husk.sandbox.errors import UsageError

MOST_HEADERS = 65536 // 56  # Linux loads no program with more program headers
MOST_SECTIONS = 65535
MOST_TABLE = 64 << 20  # bytes of one table of symbols, relocations or names
MOST_CODE = 256 << 20
MOST_DATA = 64 << 20

X86_64 = "EM_X86_64"
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
R_64, R_GLOB_DAT, R_JUMP_SLOT, R_RELATIVE, R_IRELATIVE = 1, 6, 7, 8, 37
_GO_MAGICS = (0xFFFFFFF1, 0xFFFFFFF0)  # the table of functions of Go since 1.20, and since 1.18


_SIGNAL_RETURN = b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"  # mov rax, 15; syscall


class Unreadable(UsageError):
    """The file is not what it says, or not a file at all."""


@dataclass(frozen=True)
class Segment:
    """A part that is loaded: where in memory, where in the file, how many bytes the file has of it, which rights."""

    address: int
    offset: int
    size: int
    flags: int

    @property
    def executable(self) -> bool:
        return bool(self.flags & 1)

    def holds(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


@dataclass
class ElfFile:
    path: str
    machine: str
    bits: int
    kind: str  # executable, pie, library, or what pyelftools calls it
    entry: int = 0
    interpreter: str = ""
    segments: list[Segment] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    search: list[str] = field(default_factory=list)  # DT_RUNPATH, or DT_RPATH
    imports: set[str] = field(default_factory=set)
    exports: dict[str, int] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)  # start -> name, empty where unknown
    slots: dict[int, str] = field(default_factory=dict)  # address of a pointer the linker fills -> name of the import
    pointers: set[int] = field(default_factory=set)  # addresses that relocations put into data
    starts: list[int] = field(default_factory=list)  # constructors and destructors
    symbol_table: tuple[int, int] = (0, 0)  # from and to which address
    thread_local: bool = False
    writable_code: bool = False
    whole_functions: bool = False  # the unwinding table or Go's tells every function, not only named ones
    language: str = ""
    problems: list[str] = field(default_factory=list)
    content: bytes = b""

    @property
    def static(self) -> bool:
        return not self.interpreter and not self.needed

    def code(self) -> Iterator[tuple[int, memoryview]]:
        whole = memoryview(self.content)
        for segment in self.segments:
            if segment.executable:
                yield segment.address, whole[segment.offset : segment.offset + segment.size]

    def data(self) -> Iterator[tuple[int, bytes]]:
        """Parts that may hold pointers to functions. Where the loader adjusts pointers, these are writable ones."""
        for segment in self.segments:
            if not segment.executable and (segment.flags & 2 or self.kind == "executable"):
                size = min(segment.size, MOST_DATA)
                piece = self.content[segment.offset : segment.offset + size]
                first, last = (max(0, min(size, at - segment.address)) for at in self.symbol_table)
                # The symbol table holds addresses, not pointers.
                yield segment.address, piece[:first] + bytes(last - first) + piece[last:] if last > first else piece

    def bytes_at(self, address: int, size: int) -> bytes:
        for segment in self.segments:
            if segment.holds(address):
                at = segment.offset + address - segment.address
                return self.content[at : min(at + size, segment.offset + segment.size)]
        return b""

    def in_code(self, address: int) -> bool:
        return any(segment.executable and segment.holds(address) for segment in self.segments)


def read_whole(path: str, most: int = MOST_CODE * 2) -> bytes:
    """The content of a regular file. Opened so that a FIFO or a device does not hold the reader up."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read ({error.strerror}).") from None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not st.S_ISREG(status.st_mode):
            raise Unreadable(f"{path}: not a regular file; name a program, a script or a directory.")
        if status.st_size > most:
            raise Unreadable(f"{path}: has {status.st_size >> 20} MiB; at most {most >> 20} MiB are looked at.")
        return file.read(most)


def read_elf(path: str, content: bytes) -> ElfFile:
    """Raises Unreadable with one sentence, whatever the bytes are."""
    _check_header(path, content)
    from io import BytesIO

    try:
        return _read(path, content, BytesIO(content))
    except Unreadable:
        raise
    except Exception as error:  # pyelftools raises whatever its parser runs into: KeyError, struct.error, ELFError…
        raise Unreadable(f"{path}: the ELF headers are damaged ({type(error).__name__}: {error}).") from None


def _check_header(path: str, content: bytes) -> None:
    """What Linux checks, and what bounds the loops of a reader."""
    if len(content) < 52 or (content[4] == 2 and len(content) < 64):
        raise Unreadable(f"{path}: the ELF header is cut off after {len(content)} bytes.")
    if content[4] not in (1, 2) or content[5] not in (1, 2):
        raise Unreadable(f"{path}: the ELF header is damaged (class {content[4]}, byte order {content[5]}).")
    order = "<" if content[5] == 1 else ">"
    if content[4] == 2:
        (phoff,) = struct.unpack_from(f"{order}Q", content, 32)
        phentsize, phnum = struct.unpack_from(f"{order}HH", content, 54)
    else:
        (phoff,) = struct.unpack_from(f"{order}I", content, 28)
        phentsize, phnum = struct.unpack_from(f"{order}HH", content, 42)
    if phnum > MOST_HEADERS:
        raise Unreadable(f"{path}: {phnum} program headers; Linux loads at most {MOST_HEADERS}.")
    if phnum and phoff + phentsize * phnum > len(content):
        raise Unreadable(f"{path}: the file ends before its program headers do; it is cut off.")
    if phnum and phentsize != (56 if content[4] == 2 else 32):
        raise Unreadable(f"{path}: program headers of {phentsize} bytes; Linux does not load such a file.")


def _without_sections(content: bytes) -> bytes:
    """The same file with no section headers: where they lie about their number or place."""
    wide, order = content[4] == 2, "little" if content[5] == 1 else "big"
    shoff, sizes = (40, 58) if wide else (32, 46)
    start = int.from_bytes(content[shoff : shoff + (8 if wide else 4)], order)  # type: ignore[arg-type]
    size, number, names = (int.from_bytes(content[at : at + 2], order) for at in range(sizes, sizes + 6, 2))  # type: ignore[arg-type]
    whole = number and size == (64 if wide else 40) and start + size * number <= len(content) and names < number
    if whole or not (start or number):
        return content
    head = bytearray(content[:64])
    head[shoff : shoff + (8 if wide else 4)] = bytes(8 if wide else 4)
    head[sizes + 2 : sizes + 6] = bytes(4)
    return bytes(head) + content[64:]


def _read(path: str, content: bytes, stream: BinaryIO) -> ElfFile:
    from elftools.elf.elffile import ELFFile

    honest = _without_sections(content)
    if honest is not content:
        from io import BytesIO

        stream = BytesIO(honest)
    elf = ELFFile(stream)
    header = elf.header
    file = ElfFile(path, str(header["e_machine"]), elf.elfclass, str(header["e_type"]), header["e_entry"])
    file.content = content
    if honest is not content:
        file.problems.append("the section headers are damaged; the program headers were used alone")
    dynamic: list[tuple[int, int]] = []
    eh_frame_hdr = None
    for number in range(header["e_phnum"]):
        segment = elf.get_segment(number).header
        kind, offset, size = segment["p_type"], segment["p_offset"], segment["p_filesz"]
        inside = max(0, min(size, len(content) - offset)) if offset < len(content) else 0
        if kind == "PT_LOAD":
            if inside < size:
                file.problems.append("the file ends before its last segment does; it is cut off")
            file.segments.append(Segment(segment["p_vaddr"], offset, inside, segment["p_flags"]))
            file.writable_code |= segment["p_flags"] & 3 == 3
        elif kind == "PT_INTERP":
            name = content[offset : offset + min(inside, 4096)].split(b"\0", 1)[0]
            file.interpreter = name.decode("utf-8", "replace")
        elif kind == "PT_DYNAMIC" and elf.elfclass == 64:
            table = content[offset : offset + (inside & ~15)][:MOST_TABLE]
            dynamic = list(struct.iter_unpack("<qQ", table))
        elif kind == "PT_TLS":
            file.thread_local = True
        elif kind == "PT_GNU_EH_FRAME":
            eh_frame_hdr = segment["p_vaddr"]
    if not file.segments and file.kind in ("ET_EXEC", "ET_DYN"):
        raise Unreadable(f"{path}: an ELF file without a part to load.")
    if file.machine != X86_64 or elf.elfclass != 64 or not elf.little_endian:
        return file
    tags = _tags(dynamic)
    _read_dynamic(file, tags)
    file.kind = _kind(file, tags)
    for section in _sections(elf):
        if section["sh_type"] == "SHT_SYMTAB":
            _named_functions(file, elf, section)
        elif section.name in (".gopclntab", ".data.rel.ro.gopclntab"):
            file.language = "Go"
            _go_functions(file, content[section["sh_offset"] :][: min(section["sh_size"], MOST_TABLE)])
        elif section.name == ".go.buildinfo":
            file.language = "Go"
    if eh_frame_hdr is not None:
        _unwound_functions(file, eh_frame_hdr)
    for start in [file.entry, *file.starts]:
        file.functions.setdefault(start, "the entry point" if start == file.entry else "")
    file.functions = {start: name for start, name in sorted(file.functions.items()) if file.in_code(start)}
    return file


def _kind(file: ElfFile, tags: dict[int, list[int]]) -> str:
    if file.kind == "ET_EXEC":
        return "executable"
    if file.kind == "ET_DYN":
        pie = file.interpreter or any(flags & 0x08000000 for flags in tags.get(0x6FFFFFFB, []))  # DF_1_PIE
        return "pie" if pie else "library"
    return {"ET_REL": "object file", "ET_CORE": "core dump"}.get(file.kind, file.kind)


def _sections(elf: Any) -> Iterator[Any]:
    for number in range(min(elf.num_sections(), MOST_SECTIONS)):
        try:
            yield elf.get_section(number)
        except Exception:  # one damaged section: the others still help
            continue


def _tags(dynamic: list[tuple[int, int]]) -> dict[int, list[int]]:
    tags: dict[int, list[int]] = {}
    for tag, value in dynamic:
        if tag == 0:
            break
        tags.setdefault(tag, []).append(value)
    return tags


def _read_dynamic(file: ElfFile, tags: dict[int, list[int]]) -> None:
    def one(tag: int) -> int:
        return tags.get(tag, [0])[0]

    names = file.bytes_at(one(5), min(one(10), MOST_TABLE))

    def text(at: int) -> str:
        return names[at : names.find(b"\0", at)].decode("utf-8", "replace") if at < len(names) else ""

    file.needed = [text(at) for at in tags.get(1, [])][:1000]
    path = tags.get(29) or tags.get(15) or []
    file.search = [part for at in path for part in text(at).split(":") if part]
    relocations: list[tuple[int, int, int]] = []
    for table, size in ((one(7), one(8)), (one(23), one(2))):
        raw = file.bytes_at(table, min(size, MOST_TABLE)) if table else b""
        relocations += _RELA.iter_unpack(raw[: len(raw) // 24 * 24])
    most = max((info >> 32 for _, info, _ in relocations), default=0) + 1
    count = max(_symbol_count(file, one), most)
    raw = file.bytes_at(one(6), min(count * 24, MOST_TABLE)) if 6 in tags else b""
    file.symbol_table = (one(6), one(6) + len(raw))
    symbols = list(_SYMBOL.iter_unpack(raw[: len(raw) // 24 * 24]))
    for name_at, info, _other, shndx, value, _size in symbols:
        name = text(name_at)
        if not name:
            continue
        if shndx == 0:
            file.imports.add(name)
        elif info & 15 in _FUNCTION_TYPES:
            file.exports[name] = value
            file.functions.setdefault(value, name)
    for where, info, addend in relocations:
        kind, number = info & 0xFFFFFFFF, info >> 32
        if kind in (R_RELATIVE, R_IRELATIVE):
            file.pointers.add(addend)
        elif number < len(symbols):
            name_at, _info, _other, shndx, value, _size = symbols[number]
            if not number or kind not in (R_64, R_GLOB_DAT, R_JUMP_SLOT):
                continue
            if shndx == 0:
                file.slots[where] = text(name_at)
            else:
                # A library's own symbol, called through the table so that a program may replace it.
                file.slots[where] = text(name_at)
                if kind == R_64:
                    file.pointers.add(value + addend)
    for array, size in ((25, 27), (26, 28), (32, 33)):
        raw = file.bytes_at(one(array), min(one(size), 1 << 16)) if array in tags else b""
        file.starts += [value for (value,) in struct.iter_unpack("<Q", raw[: len(raw) // 8 * 8])]
    file.starts += [one(tag) for tag in (12, 13) if tag in tags]
    # In a position-independent file the arrays hold their values in relocations.
    first, last = one(25), one(25) + one(27)
    file.starts += [addend for where, info, addend in relocations if info & 0xFFFFFFFF == 8 and first <= where < last]


def _symbol_count(file: ElfFile, one: Any) -> int:
    """How many symbols there are: the tables for dynamic linking say so only by their hash tables."""
    if one(4):
        raw = file.bytes_at(one(4), 8)
        if len(raw) == 8:
            return int(struct.unpack("<II", raw)[1])
    if not one(0x6FFFFEF5):
        return 0
    at = one(0x6FFFFEF5)
    raw = file.bytes_at(at, 16)
    if len(raw) < 16:
        return 0
    buckets, offset, bloom, _ = struct.unpack("<IIII", raw)
    at += 16 + bloom * 8
    raw = file.bytes_at(at, min(buckets * 4, MOST_TABLE))
    last = max((value for (value,) in struct.iter_unpack("<I", raw[: len(raw) // 4 * 4])), default=0)
    if last < offset:
        return int(offset)
    chain = file.bytes_at(at + buckets * 4 + (last - offset) * 4, MOST_TABLE)
    for (value,) in struct.iter_unpack("<I", chain[: len(chain) // 4 * 4]):
        last += 1
        if value & 1:
            break
    return int(last)


def _named_functions(file: ElfFile, elf: Any, section: Any) -> None:
    content = file.content
    names_section = elf.get_section(section["sh_link"])
    names = content[names_section["sh_offset"] :][: min(names_section["sh_size"], MOST_TABLE)]
    raw = content[section["sh_offset"] :][: min(section["sh_size"], MOST_TABLE)]
    for name_at, info, _other, shndx, value, _size in _SYMBOL.iter_unpack(raw[: len(raw) // 24 * 24]):
        if info & 15 in _FUNCTION_TYPES and shndx and value:
            file.functions.setdefault(value, names[name_at : names.find(b"\0", name_at)].decode("utf-8", "replace"))


def _unwound_functions(file: ElfFile, at: int) -> None:
    """The table for unwinding lists every function of a C compiler's, also in stripped files."""
    head = file.bytes_at(at, 12)
    if len(head) < 12 or head[0] != 1 or head[2] != 3 or head[3] != 0x3B:
        return
    (count,) = struct.unpack_from("<I", head, 8)
    raw = file.bytes_at(at + 12, min(count * 8, MOST_TABLE))
    for start, _entry in struct.iter_unpack("<ii", raw[: len(raw) // 8 * 8]):
        # Unwinders look one byte before a return address, so the return from a signal's handler is listed from there.
        early = file.bytes_at(at + start + 1, len(_SIGNAL_RETURN)) == _SIGNAL_RETURN
        file.functions.setdefault(at + start + early, "")
    file.whole_functions = count > 0


def _go_functions(file: ElfFile, table: bytes) -> None:
    if len(table) < 72:
        return
    (magic,) = struct.unpack_from("<I", table)
    if magic not in _GO_MAGICS:
        return
    count, _files, text, names_at, _cu, _filetab, _pctab, functab = struct.unpack_from("<8Q", table, 8)
    raw = table[functab : functab + min(count * 8, MOST_TABLE)]
    names = table[names_at:]
    for start, about in struct.iter_unpack("<II", raw[: len(raw) // 8 * 8]):
        name_at = struct.unpack_from("<i", table, functab + about + 4)[0] if functab + about + 8 <= len(table) else -1
        name = names[name_at : names.find(b"\0", name_at)] if 0 <= name_at < len(names) else b""
        file.functions.setdefault(text + start, name[:200].decode("utf-8", "replace"))
    file.whole_functions = count > 0


class Boundaries:
    """Which function an address lies in: from its start to the next one."""

    def __init__(self, starts: list[int]) -> None:
        self.starts = starts

    def of(self, address: int) -> int:
        at = bisect_right(self.starts, address) - 1
        return self.starts[at] if at >= 0 else 0

    def end(self, start: int) -> int:
        at = bisect_right(self.starts, start)
        return self.starts[at] if at < len(self.starts) else start + (1 << 20)

"""images: write a tar archive. The same entries always give the same bytes.

ustar headers, with a pax header where a value does not fit. No user names, no access times, no compression.
"""

from __future__ import annotations

import stat as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BLOCK = 512
RECORD = 20 * BLOCK
_KINDS = {st.S_IFREG: b"0", st.S_IFLNK: b"2", st.S_IFDIR: b"5", st.S_IFIFO: b"6"}
_LINK = b"1"


class TarWriter:
    """Calls `write` with the archive's bytes in order. Call `finish` at the end."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write_out = write
        self._size = 0

    def _write(self, data: bytes) -> None:
        self._write_out(data)
        self._size += len(data)

    def add(
        self,
        name: bytes,
        mode: int,
        *,
        uid: int = 0,
        gid: int = 0,
        mtime_ns: int = 0,
        target: bytes = b"",
        linked_to: bytes = b"",
        xattrs: dict[bytes, bytes] | None = None,
        size: int = 0,
        content: Iterable[bytes] = (),
    ) -> None:
        """`mode` includes the type bits. `linked_to` names an earlier entry; the new one is a hard link to it."""
        pax = {b"SCHILY.xattr." + key: value for key, value in (xattrs or {}).items()}
        kind = _LINK if linked_to else _KINDS[st.S_IFMT(mode)]
        if st.S_ISDIR(mode):
            name += b"/"
        to = linked_to or target
        seconds, fraction = divmod(mtime_ns, 1_000_000_000)
        if fraction or not 0 <= seconds < 8**11:
            pax[b"mtime"] = _decimal(mtime_ns)
            seconds = min(max(seconds, 0), 8**11 - 1)
        for key, value in ((b"path", name), (b"linkpath", to)):
            if len(value) > 100:
                pax[key] = value
                if not _is_text(value):
                    pax[b"hdrcharset"] = b"BINARY"
        numbers = {b"uid": uid, b"gid": gid, b"size": size}
        for key, room in ((b"uid", 8**7), (b"gid", 8**7), (b"size", 8**11)):
            if numbers[key] >= room:
                pax[key] = b"%d" % numbers[key]
                numbers[key] = 0
        if pax:
            records = b"".join(_record(key, pax[key]) for key in sorted(pax, key=_order))
            self._header(b"PaxHeaders/" + name[:80], 0o644, 0, 0, len(records), 0, b"x", b"")
            self._padded([records])
        self._header(name, st.S_IMODE(mode), numbers[b"uid"], numbers[b"gid"], numbers[b"size"], seconds, kind, to)
        self._padded(content)

    def _header(
        self, name: bytes, mode: int, uid: int, gid: int, size: int, mtime: int, kind: bytes, target: bytes
    ) -> None:
        # A long name is cut here, and some readers take any name that ends with a slash for a directory.
        name = name[:100] if kind == b"5" else name[:100].rstrip(b"/")
        head = b"%s%07o\0%07o\0%07o\0%011o\0%011o\0" % (name.ljust(100, b"\0"), mode, uid, gid, size, mtime)
        tail = kind + target[:100].ljust(100, b"\0") + b"ustar\x0000" + bytes(64 + 16 + 155 + 12)
        check = b"%06o\0 " % (sum(head) + sum(tail) + 8 * 32)
        self._write(head + check + tail)

    def _padded(self, content: Iterable[bytes]) -> None:
        before = self._size
        for piece in content:
            self._write(piece)
        if lacking := -(self._size - before) % BLOCK:
            self._write(bytes(lacking))

    def finish(self) -> None:
        self._write(bytes(2 * BLOCK))
        self._write(bytes(-self._size % RECORD))


def _order(key: bytes) -> tuple[bool, bytes]:
    return key != b"hdrcharset", key  # first: it says how to read the others


def _record(key: bytes, value: bytes) -> bytes:
    rest = b" %s=%s\n" % (key, value)
    size = len(rest)
    while size != len(rest) + len(b"%d" % size):
        size = len(rest) + len(b"%d" % size)
    return b"%d%s" % (size, rest)


def _decimal(ns: int) -> bytes:
    whole, fraction = divmod(abs(ns), 1_000_000_000)
    text = b"%s%d.%09d" % (b"-" if ns < 0 else b"", whole, fraction)
    return text.rstrip(b"0").rstrip(b".")


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True

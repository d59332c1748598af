"""vfs: /proc/PID/maps and smaps as the guest may see them — guest paths for host paths, husk's own pages left out.

Pure text work on what the host's proc said; no file is opened here.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    GuestFile = Callable[[bytes, int, int], tuple[bytes, int, int] | None]

# husk keeps its resident page and the loader in this window of the guest's addresses; nothing of the guest is there.
HIDDEN_START, HIDDEN_END = 0x567F_0000_0000, 0x567F_1000_0000
_ANONYMOUS = b" 00:00 0 "
_NAME_COLUMN = 73  # where the host kernel starts the path
_OWN_NAMES = (b"[", b"anon_inode:", b"/dev/zero (deleted)", b"/SYSV")  # not files: no host path in them


def maps(text: bytes, guest_file: GuestFile) -> bytes:
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    # The host tells regions by rising addresses.
    del lines[_first(lines, _ends_behind_start) : _first(lines, _starts_behind_end)]
    what = _Regions(guest_file).show
    # Most regions have no name. A name without a slash is in brackets.
    shown = (line if line.endswith(_ANONYMOUS) and b"/" not in line else what(line) for line in lines)
    return b"".join(line + b"\n" for line in shown if line is not None)


def smaps(text: bytes, guest_file: GuestFile) -> bytes:
    regions = _Regions(guest_file)
    made = []
    hidden = False
    for line in text.split(b"\n"):
        # A region starts "7f00-7f01 r-xp …", its details "Rss:   4 kB".
        first = line.split(b" ", 1)[0]
        if b"-" in first and not first.endswith(b":"):
            shown = None if _ends_behind_start(line) and not _starts_behind_end(line) else regions.show(line)
            hidden = shown is None
            if shown is not None:
                made.append(shown + b"\n")
        elif line and not hidden:
            made.append(line + b"\n")
    return b"".join(made)


def _starts_behind_end(line: bytes) -> bool:
    return int(line[: line.index(b"-")], 16) >= HIDDEN_END


def _ends_behind_start(line: bytes) -> bool:
    return int(line[line.index(b"-") + 1 : line.index(b" ")], 16) > HIDDEN_START


def _first(lines: list[bytes], behind: Callable[[bytes], bool]) -> int:
    """Index of the first line that is behind; all after it are."""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if behind(lines[middle]) else (middle + 1, high)
    return low


class _Regions:
    """The regions of one text. A library has four or five of them, with the same device, inode and name; to find its
    name takes a walk."""

    __slots__ = ("_guest_file", "_known")

    def __init__(self, guest_file: GuestFile) -> None:
        self._guest_file = guest_file
        self._known: dict[bytes, tuple[bytes, bytes] | bytes | None] = {}

    def show(self, line: bytes) -> bytes | None:
        """The line as the guest sees it; None for a region it must not see."""
        addresses, mode, offset, what = line.split(b" ", 3)
        try:
            shown = self._known[what]
        except KeyError:
            shown = self._known[what] = self._file(what)
        if shown is None:
            return None
        if isinstance(shown, bytes):
            return b"%s %s %s %s" % (addresses, mode, offset, shown)
        return (b"%s %s %s %s" % (addresses, mode, offset, shown[0])).ljust(_NAME_COLUMN) + shown[1]

    def _file(self, what: bytes) -> tuple[bytes, bytes] | bytes | None:
        """Device, inode and perhaps a name, as the host tells them. A tuple has the name apart, for its column."""
        fields = what.split(None, 2)
        if len(fields) < 3:
            return what
        host_dev, host_ino, name = fields
        if name.startswith(_OWN_NAMES) or (name.startswith(b"/memfd:") and not name.startswith(b"/memfd:husk")):
            return what
        major, _, minor = host_dev.partition(b":")
        host_path = name.replace(b"\\012", b"\n")  # the host escapes only this byte here
        shown = self._guest_file(host_path, os.makedev(int(major, 16), int(minor, 16)), int(host_ino))
        if shown is None:  # a file that has no name inside: like anonymous memory
            return b"00:00 0 "
        path, dev, ino = shown
        if not path:
            return None
        return b"%02x:%02x %d" % (os.major(dev), os.minor(dev), ino), path.replace(b"\n", b"\\012")

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
_NAME_COLUMN = 73  # where the host kernel starts the path
_OWN_NAMES = (b"[", b"anon_inode:", b"/dev/zero (deleted)", b"/SYSV")  # not files: no host path in them


def maps(text: bytes, guest_file: GuestFile) -> bytes:
    ask = _asked_once(guest_file)
    return b"".join(shown for line in text.split(b"\n") if line and (shown := _region(line, ask)) is not None)


def smaps(text: bytes, guest_file: GuestFile) -> bytes:
    ask = _asked_once(guest_file)
    made = []
    hidden = False
    for line in text.split(b"\n"):
        # A region starts "7f00-7f01 r-xp …", its details "Rss:   4 kB".
        first = line.split(b" ", 1)[0]
        if b"-" in first and not first.endswith(b":"):
            shown = _region(line, ask)
            hidden = shown is None
            if shown is not None:
                made.append(shown)
        elif line and not hidden:
            made.append(line + b"\n")
    return b"".join(made)


def _asked_once(guest_file: GuestFile) -> GuestFile:
    """A library has four or five lines, and finding its name takes a walk."""
    known: dict[tuple[bytes, int, int], tuple[bytes, int, int] | None] = {}

    def ask(host_path: bytes, dev: int, ino: int) -> tuple[bytes, int, int] | None:
        key = (host_path, dev, ino)
        if key not in known:
            known[key] = guest_file(host_path, dev, ino)
        return known[key]

    return ask


def _region(line: bytes, guest_file: GuestFile) -> bytes | None:
    """The line as the guest sees it; None for a region it must not see."""
    fields = line.split(None, 5)
    start, _, end = fields[0].partition(b"-")
    if int(start, 16) < HIDDEN_END and int(end, 16) > HIDDEN_START:
        return None
    if len(fields) < 6:
        return line + b"\n"
    name = fields[5]
    if name.startswith(_OWN_NAMES) or (name.startswith(b"/memfd:") and not name.startswith(b"/memfd:husk")):
        return line + b"\n"
    major, _, minor = fields[3].partition(b":")
    host_path = name.replace(b"\\012", b"\n")  # the host escapes only this byte here
    shown = guest_file(host_path, os.makedev(int(major, 16), int(minor, 16)), int(fields[4]))
    head = b" ".join(fields[:3])
    if shown is None:  # a file that has no name inside: like anonymous memory
        return head + b" 00:00 0 \n"
    path, dev, ino = shown
    if not path:
        return None
    place = b" %02x:%02x %d" % (os.major(dev), os.minor(dev), ino)
    return (head + place).ljust(_NAME_COLUMN) + path.replace(b"\n", b"\\012") + b"\n"

"""kernel: directory listings, packed once for directories that show an unchanged host directory.

A pure accelerator, like the name cache: a listing is used again only while the host directory has the same identity and
the same times, and the box has changed nothing in it.
"""

from __future__ import annotations

import errno
import time
from itertools import islice

from husk.abi.structs import pack_dirent64
from husk.native._core import pack_entries, stat_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.kernel.call import Call
    from husk.vfs.node import Dir, Entry

    Pack = Callable[[int, int, int, bytes], bytes]
    Stamp = tuple[int, int, int, int]

RECORDS_MAX = 50_000  # kept, over all directories
SHORTEST = 24  # bytes of a record
RECENT = 100_000_000  # nanoseconds
RECENT_BY_SECONDS = 3_000_000_000  # where the host's file system keeps times in seconds, or in two
SECOND = 1_000_000_000
NEVER_CHANGES = (0, 0, 0, 0)  # a directory of an image


class _Listing:
    __slots__ = ("cookies", "directory", "records", "rel", "stamp", "whole")

    def __init__(self, directory: Dir, rel: bytes, stamp: Stamp, cookies: list[int], records: list[bytes]) -> None:
        # Rules may hide names by the whole path, which changes when a directory above is renamed.
        self.directory, self.rel, self.stamp = directory, rel, stamp
        self.cookies, self.records = cookies, records
        self.whole = b"".join(records)


class Listings:
    """By directory and record format; the oldest are dropped first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Pack], _Listing] = {}
        self._count = 0

    def read(self, call: Call, directory: Dir, position: int, room: int, pack: Pack) -> tuple[bytes, int]:
        """As many records behind `position` as fit, and the position behind the last of them."""
        with call.vfs.lock:
            rel, stamp = _stamp(directory)
            kept = self._kept.get((id(directory), pack)) if stamp else None
            if kept is None or kept.directory is not directory or kept.stamp != stamp or kept.rel != rel:
                if stamp is None or position or _too_fresh(stamp):
                    entries = list(islice(call.vfs.entries(call, directory, position), max(room, 0) // SHORTEST + 1))
                    cookies = (entry.cookie for entry in entries)
                    return _fill(zip(cookies, _packed(entries, pack), strict=True), position, room)
                kept = self._keep(call, directory, rel, stamp, pack)
            if not position and pack is pack_dirent64:
                call.kernel.names.listed(directory, stamp, kept.whole)  # C has forgotten it, or never knew it
            if not position and len(kept.whole) <= room:
                return kept.whole, kept.cookies[-1]
            from _bisect import bisect_right  # a library to be loaded: many programs list nothing

            start = bisect_right(kept.cookies, position)
            return _fill(zip(kept.cookies[start:], kept.records[start:], strict=True), position, room)

    def _keep(self, call: Call, directory: Dir, rel: bytes, stamp: Stamp, pack: Pack) -> _Listing:
        entries = list(call.vfs.entries(call, directory, 0))
        listing = _Listing(
            directory,
            rel,
            stamp,
            [entry.cookie for entry in entries],
            _packed(entries, pack),
        )
        old = self._kept.pop((id(directory), pack), None)
        self._count += len(entries) - (len(old.records) if old else 0)
        self._kept[id(directory), pack] = listing
        while self._count > RECORDS_MAX and len(self._kept) > 1:
            self._count -= len(self._kept.pop(next(iter(self._kept))).records)
        return listing


def _packed(entries: list[Entry], pack: Pack) -> list[bytes]:
    return pack_entries(entries) if pack is pack_dirent64 else [pack(e.ino, e.cookie, e.kind, e.name) for e in entries]


def _stamp(directory: Dir) -> tuple[bytes, Stamp | None]:
    """Where the host's directory is, and what would change with its names; None: it is not the host's alone."""
    try:
        view = directory.tree.names_view(directory)
        if view is None:
            return b"", None
        if view.manifest is not None:
            return view.rel, NEVER_CHANGES
        info = view.info or stat_beneath(view.root_fd, view.rel)
    except OSError:
        return b"", None
    return view.rel, (info.dev, info.ino, info.mtime, info.ctime)


def _too_fresh(stamp: Stamp) -> bool:
    """Before Linux 6.13 times advance by ticks: a change in the tick of the listing does not change the time."""
    recent = RECENT if any(when % SECOND for when in stamp[2:]) else RECENT_BY_SECONDS
    return abs(time.time_ns() - max(stamp[2:])) < recent


def _fill(records: Iterable[tuple[int, bytes]], position: int, room: int) -> tuple[bytes, int]:
    used: list[bytes] = []
    for cookie, record in records:
        if len(record) > room:
            if not used:
                raise OSError(errno.EINVAL, "the buffer is too small for one entry")
            break
        used.append(record)
        room -= len(record)
        position = cookie
    return b"".join(used), position

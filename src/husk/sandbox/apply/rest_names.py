"""sandbox: the names of a box's tree without those that were applied: what the box goes on with.

Works on the table that the box was kept with (docs/formats/box.md), not on its tree: the host is about to change, and
what a name in the table means does not depend on the host.
"""

from __future__ import annotations

import stat as st

from husk.store.manifests.manifest_writer import ManifestWriter
from husk.vfs.layer.overlay import NODE, NODE_FORM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.apply.selected_steps import Taken
    from husk.store import Entry, Manifest


class RestNames:
    """`data`: the new table; empty: no name is left. `entries` are those in it."""

    __slots__ = ("data", "entries")

    def __init__(self, names: Manifest, taken: Taken) -> None:
        entries = list(names.walk())
        gone = [False] * len(entries)
        for entry in entries[1:]:  # a directory comes before what is in it
            gone[entry.number] = gone[entry.parent] or entry.path in taken.whole
        # Names of one file go together; one that only shows how many there are is no change by itself.
        linked = {entry.inode for entry in entries if gone[entry.number] and _is_linked(entry)}
        for entry in entries:
            gone[entry.number] |= _is_linked(entry) and entry.inode in linked
        needed = [False] * len(entries)
        for entry in reversed(entries):
            passed = entry.path in taken.alone or (entry.is_directory and NODE not in entry.xattrs)
            if gone[entry.number] or not (needed[entry.number] or not passed):
                continue
            needed[entry.number] = True
            if entry.path:
                needed[entry.parent] = True
        self.entries = [entry for entry in entries if needed[entry.number]]
        self.data = b""
        if self.entries:
            self.data = _written(self.entries, taken)


def _written(entries: list[Entry], taken: Taken) -> bytes:
    writer = ManifestWriter()
    for entry in entries:
        writer.add(
            entry.path,
            entry.mode,
            uid=entry.uid,
            gid=entry.gid,
            size=entry.size if entry.is_file else 0,
            mtime_ns=entry.mtime_ns,
            target=entry.target,
            xattrs=_attributes(entry, taken),
            blob=entry.blob if entry.is_file else b"",
            link=entry.inode if _is_linked(entry) else None,
            flags=entry.flags,
        )
    return writer.finish()


def _is_linked(entry: Entry) -> bool:
    return entry.nlink > 1 and not entry.is_directory


def _attributes(entry: Entry, taken: Taken) -> dict[bytes, bytes]:
    found = dict(entry.xattrs)
    more = taken.directories.get(entry.path, 0)
    if more and NODE in found and st.S_ISDIR(entry.mode):
        *rest, directories = NODE_FORM.unpack(found[NODE])
        found[NODE] = NODE_FORM.pack(*rest, directories - more)
    return found

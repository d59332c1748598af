"""store: several layers as one tree. A box looks names up in one manifest; which layer a name came from is history."""

from __future__ import annotations

from husk.store.writer import ManifestWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from husk.store.manifest import Entry, Manifest


def flatten(layers: Sequence[Manifest]) -> bytes:
    """The manifest of what shows when `layers`, lowest first, lie upon one another."""
    shown: dict[bytes, tuple[int, Entry]] = {}
    for number, layer in enumerate(layers):
        for entry in layer.walk():  # a directory before what is in it
            there = shown.get(entry.path)
            if entry.path and (entry.is_whiteout or entry.is_opaque or (there and not entry.is_directory)):
                _hide(shown, entry.path, below=number)
            if not entry.is_whiteout:
                shown[entry.path] = number, entry
    writer = ManifestWriter()
    for number, entry in shown.values():
        writer.add(
            entry.path,
            entry.mode,
            uid=entry.uid,
            gid=entry.gid,
            size=entry.size if entry.is_file else 0,
            mtime_ns=entry.mtime_ns,
            rdev=(entry.rdev_major, entry.rdev_minor),
            target=entry.target,
            xattrs=entry.xattrs,
            blob=entry.blob if entry.is_file else b"",
            # Names of one file in one layer stay names of one file; the count is made anew from those that still show.
            link=(number, entry.inode) if entry.nlink > 1 and not entry.is_directory else None,
        )
    return writer.finish()


def _hide(shown: dict[bytes, tuple[int, Entry]], path: bytes, *, below: int) -> None:
    """Nothing of the layers below `below` shows at `path` or in it any more."""
    inside = path + b"/"
    for name in [
        name for name, (number, _) in shown.items() if number < below and (name == path or name.startswith(inside))
    ]:
        del shown[name]

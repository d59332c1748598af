"""store: flatten several layers into one manifest, so that a box looks up each name only once."""

from __future__ import annotations

from husk.store.manifests.manifest_writer import ManifestWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from husk.store.manifests.manifest import Entry, Manifest

    Shown = tuple[int, Entry]  # with the number of its layer


def flatten(layers: Sequence[Manifest]) -> bytes:
    """The manifest of what is visible when `layers`, lowest first, lie upon one another.

    From the root downward, so each entry of each layer is read once at most, however much an upper layer hides.
    """
    writer = ManifestWriter()
    # Visible directories: for each, the entries of the layers that make it up, uppermost first.
    roots: list[Shown] = []
    for number in reversed(range(len(layers))):
        roots.append((number, layers[number].entry(0)))
        if roots[-1][1].is_opaque:
            break
    waiting = [roots]
    while waiting:
        merged = waiting.pop()
        _copy(writer, merged[0])
        # Name -> what it is made of, and whether a layer further down may still add to it.
        names: dict[bytes, tuple[list[Shown], bool]] = {}
        for number, directory in merged:
            for entry in layers[number].children(directory):
                parts, is_open = names.get(entry.path, ([], True))
                if not is_open:
                    continue
                if entry.is_directory:
                    parts.append((number, entry))
                    is_open = not entry.is_opaque
                else:
                    if not parts and not entry.is_whiteout:
                        _copy(writer, (number, entry))
                    is_open = False
                names[entry.path] = parts, is_open
        waiting += [parts for parts, _ in names.values() if parts]
    return writer.finish()


def _copy(writer: ManifestWriter, shown: Shown) -> None:
    number, entry = shown
    writer.copy(entry, layer=number)

"""images: limits on what an archive may cost, and the errors that refuse one."""

from __future__ import annotations

from husk.store.manifests.manifest_writer import names_fit
from husk.store.store_errors import StoreError, shown

GIB = 1 << 30
RATIO_MATTERS_FROM = 64 << 20  # below it the ratio says nothing: a page of zeros compresses better than any bomb


class Refused(StoreError):
    """The archive is broken, hostile, or asks for more than it may have. Nothing of it was kept."""


def refuse(name: bytes, why: str) -> Refused:
    return Refused(f"the archive is refused at '{shown(name)}': {why}.")


class Limits:
    """Limits of one import: bytes when unpacked, number of entries, and ratio of unpacked to packed size."""

    __slots__ = ("entries", "ratio", "size")

    def __init__(self, size: int = 32 * GIB, entries: int = 2_000_000, ratio: int = 200) -> None:
        self.size, self.entries, self.ratio = size, entries, ratio


class Budget:
    """How much of the limits is used, over all layers of an import."""

    __slots__ = ("entries", "limits", "names", "size", "text")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.size = self.entries = self.names = self.text = 0

    def unpacked(self, count: int) -> None:
        self.size += count
        if self.size > self.limits.size:
            raise Refused(
                f"the archive unpacks to more than {self.limits.size} bytes; if you trust it, raise --max-bytes."
            )

    def ratio(self, packed: int, unpacked: int) -> None:
        if unpacked > RATIO_MATTERS_FROM and unpacked > packed * self.limits.ratio:
            raise Refused(
                f"the archive unpacks to more than {self.limits.ratio} times its size, as a decompression bomb does; "
                "if you trust it, raise --max-ratio."
            )

    def count_names(self, name: bytes, text: int) -> None:
        """Count bytes of paths and attributes that the entry `name` keeps in memory."""
        self.names += 1
        self.text += text
        if not names_fit(self.text, self.names):
            raise refuse(name, f"up to here its names and attributes take {self.text >> 20} MiB, as no real tree's do")

    def entry(self, name: bytes) -> None:
        self.entries += 1
        if self.entries > self.limits.entries:
            raise refuse(
                name, f"there are more than {self.limits.entries} entries; if you trust it, raise --max-entries"
            )

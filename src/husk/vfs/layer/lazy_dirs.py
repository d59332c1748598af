"""vfs: directories of a layered tree that read their names from a manifest when they are first looked into.

A plain directory has `names` in a slot; one that waits has a property of that name instead, which fills the table and
then turns the directory into a plain one. So plain directories pay nothing for it.
"""

from __future__ import annotations

from husk.vfs.layer.inodes import LayerDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.layer.overlay import Overlay
    from husk.vfs.node import Node

    Waiting = list[tuple[Overlay, int]]  # what is to be merged, lowest first: an overlay and the number of its entry


class PendingDir(LayerDir):
    """Becomes a LayerDir when its names are first asked for."""

    __slots__ = ()

    pending = True

    @property
    def names(self) -> dict[bytes, Node]:  # type: ignore[override]
        names, waiting = _slot.__get__(self)
        _slot.__set__(self, names)
        self.__class__ = LayerDir  # type: ignore[assignment]
        for overlay, number in waiting:
            overlay.merge(self, number)
        return names  # type: ignore[no-any-return]


_slot = LayerDir.__dict__["names"]


def wait(directory: LayerDir, overlay: Overlay, number: int) -> None:
    """Merge entry `number` of `overlay` when `directory` is first looked into."""
    if isinstance(directory, PendingDir):
        waiting_in(directory).append((overlay, number))
        return
    _slot.__set__(directory, (directory.names, [(overlay, number)]))
    directory.__class__ = PendingDir


def waiting_in(directory: LayerDir) -> Waiting:
    waiting: Waiting = _slot.__get__(directory)[1] if isinstance(directory, PendingDir) else []
    return waiting

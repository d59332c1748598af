"""vfs: an image of the store shown below a directory of a box, read-only: `--mount IMAGE:DIR:image`.

The counterpart of `store_image`, which makes an image the root. It is a layered tree whose upper layer stays empty, so
that the name cache learns look-ups in it like any others.
"""

from __future__ import annotations

from husk.vfs.image.image_lower import ImageLower
from husk.vfs.layer.layered_tree import LayeredTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.store import Manifest, Store
    from husk.store.locks import Lease
    from husk.vfs.state import State


class ImageTree(LayeredTree):
    """`number` tells the images of one box apart; 0 is the root. Owns the lease."""

    read_only = True

    def __init__(self, state: State, store: Store, manifest: Manifest, number: int, lease: Lease) -> None:
        super().__init__(state)
        self._lease = lease
        self.show_lower(self.root, ImageLower(store, manifest, state.path + b"/images/%d" % number, number))

    def close(self) -> None:
        super().close()
        self._lease.close()

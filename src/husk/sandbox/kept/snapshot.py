"""sandbox: the files of an open box at one moment, for as long as somebody holds them: to begin other boxes with, and
for the box itself to go on from.

Life: taken from a ground; `again` for each box that begins with it; closed by each, and the last one leaves nothing.
There is no name and no record on disk: if husk dies, what is left are layers that nobody locks.
"""

from __future__ import annotations

import os

from husk.sandbox.errors import HuskError
from husk.sandbox.kept.freeze import copy, settle
from husk.sandbox.kept.keeping import CONTENT, Opened
from husk.sandbox.kept.kept_boxes import Holding, Kept
from husk.sandbox.kept.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.ground import Ground
    from husk.sandbox.image_source import ImageSource


class Snapshot(Opened):
    """`record` has what a kept box's has, but a name."""

    def __init__(self, kept: Kept, record: Record) -> None:
        """The caller keeps the layers from being collected meanwhile."""
        super().__init__(kept, record)
        self._held = Holding(kept, record.layers)
        self._image: ImageSource | None = None
        if record.manifests:
            from husk.sandbox.image_source import ImageSource

            try:
                self._image = ImageSource(record.image, record.store, record)  # leased, so that the store keeps it
            except BaseException:
                self._held.close()
                raise

    def again(self) -> Snapshot:
        with self.kept.sharing():
            return Snapshot(self.kept, self.record)

    def without(self, target: str) -> Snapshot:
        """The same, with nothing changed below the mount at `target`."""
        record = Record("")
        for name in Record.__slots__:
            setattr(record, name, getattr(self.record, name))
        record.trees = ["" if tree == target else tree for tree in record.trees]
        with self.kept.sharing():
            return Snapshot(self.kept, record)

    def close(self) -> None:
        """Safe to call twice."""
        self.forget()
        self.kept.collect()

    def forget(self) -> None:
        """In a forked child too, which must not keep the parent's layers locked."""
        self._held.close()
        if self._image is not None:
            self._image.close()
            self._image = None


def take(ground: Ground, *, over: bool) -> Snapshot:
    """What the box is now. `over`: nobody runs in it, and it is closed with this; its files become the snapshot's.
    Otherwise its own files are copied (blocks are shared where the file system can), and it goes on."""
    kept = ground.kept.kept if ground.kept is not None else Kept()
    kept.create()
    kept.collect()
    try:
        return _taken(ground, kept, over=over)
    except OSError as error:
        raise HuskError(f"the files of the box cannot be kept ({error.strerror}); make room and try again.") from None


def _taken(ground: Ground, kept: Kept, *, over: bool) -> Snapshot:
    record = Record("")
    source, state = ground.source, ground.state
    assert state is not None
    if source is not None:
        record.image, record.store, record.flat = source.name, source.store.place, source.flat
        record.manifests, record.config = source.manifests, source.config.as_json()
        record.image_layers = source.layers
    record.mounts = [[mount.source, mount.target, mount.mode] for mount in ground.policy.mounts]
    with kept.sharing():
        if not over:
            copy(kept, ground.files, ground.before, record)
        elif ground.kept is not None:
            ground.kept.settle(state, ground.files)
            for name in CONTENT:
                setattr(record, name, getattr(ground.kept.record, name))
        else:
            settle(state, ground.files, ground.before, record)
            state.become(os.path.join(kept.layers, record.layer), share=True)
        return Snapshot(kept, record)

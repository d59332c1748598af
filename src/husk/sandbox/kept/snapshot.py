"""sandbox: a snapshot: the files of an open box at one moment. Other boxes can begin with it, and the box can go on
from it.

Life: `take_snapshot` makes it; `again` gives one to each box that begins with it; each closes its own, and the last
close leaves nothing. There is no name and no record on disk: if husk is killed, only layers without a lock are left.
"""

from __future__ import annotations

from husk.sandbox.kept.box_content import BoxContent
from husk.sandbox.kept.kept_boxes import KeptBoxes, LayerLocks
from husk.sandbox.kept.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.sandbox.image_source import ImageSource


class Snapshot(BoxContent):
    """`record` is that of a kept box, without a name."""

    def __init__(self, kept: KeptBoxes, record: Record) -> None:
        """The caller prevents collection meanwhile."""
        super().__init__(kept, record)
        self._locks = LayerLocks(kept, record.layers)
        self._image: ImageSource | None = None
        if record.manifests:
            from husk.sandbox.image_source import ImageSource

            try:
                self._image = ImageSource(record.image, record.store, record)  # leased, so that the store keeps it
            except BaseException:
                self._locks.close()
                raise

    def again(self) -> Snapshot:
        with self.kept.without_collection():
            return Snapshot(self.kept, self.record)

    def after_apply(self, target: str, rest: dict[str, Any] | None) -> Snapshot:
        """The same, with nothing changed below the mount at `target` but `rest`. The caller prevents collection."""
        record = Record("")
        for name in Record.__slots__:
            setattr(record, name, getattr(self.record, name))
        record.leave(target, rest)
        return Snapshot(self.kept, record)

    def close(self) -> None:
        """Safe to call twice."""
        self.forget()
        self.kept.collect()

    def forget(self) -> None:
        """In a forked child, which must not keep the parent's layers locked."""
        self._locks.close()
        if self._image is not None:
            self._image.close()
            self._image = None

"""sandbox: the trees of a kept box or a snapshot without a run, to show, apply and commit its changes."""

from __future__ import annotations

import os

from husk.kernel.tasks import LiveRuns
from husk.sandbox.filesystem import build
from husk.sandbox.image_source import ImageSource
from husk.sandbox.kept.box_content import BoxContent
from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.record import Record
from husk.sandbox.policy import Policy
from husk.sandbox.state_dir import StateDir
from husk.store.locks import Closing
from husk.walls.ids import Ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.filesystem import Files
    from husk.sandbox.rules.path_rule import PathRule


class OpenBox(BoxContent, Closing):
    """A box as it was last kept, or at a snapshot (a record without a name). While this is open, no layer
    is collected and the image is leased."""

    def __init__(
        self, kept: KeptBoxes, record: Record, *, whole: bool = False, rules: list[PathRule] | None = None
    ) -> None:
        """`rules`: beside those that the box was kept with."""
        super().__init__(kept, record, whole=whole)
        self._no_collection = kept.without_collection()
        self._state: StateDir | None = None
        self._source: ImageSource | None = None
        try:
            policy = Policy([])
            policy.rules = rules or []
            self.prepare(policy)
            if policy.image:
                self._source = ImageSource(policy.image, policy.store, record)
            self._state = StateDir()
            ids = Ids(user_namespace=False)
            ids.uid, ids.gid = record.owner
            self.files: Files = build(policy, os.fsencode(self._state.path), ids, LiveRuns(), self._source, self)
        except BaseException:
            self.close()
            raise

    @property
    def folder(self) -> str:
        """Where an apply writes its journal, and where recovery looks for it."""
        assert self._state is not None
        return self.kept.path(self.record.name) if self.record.name else self._state.path

    @property
    def source(self) -> ImageSource | None:
        return self._source

    def close(self) -> None:
        files = getattr(self, "files", None)
        if files is not None:
            files.close()
        if self._state is not None:
            self._state.remove()
        if self._source is not None:
            self._source.close()
        self._no_collection.close()

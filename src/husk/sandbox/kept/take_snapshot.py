"""sandbox: take a snapshot of an open box: freeze its files, or copy them while it goes on."""

from __future__ import annotations

import os

from husk.sandbox.errors import HuskError
from husk.sandbox.kept.box_content import FIELDS
from husk.sandbox.kept.freeze import copy, settle
from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.record import Record
from husk.sandbox.kept.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.box import Box


def take_snapshot(box: Box, *, over: bool) -> Snapshot:
    """What the box is now. `over`: no guest runs in it, and it is closed with this; its files become the snapshot's.
    Otherwise its own files are copied (blocks are shared where the file system can), and it goes on."""
    kept = box.kept.kept if box.kept is not None else KeptBoxes()
    kept.create()
    kept.collect()
    try:
        return _take(box, kept, over=over)
    except OSError as error:
        raise HuskError(f"the files of the box cannot be kept ({error.strerror}); make room and try again.") from None


def _take(box: Box, kept: KeptBoxes, *, over: bool) -> Snapshot:
    record = Record("")
    source, state = box.source, box.state
    assert state is not None
    if source is not None:
        record.image, record.store, record.flat = source.name, source.store.place, source.flat
        record.manifests, record.config = source.manifests, source.config.as_json()
        record.image_layers = source.layers
    record.note_policy(box.policy)
    with kept.without_collection():
        if not over:
            copy(kept, box.files, box.before, record)
        elif box.kept is not None:
            box.kept.settle(state, box.files)
            for name in FIELDS:
                setattr(record, name, getattr(box.kept.record, name))
        else:
            settle(state, box.files, box.before, record)
            state.publish(os.path.join(kept.layers, record.layer), share=True)
        return Snapshot(kept, record)

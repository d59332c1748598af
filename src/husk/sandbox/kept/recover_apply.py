"""sandbox: recovery of an apply that was interrupted, for kept boxes and snapshots: their side of `apply.recovery`."""

from __future__ import annotations

import os

from husk.sandbox.apply.apply_plan import lstat
from husk.sandbox.apply.baseline import pack
from husk.sandbox.apply.recovery import POINTER, GoneBox, recover
from husk.sandbox.errors import HuskError
from husk.sandbox.locked_dir import is_there
from husk.store.layout import write_file
from husk.vfs.layer.delta import is_same_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.sandbox.kept.kept_boxes import KeptBoxes
    from husk.sandbox.kept.record import Record


class KeptBox(GoneBox):
    """A box with a record on disk, or a snapshot, which has layers but no name."""

    def __init__(self, kept: KeptBoxes, record: Record) -> None:
        self._kept, self._record = kept, record

    def changes_applied(self, target: str, rest: dict[str, Any] | None) -> None:
        if self._record.name:
            record = self._kept.get(self._record.name)
            record.leave(target, rest)
            self._kept.write(record, durable=True)

    def changes_undone(self, target: str, root: int, paths: list[bytes]) -> None:
        """The new ctime of a file that was moved out and back is husk's own doing, and no conflict."""
        baseline = self._kept.baseline(self._record, target)
        for path in paths:
            now, then = lstat(root, path), baseline.get(path)
            if now is not None and then is not None and is_same_content(now, then):
                baseline[path] = now
        if baseline:
            file = self._kept.baseline_path(self._record, target)
            write_file(file + ".new", pack(baseline), durable=True)
            os.rename(file + ".new", file)


def recover_apply(kept: KeptBoxes, name: str) -> str:
    """Undo or finish what a killed apply of this box began: "undone", "finished", or empty. The caller holds the box's
    lock."""
    folder = kept.path(name)
    if not is_there(os.path.join(folder, POINTER)):
        return ""
    try:
        box: GoneBox = KeptBox(kept, kept.get(name))
    except HuskError:
        box = GoneBox()  # the host directory must be recovered even if the record cannot be read
    return recover(folder, box)

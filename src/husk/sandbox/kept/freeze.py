"""sandbox: freeze a box's files at one moment as a layer: its names, and which files hold their contents.

`settle` is for a box in which no guest runs: its files become the layer, and nothing is copied; the box has to be built
anew upon it. `copy` is for a box that goes on: its own files are copied, since a guest may write to them at any moment
without a call that husk sees. docs/design/010-snapshots.md.
"""

from __future__ import annotations

import os

from husk.abi import text
from husk.native._core import open_beneath
from husk.sandbox.apply import originals
from husk.sandbox.apply.baseline import pack
from husk.sandbox.errors import HuskError
from husk.sandbox.kept.capture_layer import names_of
from husk.sandbox.locked_dir import remove_own_tree
from husk.store.layout import write_file
from husk.store.store_errors import BadManifest
from husk.vfs.layer.content_copy import copy_content
from husk.vfs.layer.inodes import Inode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.filesystem import Files
    from husk.sandbox.kept.box_content import BoxContent
    from husk.sandbox.kept.kept_boxes import KeptBoxes
    from husk.sandbox.kept.record import Record
    from husk.sandbox.state_dir import StateDir
    from husk.vfs.layer.layered_tree import LayeredTree

    Used = dict[str, set[int]]  # layer -> numbers of its files

NOT_KEPT = ("places", "images", "mirror")  # of a state directory


def settle(state: StateDir, files: Files, before: BoxContent | None, record: Record) -> Used:
    """Everything but the last step, which is `StateDir.publish`. The box cannot be used afterwards."""
    for _, tree in files.layers:
        tree.end_watching()
    used = _write_down(state.path, files, before, record)
    _leave_only(state, used[record.layer])
    return used


def copy(kept: KeptBoxes, files: Files, before: BoxContent | None, record: Record) -> None:
    """A layer beside the box. The caller prevents collection meanwhile (`KeptBoxes.without_collection`)."""
    with files.vfs.lock:
        layer = os.urandom(16).hex()
        path = kept.layer_path(layer)
        os.makedirs(os.path.join(path, "files"), 0o700)
        try:
            used = _write_down(path, files, before, record, layer)
            for number in used[layer]:
                _copy(files, number, os.path.join(path, "files", str(number)))
        except BaseException:
            remove_own_tree(path)
            raise


def _copy(files: Files, number: int, goal: str) -> None:
    state = files.vfs.state
    node = state.nodes[number]
    assert isinstance(node, Inode)
    tree: LayeredTree = node.tree  # type: ignore[assignment]
    source = open_beneath(state.fd, tree.files.path(node), os.O_RDONLY)
    try:
        target = os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            copy_content(source, target)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _write_down(path: str, files: Files, before: BoxContent | None, record: Record, layer: str = "") -> Used:
    layer = layer or os.urandom(16).hex()
    used: Used = {layer: set()}
    count = size = 0
    for number, (where, tree) in enumerate(files.layers):
        try:
            names = names_of(tree, layer)
        except BadManifest as error:
            raise HuskError(f"what is in {text.shown(where)} cannot be kept, nor what else changed: {error}") from None
        write_file(os.path.join(path, f"names-{number}"), names.data)
        for older, numbers in names.files.items():
            used.setdefault(older, set()).update(numbers)
        count += names.count
        size += names.bytes
    _write_baselines(path, files, before)
    record.names, record.bytes = count, size
    record.trees = [os.fsdecode(target) for target, _ in files.layers]
    record.owner = [files.creds.uid, files.creds.gid]
    record.number = files.vfs.state.last_number
    record.layer, record.layers = layer, sorted(used)
    return used


def _write_baselines(path: str, files: Files, before: BoxContent | None) -> None:
    for number, (target, tree) in enumerate(files.layers):
        lower = tree.root.lower
        if lower is not None and lower.baseline is not None:
            # Where an earlier run saw the same file, its stat is the older one.
            baseline = lower.baseline | (before.baseline(os.fsdecode(target)) if before is not None else {})
            if not baseline:
                continue
            write_file(os.path.join(path, f"seen-{number}"), pack(baseline))
            found = originals.originals_of(tree, before.originals(os.fsdecode(target)) if before is not None else {})
            if found:
                write_file(os.path.join(path, f"base-{number}"), originals.pack(found))


def _leave_only(state: StateDir, numbers: set[int]) -> None:
    """Remove files without a name, stand-ins for other files, and what husk itself put in."""
    files = os.path.join(state.path, "files")
    os.makedirs(files, 0o700, exist_ok=True)
    for name in os.listdir(files):
        if not name.isdigit() or int(name) not in numbers:
            os.unlink(os.path.join(files, name))
    for name in NOT_KEPT:
        remove_own_tree(os.path.join(state.path, name))

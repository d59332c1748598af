"""sandbox: `husk apply` for a kept box or a snapshot: the plan from its trees, `apply.apply`, and what the box keeps.

The changes that stay are written as a layer before anything is applied: names only, since the contents are where they
were. The record names that layer from the moment on which makes the apply final.
"""

from __future__ import annotations

import os

from husk.sandbox.apply import baseline, originals
from husk.sandbox.apply.apply import apply_plan
from husk.sandbox.apply.apply_plan import Plan
from husk.sandbox.apply.both_changed import choose_steps
from husk.sandbox.apply.rest_names import RestNames
from husk.sandbox.apply.selected_steps import Taken
from husk.sandbox.errors import HuskError
from husk.sandbox.kept.capture_layer import ELSEWHERE, file_referred_to
from husk.sandbox.kept.recover_apply import KeptBox
from husk.store.layout import sync_directory, write_file
from husk.store.manifests.manifest import Manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from husk.sandbox.apply.apply_plan import Clash
    from husk.sandbox.kept.open_box import OpenBox
    from husk.store import Entry


def plan_of(box: OpenBox, target: str) -> Plan:
    for at, tree in box.files.layers:
        if at == os.fsencode(target):
            return Plan(tree, box.baseline(target))
    raise HuskError(f"the box {box.record.name!r} is damaged: it has no tree at {target}; `husk drop` it.")


def choose(
    box: OpenBox, source: str, target: str, plan: Plan, paths: Sequence[str] = (), prefer: str = ""
) -> list[Clash]:
    """Returns the conflicts that remain (`choose_steps`)."""
    return choose_steps(plan, source, target, box.originals(target), paths, prefer)


def apply_box(box: OpenBox, source: str, target: str, plan: Plan) -> dict[str, Any] | None:
    """The caller holds the box's lock. Returns what stays in the box, as `Record.leave` takes it; None: nothing."""
    some = plan.left or plan.ruled_out or any(step.whole is not None for step in plan.steps)
    rest = _write_rest(box, target, plan) if some else None
    apply_plan(box.folder, KeptBox(box.kept, box.record), source, target, plan, rest)
    return rest


def _write_rest(box: OpenBox, target: str, plan: Plan) -> dict[str, Any] | None:
    """A layer with the names that stay, of this mount and of all others. While the box is open, none is collected."""
    kept, record = box.kept, box.record
    taken = Taken(plan)
    rest = RestNames(_names(kept.names_path(record, target)), taken)
    if not rest.data:
        return None
    layer = os.urandom(16).hex()
    path = kept.layer_path(layer)
    os.makedirs(os.path.join(path, "files"), 0o700)
    used, count, size = {layer}, 0, 0
    for number, at in enumerate(record.trees):
        entries = rest.entries
        if at == target:
            write_file(os.path.join(path, f"names-{number}"), rest.data, durable=True)
            _write_of_host(box, target, taken, path, number)
        elif at:
            for what in ("names", "seen", "base"):
                _link(os.path.join(kept.layer_path(record.layer), f"{what}-{number}"), path)
            entries = list(_names(kept.names_path(record, at)).walk())
        else:
            continue
        used |= {_layer_of(entry) for entry in entries} - {""}
        count += len(entries) - 1
        size += sum(entry.size for entry in entries if _layer_of(entry))
    for folder in (path, kept.layers):
        sync_directory(folder)
    return {"layer": layer, "layers": sorted(used), "names": count, "bytes": size}


def _names(path: str) -> Manifest:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return Manifest.checked(fd)
    finally:
        os.close(fd)


def _layer_of(entry: Entry) -> str:
    """The layer that has its content; empty: none has."""
    if not entry.is_file or entry.blob == ELSEWHERE:
        return ""
    return file_referred_to(entry.blob).partition(b"/")[0].decode()


def _link(file: str, folder: str) -> None:
    try:
        os.link(file, os.path.join(folder, os.path.basename(file)))
    except FileNotFoundError:
        pass  # not every tree has each


def _write_of_host(box: OpenBox, target: str, taken: Taken, path: str, number: int) -> None:
    """What is known of the host's files, but those that the apply replaces."""
    seen, first = box.baseline(target), box.originals(target)
    gone = {name for name in {*seen, *first} if _is_below(name, taken.whole)}
    write_file(
        os.path.join(path, f"seen-{number}"),
        baseline.pack({name: info for name, info in seen.items() if name not in gone}),
        durable=True,
    )
    write_file(
        os.path.join(path, f"base-{number}"),
        originals.pack({name: data for name, data in first.items() if name not in gone}),
        durable=True,
    )


def _is_below(name: bytes, tops: set[bytes]) -> bool:
    while name:
        if name in tops:
            return True
        name = name.rpartition(b"/")[0]
    return False

"""sandbox: what to do where box and host have changed the same file: merge texts, or let one side win.

"Theirs" is the box's side, whose changes come in; "ours" is the host's, where they come in. Whatever is decided holds
for the host's files as they are at this moment: if one changes again before it is replaced, that is a conflict.
"""

from __future__ import annotations

import os
import stat as st

from husk.native._core import open_beneath
from husk.sandbox.apply.apply_plan import lstat, shown
from husk.sandbox.apply.originals import content_of
from husk.sandbox.apply.recovery import open_host_directory
from husk.sandbox.apply.selected_steps import names_below, select, select_paths
from husk.sandbox.apply.text_merge import MOST_BYTES, CannotMerge, merge
from husk.vfs.layer.delta import ANYONE, stat_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from husk.sandbox.apply.apply_plan import Clash, Plan, Step
    from husk.sandbox.apply.originals import Originals

THEIRS, OURS = "theirs", "ours"


def choose_steps(
    plan: Plan, source: str, target: str, originals: Originals, paths: Sequence[str] = (), prefer: str = ""
) -> list[Clash]:
    """Only what is at or below `paths` (none: everything). Where the host has changed the same, merge, then let
    `prefer` win. Returns the conflicts that remain."""
    if paths:
        select_paths(plan, names_below(paths, source, target))
    root = open_host_directory(source)
    try:
        return settle_conflicts(plan, root, originals, prefer)
    finally:
        os.close(root)


def settle_conflicts(plan: Plan, root: int, originals: Originals, prefer: str = "") -> list[Clash]:
    """Merge what can be merged, then let `prefer` win. Returns the conflicts that remain. `root`: descriptor of the
    host directory."""
    conflicts = plan.conflicts(root)
    steps = {id(clash.step): clash.step for clash in conflicts if clash.step is not None}
    reasons: dict[int, str] = {}
    settled = set()
    for step in steps.values():
        try:
            if _agrees(step, root) or _merged(plan, step, root, originals) or prefer == THEIRS:
                accept_host(plan, step, root)
                settled.add(id(step))
        except CannotMerge as error:
            reasons[id(step)] = str(error)
            if prefer == THEIRS:
                accept_host(plan, step, root)
                settled.add(id(step))
    if prefer:
        _leave_lost(plan)
    if prefer == OURS:
        select(plan, lambda step: None if id(step) in steps and id(step) not in settled else step)
    if settled or prefer:
        conflicts = plan.conflicts(root)
    for clash in conflicts:
        if reason := reasons.get(id(clash.step)):
            clash.why += f", and {reason}"
    return conflicts


def accept_host(plan: Plan, step: Step, root: int) -> None:
    """The step may replace what the host has there now."""
    there = lstat(root, step.path)
    if step.meta:
        node = step.change.node
        if there is not None and node is not None and st.S_IFMT(there.mode) == node.kind:
            plan.baseline[step.path] = there
        return  # else there is nothing whose metadata could be set, and it stays a conflict
    step.out = there is not None
    if there is None:
        plan.baseline.pop(step.path, None)
    waiting = [step.path] if there is not None else []
    while waiting:
        path = waiting.pop()
        found = lstat(root, path)
        if found is None:
            continue
        plan.baseline[path] = found
        if st.S_ISDIR(found.mode):
            fd = open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                waiting += [path + b"/" + os.fsencode(name) for name in os.listdir(fd)]
            finally:
                os.close(fd)


def _agrees(step: Step, root: int) -> bool:
    """Both have deleted it."""
    return step.new is None and step.out and lstat(root, step.path) is None


def _merged(plan: Plan, step: Step, root: int, originals: Originals) -> bool:
    node = step.new.node if step.new is not None else None
    if node is None or step.meta or node.kind != st.S_IFREG or step.inside:
        return False
    there = lstat(root, step.path)
    if there is None or not st.S_ISREG(there.mode):
        return False
    host = host_content(root, step.path)
    box = _read(node.tree.open(ANYONE, node, os.O_RDONLY))
    if max(len(host), len(box)) > MOST_BYTES:
        raise CannotMerge("it is too large to merge")
    made = merge(content_of(originals, step.path), host, box)
    if made != box:
        step.merged = made
    seen = plan.baseline.get(step.path)
    if seen is not None and (stat_of(step.change).mode ^ seen.mode) & 0o777 == 0:
        step.mode = there.mode & 0o777  # only the host may have changed it
    return True


def host_content(root: int, path: bytes) -> bytes:
    return _read(open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK))


def _read(fd: int) -> bytes:
    """A little more than is ever merged."""
    parts, room = [], MOST_BYTES + 1
    try:
        while room and (data := os.read(fd, room)):
            parts.append(data)
            room -= len(data)
    finally:
        os.close(fd)
    return b"".join(parts)


def _leave_lost(plan: Plan) -> None:
    """What the box showed of a host file that is gone cannot be applied, whoever wins."""
    for path in plan.lost:
        plan.notes.append(f"{shown(path)}: gone from the host since, or replaced; the box has no copy of it")
    plan.lost = []

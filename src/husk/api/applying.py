"""api: what a box changed below a `cow` mount, written back to the host directory while the box is open."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from husk.api.run_result import Change
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from husk.api.runs import Runs
    from husk.sandbox.apply.apply_plan import Plan
    from husk.sandbox.box import Box
    from husk.sandbox.policy import Policy


@dataclass(frozen=True)
class Applied:
    """`changes` of `directory`, a host directory, by their names in the box (`added`, `changed`, `merged`, `deleted`,
    `metadata`; the content of a new or deleted directory is not listed). `notes`: what could not be carried over.
    `conflicts`: what the host has changed, too, and why it cannot be merged; only a dry run gives these, since an apply
    with conflicts is refused."""

    directory: str
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


def apply_changes(
    runs: Runs, wanted: str, *, dry_run: bool, paths: Sequence[str] = (), prefer: str = ""
) -> Applied:
    """`wanted`: which mount. `paths`: only what is at or below these, by their names in the box or on the host; the
    other changes stay in the box. `prefer`: where host and box changed the same and it cannot be merged, "theirs" takes
    the box's version and "ours" leaves the host's; empty: the apply is refused."""
    if prefer not in ("", "theirs", "ours"):
        raise UsageError(f"{prefer!r} is neither 'theirs', the box's version, nor 'ours', the host's.")
    with runs.lock:
        if dry_run:
            return _planned(runs.box(), wanted, paths, prefer)
        runs.box()  # ValueError: it is closed
        if not runs.idle:
            raise UsageError("something runs in the box, and might be writing; wait for its end, then apply.")
        return _applied(runs, wanted, paths, prefer)


def _mount(mounts: list[list[str]], wanted: str, paths: Sequence[str]) -> tuple[str, str]:
    from husk.sandbox.apply.apply import mount_of
    from husk.sandbox.apply.selected_steps import mount_for

    return mount_of(mounts, wanted) if wanted or not paths else mount_for(mounts, paths)


def _planned(box: Box, wanted: str, paths: Sequence[str], prefer: str) -> Applied:
    from husk.sandbox.apply.apply_plan import Plan
    from husk.sandbox.apply.both_changed import choose_steps
    from husk.sandbox.apply.originals import originals_of

    source, target = _mount(_lasting(box.policy), wanted, paths)
    with box.files.vfs.lock:
        for at, tree in box.files.layers:
            if at == os.fsencode(target) and tree.root.lower is not None:
                before = box.before.baseline(target) if box.before is not None else {}
                first = box.before.originals(target) if box.before is not None else {}
                plan = Plan(tree, (tree.root.lower.baseline or {}) | before)
                conflicts = choose_steps(plan, source, target, originals_of(tree, first), paths, prefer)
                return _told(source, target, plan, [str(clash) for clash in conflicts])
    return Applied(source)


def _applied(runs: Runs, wanted: str, paths: Sequence[str], prefer: str) -> Applied:
    """Apply from the settled box, so that nothing changes meanwhile, as `husk apply` does. Afterwards the box has no
    changes there but those that were not chosen."""
    from husk.sandbox.apply.apply import refuse
    from husk.sandbox.kept.apply_box import apply_box, choose, plan_of
    from husk.sandbox.kept.open_box import OpenBox

    _mount(_lasting(runs.policy), wanted, paths)  # before anything is moved
    files = runs.settle()
    keeping, record = runs.keeping, files.record
    if keeping is not None:
        # Otherwise, if husk dies after this, the kept box would still have changes that the host has already.
        keeping.record_now(runs.last[0], runs.last[1].exit_code)
        record = keeping.record
    with OpenBox(files.kept, record) as box:
        source, target = _mount(record.mounts, wanted, paths)
        plan = plan_of(box, target)
        refuse(choose(box, source, target, plan, paths, prefer))
        told = _told(source, target, plan)
        if plan.steps:
            rest = apply_box(box, source, target, plan)
            after = files.after_apply(target, rest)  # while the box is open, no layer is collected
    if plan.steps:
        if keeping is not None:
            keeping.read_again()
        runs.go_on_from(after)
    return told


def _lasting(policy: Policy) -> list[list[str]]:
    return [[one.source, one.target, one.mode] for one in policy.mounts if not one.passing]


def _told(source: str, target: str, plan: Plan, conflicts: list[str] | None = None) -> Applied:
    from husk.sandbox.apply.apply import kind_of

    found = []
    for step in plan.steps:
        kind = kind_of(step)
        if kind:
            found.append(Change(kind, os.path.join(target, os.fsdecode(step.path))))
    return Applied(source, found, list(plan.notes), conflicts or [])

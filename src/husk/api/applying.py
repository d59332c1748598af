"""api: what a box changed below a `cow` mount, written back to the host directory while the box is open."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from husk.api.run_result import Change
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.api.runs import Runs
    from husk.sandbox.apply.apply_plan import Plan
    from husk.sandbox.box import Box
    from husk.sandbox.policy import Policy


@dataclass(frozen=True)
class Applied:
    """`changes` of `directory`, a host directory, by their names in the box (`added`, `changed`, `deleted`, `metadata`;
    the content of a new or deleted directory is not listed). `notes`: what could not be carried over."""

    directory: str
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def apply_changes(runs: Runs, wanted: str, *, dry_run: bool) -> Applied:
    with runs.lock:
        if dry_run:
            return _planned(runs.box(), wanted)
        runs.box()  # ValueError: it is closed
        if not runs.idle:
            raise UsageError("something runs in the box, and might be writing; wait for its end, then apply.")
        return _applied(runs, wanted)


def _planned(box: Box, wanted: str) -> Applied:
    from husk.sandbox.apply.apply import mount_of
    from husk.sandbox.apply.apply_plan import Plan

    source, target = mount_of(_lasting(box.policy), wanted)
    with box.files.vfs.lock:
        for at, tree in box.files.layers:
            if at == os.fsencode(target) and tree.root.lower is not None:
                before = box.before.baseline(target) if box.before is not None else {}
                return _told(source, target, Plan(tree, (tree.root.lower.baseline or {}) | before))
    return Applied(source)


def _applied(runs: Runs, wanted: str) -> Applied:
    """Apply from the settled box, so that nothing changes meanwhile, as `husk apply` does. Afterwards the box has no
    changes there."""
    from husk.sandbox.apply.apply import mount_of
    from husk.sandbox.kept.apply_box import apply_box, plan_of
    from husk.sandbox.kept.open_box import OpenBox

    mount_of(_lasting(runs.policy), wanted)  # before anything is moved
    files = runs.settle()
    keeping, record = runs.keeping, files.record
    if keeping is not None:
        # Otherwise, if husk dies after this, the kept box would still have changes that the host has already.
        keeping.record_now(runs.last[0], runs.last[1].exit_code)
        record = keeping.record
    with OpenBox(files.kept, record) as box:
        source, target = mount_of(record.mounts, wanted)
        plan = plan_of(box, target)
        told = _told(source, target, plan)
        if plan.steps:
            apply_box(box, source, target, plan)
    if keeping is not None:
        keeping.read_again()
    runs.go_on_from(files.without(target))
    return told


def _lasting(policy: Policy) -> list[list[str]]:
    return [[one.source, one.target, one.mode] for one in policy.mounts if not one.passing]


def _told(source: str, target: str, plan: Plan) -> Applied:
    from husk.sandbox.apply.apply import kind_of

    found = []
    for step in plan.steps:
        kind = kind_of(step)
        if kind:
            found.append(Change(kind, os.path.join(target, os.fsdecode(step.path))))
    return Applied(source, found, list(plan.notes))

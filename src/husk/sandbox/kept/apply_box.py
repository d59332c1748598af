"""sandbox: `husk apply` for a kept box or a snapshot: the plan from its trees, then `apply.apply`."""

from __future__ import annotations

import os

from husk.sandbox.apply.apply import apply_plan
from husk.sandbox.apply.apply_plan import Plan
from husk.sandbox.errors import HuskError
from husk.sandbox.kept.recover_apply import KeptBox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.kept.open_box import OpenBox


def plan_of(box: OpenBox, target: str) -> Plan:
    for at, tree in box.files.layers:
        if at == os.fsencode(target):
            return Plan(tree, box.baseline(target))
    raise HuskError(f"the box {box.record.name!r} is damaged: it has no tree at {target}; `husk drop` it.")


def apply_box(box: OpenBox, source: str, target: str, plan: Plan) -> None:
    """The caller holds the box's lock."""
    apply_plan(box.folder, KeptBox(box.kept, box.record), source, target, plan)

"""sandbox: write a box's changes below a cow mount back to the host directory.

The order: write in the box's own directory that an apply begins (`apply`), stage everything new, check that the host
still agrees, write the journal, rename, drop the changes in the box. `recovery` finishes or undoes it if husk is killed
anywhere in between. docs/design/010-snapshots.md. Not here: which box it is (`kept/apply_box`).
"""

from __future__ import annotations

import os

from husk.sandbox.apply.apply_plan import MOST_SHOWN, Clash, Conflict, Plan, shown
from husk.sandbox.apply.journal import Journal
from husk.sandbox.apply.recovery import POINTER, GoneBox, open_host_directory, settle
from husk.sandbox.apply.stage_changes import StagedChanges
from husk.sandbox.apply.staging_dir import PREFIX
from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.locked_dir import remove_file
from husk.store.layout import write_file
from husk.vfs.layer.delta import stat_of
from husk.vfs.layer.inodes import LayerDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.sandbox.apply.apply_plan import Step
    from husk.vfs.layer.delta import Change

WORDS = {"added": "add", "changed": "replace", "merged": "merge", "deleted": "delete", "metadata": "metadata"}


def mount_of(mounts: list[list[str]], wanted: str) -> tuple[str, str]:
    """(source, target) of the cow mount that `wanted` names, among all mounts of a box (source, target, mode)."""
    cow = [(source, target) for source, target, mode in mounts if mode == "cow"]
    found = [(source, target) for source, target in cow if os.path.isdir(source)]
    if wanted:
        meant = wanted.rstrip("/"), os.path.realpath(wanted)
        found = [(source, target) for source, target in found if target == meant[0] or source in meant]
    if len(found) == 1:
        return found[0]
    has = ", ".join(target for _, target in cow)
    if not found:
        where = f"no cow mount at {wanted}" if wanted else "no directory mounted cow"
        raise UsageError(f"the box has {where}{f' (it has {has})' if has else ''}; mount one as SRC:DST:cow.")
    raise UsageError(f"the box has several cow mounts; say which: {has}.")


def apply_plan(
    folder: str, box: GoneBox, source: str, target: str, plan: Plan, rest: dict[str, Any] | None = None
) -> None:
    """`folder`: the box's own directory, which the caller has locked. `box` is told what became of its changes; `rest`
    says where those are that stay in it (None: all are applied)."""
    import json

    root = open_host_directory(source)
    journal = Journal(root, PREFIX + os.urandom(8).hex(), folder)
    pointer = os.path.join(folder, POINTER)
    try:
        refuse(plan.conflicts(root))
        found = os.fstat(root)
        times = [found.st_atime_ns, found.st_mtime_ns]
        begun: dict[str, Any] = {"source": source, "target": target, "staging": journal.staging.name, "times": times}
        if rest is not None:
            begun["rest"] = rest
        journal.forget()  # one may be left by an apply that a person gave up by hand
        try:
            write_file(pointer, json.dumps(begun).encode(), durable=True)
        except OSError:
            remove_file(pointer)  # half of it would say that an apply began
            raise
        try:
            journal.staging.create()
            staged = StagedChanges(journal.staging, plan, root)
            refuse(plan.conflicts(root))
            journal.write(staged.steps)

            def check(now: bytes, path: bytes) -> None:
                refuse(list(plan.changed_below(root, now, path, moved=True)))

            journal.perform(check)
        except (OSError, HuskError) as error:
            settle(pointer, box, journal, begun)
            if isinstance(error, HuskError):
                raise
            raise HuskError(f"{source} cannot be written ({error.strerror}); nothing was applied.") from None
        try:
            settle(pointer, box, journal, begun)
        except OSError as error:
            raise HuskError(
                f"everything is applied to {source}, but husk cannot tidy up ({error.strerror}); the next command on"
                " this box does."
            ) from None
    finally:
        journal.staging.close()
        os.close(root)


def refuse(conflicts: list[Clash]) -> None:
    if conflicts:
        more = f"; and {len(conflicts) - MOST_SHOWN} more" if len(conflicts) > MOST_SHOWN else ""
        first = "; ".join(map(str, conflicts[:MOST_SHOWN]))
        raise Conflict(
            f"the host has changed what the box changed, so nothing was applied: {first}{more}. --theirs takes the"
            " box's version of these, --ours leaves the host's and applies the rest."
        )


def kind_of(step: Step) -> str:
    """What a step does to its name; empty: nothing worth showing."""
    if step.meta:
        return "metadata" if step.new is not None and _is_shown(step.new) else ""
    if step.new is None:
        return "deleted"
    if step.merged is not None:
        return "merged"
    return "changed" if step.out else "added"


def _is_shown(change: Change) -> bool:
    """A directory's mtime follows from what is in it, so a change of that alone is not shown."""
    if not isinstance(change.node, LayerDir) or change.was is None:
        return True
    return stat_of(change).mode != change.was.stat.mode or bool(change.node.xattrs)


def step_lines(plan: Plan) -> list[str]:
    """The steps, for a person."""
    lines = []
    for step in plan.steps:
        kind = kind_of(step)
        if kind:
            lines.append(f"{WORDS[kind]:9}{step_name(step)}")
    return lines


def step_name(step: Step) -> str:
    count = f" ({len(step.inside)} below it)" if step.inside else ""
    return f"{shown(step.path)}{count}"

"""sandbox: choose steps of an apply by path; the others stay in the box.

A step stands for one name. Of a new directory single names can be taken, too: the directory is made on the host, and
the box goes on with the rest of it. Not here: the names that stay (`rest_names`), and conflicts (`both_changed`).
"""

from __future__ import annotations

import os
import stat as st

from husk.sandbox.apply.apply import kind_of, mount_of
from husk.sandbox.apply.apply_plan import Step, shown
from husk.sandbox.errors import UsageError
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from husk.sandbox.apply.apply_plan import Plan
    from husk.vfs.layer.delta import Change

MOST_NEAR = 3


def mount_for(mounts: list[list[str]], paths: Sequence[str]) -> tuple[str, str]:
    """(source, target) of the cow mount that all these paths are in."""
    cow = [(source, target) for source, target, mode in mounts if mode == "cow"]
    meant = set()
    for path in paths:
        inside = [(len(target), source, target) for source, target in cow if _inner(path, source, target) is not None]
        if inside:
            meant.add(max(inside)[1:])
    if len(meant) > 1:
        raise UsageError(f"{' and '.join(sorted(target for _, target in meant))} are two mounts; apply one at a time.")
    return mount_of(mounts, meant.pop()[1] if meant else "")


def _inner(path: str, source: str, target: str) -> str | None:
    """The path below the mount; None: it is elsewhere, or relative to a directory elsewhere."""
    inner = _below(os.path.normpath(path), target)
    if inner is None:
        above, name = os.path.split(os.path.abspath(path))
        inner = _below(os.path.join(os.path.realpath(above), name), source)
    return inner


def names_below(paths: Sequence[str], source: str, target: str) -> list[bytes]:
    """Paths as a person gives them, relative to the mount. A path is the box's name of a file, or the host's; a
    relative one begins at the working directory, if that is in the mounted one, else at the top of the mount."""
    found = []
    for path in paths:
        if not path:
            raise UsageError("an empty path names no change; `husk diff` lists them.")
        inner = _inner(path, source, target)
        if inner is None and not os.path.isabs(path):
            inner = os.path.normpath(path)
        if inner is None or inner.startswith("../"):
            raise UsageError(
                f"{shown(os.fsencode(path))} is neither below {target}, as the box calls it, nor below {source}."
            )
        found.append(b"" if inner == "." else os.fsencode(inner))
    return found


def _below(path: str, top: str) -> str | None:
    """Relative to `top`; None: it is elsewhere."""
    if path == top:
        return "."
    top = top.rstrip("/") + "/"
    return path[len(top) :] if path.startswith(top) else None


def select_paths(plan: Plan, wanted: list[bytes]) -> None:
    """Only what is at or below one of the paths. UsageError: nothing is there, or it cannot be taken alone."""
    lacking = set(wanted) - {b""}  # the mount itself is there, changed or not

    def take(step: Step) -> Step | None:
        if above := [path for path in wanted if is_within(step.path, path)]:
            lacking.difference_update(above)
            return step
        inner = [path for path in wanted if is_within(path, step.path)]
        if not inner or not step.inside:
            return None
        part = _part_of(step, inner)
        lacking.difference_update(path for path in inner if path in (part.whole or ()))
        return part if part.whole else None

    before = list(plan.steps)
    plan.lost = [path for path in plan.lost if any(is_within(path, one) or is_within(one, path) for one in wanted)]
    select(plan, take)
    if lacking:
        missing = sorted(lacking)[0]
        raise UsageError(f"{shown(missing)}: the box has no change there{_near(missing, before)}.")


def select(plan: Plan, take: Callable[[Step], Step | None]) -> None:
    """`take` gives the step, a part of it, or None: it stays in the box."""
    chosen, left = [], []
    for step in plan.steps:
        taken = take(step)
        if taken is not None:
            chosen.append(taken)
        if taken is not step:
            left.append(step)
    _add_times(chosen, left)
    order = {step.path: number for number, step in enumerate(plan.steps)}
    plan.steps, plan.left = sorted(chosen, key=lambda step: order[step.path]), plan.left + left
    _check_together(plan)


def is_within(path: bytes, top: bytes) -> bool:
    """Is it `top`, or below it?"""
    return not top or path == top or path.startswith(top + b"/")


def _part_of(step: Step, wanted: list[bytes]) -> Step:
    """Of a new directory: the directories down to what is wanted, and that with all in it."""
    taken = [change for change in step.inside if any(is_within(change.path, path) for path in wanted)]
    part = Step(step.change, out=step.out, new=step.new, meta=step.meta)
    part.whole = {path for path in wanted if any(change.path == path for change in taken)}
    passed: set[int] = set()
    for change in taken:
        above = change.above
        while above is not None and above is not step.change.above and id(above) not in passed:
            passed.add(id(above))
            if not any(is_within(above.path, path) for path in wanted):
                _check_plain(above)
            above = above.above
    part.inside = [change for change in step.inside if change in taken or id(change) in passed]
    return part


def _check_plain(directory: Change) -> None:
    """Only in a directory that is new on both sides the box can go on with a part."""
    node = directory.node
    if directory.was is not None or not isinstance(node, LayerDir) or node.lower is not None:
        how = "replaced what was there" if directory.was is not None else "was renamed in the box"
        raise UsageError(f"{shown(directory.path)} {how}, so it is applied as a whole; give that path.")


def _add_times(chosen: list[Step], left: list[Step]) -> None:
    """The time of a directory goes with the last change in it: nobody would ask for it by name."""
    for step in reversed(list(left)):
        if not step.meta or kind_of(step):
            continue
        if any(is_within(one.path, step.path) for one in chosen) and not any(
            is_within(one.path, step.path) for one in left if one is not step
        ):
            left.remove(step)
            chosen.append(step)


# -- what must go together -----------------------------------------------------------------------------------------
def _check_together(plan: Plan) -> None:
    """Names of one file go together, and so do the two names of a rename: without the old one, what the box still
    shows under the new one would be gone."""
    taken = {change.path for step in plan.steps for change in _changes_of(step)}
    linked: dict[int, bytes] = {}
    gone = [step.path for step in plan.steps if step.out]
    for step in plan.steps:
        for change in _changes_of(step):
            if isinstance(change.node, Inode) and change.node.nlink > 1:
                linked[id(change.node)] = change.path
    for step in plan.left:
        for change in _changes_of(step):
            if change.path in taken:
                continue
            other = linked.get(id(change.node)) or _shown_from(plan, change, gone)
            if other is not None:
                raise UsageError(
                    f"{shown(other)} and {shown(change.path)} are one file in the box, renamed or linked; give both."
                )


def _changes_of(step: Step) -> Iterator[Change]:
    if not step.change.in_place:
        yield step.change
    yield from step.inside


def _shown_from(plan: Plan, change: Change, gone: list[bytes]) -> bytes | None:
    """The name, among those that the host is to lose, that holds what this one shows."""
    node = change.node
    if isinstance(node, Inode):
        lower, rel = node.source or (None, b"")
    elif isinstance(node, LowerNode | LayerDir):
        lower, rel = node.lower, node.rel
    else:
        return None
    if lower is not plan.lower:
        return None
    return next((path for path in gone if is_within(rel, path)), None)


def _near(missing: bytes, steps: list[Step]) -> str:
    import difflib

    names = [os.fsdecode(change.path) for step in steps if kind_of(step) for change in (step.change, *step.inside)]
    if not names:
        return ""
    wanted = os.fsdecode(missing)
    base = wanted.rpartition("/")[2]
    found = [name for name in names if name.rpartition("/")[2] == base]
    found += [name for name in difflib.get_close_matches(wanted, names, MOST_NEAR) if name not in found]
    found = found[:MOST_NEAR]
    if not found:
        found = names[:MOST_NEAR]
        more = " …" if len(names) > MOST_NEAR else ""
        return f"; it has {', '.join(shown(os.fsencode(name)) for name in found)}{more}"
    return f"; near it: {', '.join(shown(os.fsencode(name)) for name in found)}"


# -- what was taken ------------------------------------------------------------------------------------------------
class Taken:
    """The names that are applied. `whole`: with all in them. `alone`: the name itself, while names in it may stay.
    `directories`: for a directory, how many more directories the host has in it than before."""

    __slots__ = ("alone", "directories", "whole")

    def __init__(self, plan: Plan) -> None:
        self.whole: set[bytes] = set()
        self.alone: set[bytes] = set()
        self.directories: dict[bytes, int] = {}
        for step in plan.steps:
            if step.change.in_place:
                self.alone.add(step.path)
            elif step.whole is None:
                self.whole.add(step.path)
                self._count(step.change)
            else:
                self.alone.add(step.path)
                self._count(step.change)
                self.whole |= step.whole
                for change in step.inside:
                    if change.path in step.whole or not any(is_within(change.path, path) for path in step.whole):
                        self._count(change)
                    if not any(is_within(change.path, path) for path in step.whole):
                        self.alone.add(change.path)

    def _count(self, change: Change) -> None:
        more = isinstance(change.node, LayerDir) - (change.was is not None and change.was.kind == st.S_IFDIR)
        if more:
            above = change.path.rpartition(b"/")[0]
            self.directories[above] = self.directories.get(above, 0) + more

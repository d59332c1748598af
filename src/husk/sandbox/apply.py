"""sandbox: `husk apply` — a kept box's changes below a cow mount, written back to the host directory.

The order: say in the box's directory that an apply begins (`apply`), stage everything new, look whether the host still
agrees, write the journal, rename, forget the changes in the box. Killed anywhere, `recover` brings the host directory
to what it was before, or finds all done and forgets. docs/design/010-snapshots.md.
"""

from __future__ import annotations

import os
import stat as st

from husk.native._core import open_beneath
from husk.sandbox.apply_journal import PREFIX, Journal, before, describe, description, user_attributes
from husk.sandbox.apply_plan import MOST_TOLD, Conflict, Plan, lstat, shown
from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.keeping import Opened
from husk.sandbox.openbox import OpenBox
from husk.sandbox.seen import pack
from husk.vfs.copying import copy_content
from husk.vfs.layer_delta import ANYONE, identity_of, stat_of, target_of
from husk.vfs.layer_nodes import Inode, LayerDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from husk.sandbox.apply_plan import Step
    from husk.sandbox.kept import Kept
    from husk.vfs.layer_delta import Change

POINTER = "apply"


def mount_of(box: OpenBox, wanted: str) -> tuple[str, str]:
    """(source, target) of the cow mount that is meant."""
    found = [(source, target) for source, target, mode in box.record.mounts if mode == "cow" and os.path.isdir(source)]
    if wanted:
        found = [(source, target) for source, target in found if wanted.rstrip("/") in (target, source)]
    if len(found) == 1:
        return found[0]
    has = ", ".join(target for _, target, mode in box.record.mounts if mode == "cow") or "none"
    if not found:
        where = f"no cow mount at {wanted}" if wanted else "no directory mounted cow"
        raise UsageError(f"the box {box.record.name!r} has {where} (it has {has}); mount one with --mount SRC:DST:cow.")
    raise UsageError(f"the box {box.record.name!r} has several cow mounts; say which: {has}.")


def plan_of(box: OpenBox, target: str) -> Plan:
    for at, tree in box.files.layers:
        if at == os.fsencode(target):
            return Plan(tree, box.seen(target))
    raise HuskError(f"the box {box.record.name!r} is damaged: it has no tree at {target}; `husk drop` it.")


def apply(box: OpenBox, source: str, target: str, plan: Plan) -> None:
    """The caller holds the box's lock."""
    import json

    root = _root(source)
    journal = Journal(root, PREFIX + os.urandom(8).hex())
    pointer = os.path.join(box.kept.path(box.record.name), POINTER)
    try:
        _refuse(plan.conflicts(root))
        found = os.fstat(root)
        times = [found.st_atime_ns, found.st_mtime_ns]
        told = {"source": source, "target": target, "staging": journal.name, "times": times}
        _write(pointer, json.dumps(told).encode())
        try:
            journal.create()
            journal.steps = _Staging(journal, plan, root).steps
            _refuse(plan.conflicts(root))
            journal.write()

            def check(now: bytes, path: bytes) -> None:
                _refuse(list(plan.changed_below(root, now, path, moved=True)))

            journal.perform(check)
        except (OSError, HuskError) as error:
            _settle(box.kept, box.record.name, journal, target, times)
            if isinstance(error, HuskError):
                raise
            raise HuskError(f"{source} cannot be written ({error.strerror}); nothing was applied.") from None
        _settle(box.kept, box.record.name, journal, target, times)
    finally:
        os.close(root)


def recover(kept: Kept, name: str) -> str:
    """Undo or finish what a killed apply began: "undone", "finished", or empty. The caller holds the box's lock."""
    import json

    try:
        with open(os.path.join(kept.path(name), POINTER), "rb") as file:
            found = json.loads(file.read() or b"{}")
    except FileNotFoundError:
        return ""
    if not found or not os.path.isdir(found["source"]):
        os.unlink(os.path.join(kept.path(name), POINTER))  # killed before it said where, or all is gone
        return ""
    root = _root(found["source"])
    try:
        return _settle(kept, name, Journal(root, found["staging"]), found["target"], found["times"])
    finally:
        os.close(root)


def _settle(kept: Kept, name: str, journal: Journal, target: str, times: list[int]) -> str:
    """Before or after, nothing between; then nothing of it is left. `times` are the host directory's from before."""
    outcome = ""
    if journal.fd >= 0 or journal.open():
        state = journal.state()
        if state:
            journal.read(state)
        if state == "done":
            _forget(kept, name, target)
            outcome = "finished"
            times = next(
                (
                    [what["now"]["atime"], what["now"]["mtime"]]
                    for kind, at, what in journal.steps
                    if kind == "meta" and not at
                ),
                times,
            )
        elif state == "journal":
            journal.undo()
            _see_again(kept, name, target, journal)
            outcome = "undone"
        journal.remove()
        # That the staging directory came and went is no change of anybody's.
        os.utime(journal.root, ns=(times[0], times[1]))
    os.unlink(os.path.join(kept.path(name), POINTER))
    return outcome


def _see_again(kept: Kept, name: str, target: str, journal: Journal) -> None:
    """Moved out and back, a file has a new time of change, which is our doing and no conflict."""
    box = Opened(kept, kept.get(name))
    seen = box.seen(target)
    for kind, text, _ in journal.steps:
        path = os.fsencode(text)
        now, then = lstat(journal.root, path), seen.get(path)
        if kind != "in" and now is not None and then is not None and identity_of(now)[:5] == identity_of(then)[:5]:
            seen[path] = now
    if seen:
        place = os.path.join(kept.layer_path(box.record.layer), f"seen-{box.record.trees.index(target)}")
        _write(place + ".new", pack(seen))
        os.rename(place + ".new", place)


def _forget(kept: Kept, name: str, target: str) -> None:
    """The changes are the host's now; the box has none there."""
    record = kept.get(name)
    record.trees = ["" if tree == target else tree for tree in record.trees]
    kept.write(record, durable=True)


def _root(source: str) -> int:
    try:
        return os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HuskError(f"{source}: {error.strerror}; bring the directory back and try again.") from None


def _refuse(conflicts: list[str]) -> None:
    if conflicts:
        more = f"; and {len(conflicts) - MOST_TOLD} more" if len(conflicts) > MOST_TOLD else ""
        told = "; ".join(conflicts[:MOST_TOLD])
        raise Conflict(f"the host has changed what the box changed, so nothing was applied: {told}{more}.")


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


class _Staging:
    """Makes everything new under new/N, and the list of steps."""

    def __init__(self, journal: Journal, plan: Plan, root: int) -> None:
        self.journal, self.plan, self.root = journal, plan, root
        found = os.fstat(root)
        self.owner = found.st_uid, found.st_gid
        self.is_root = os.geteuid() == 0
        self._made: dict[int, bytes] = {}  # by inode, its first name below the staging directory
        self._later: list[Callable[[], None]] = []  # directories are described when they are full
        outs: list[Any] = []
        ins: list[Any] = []
        metas: list[Any] = []
        for step in plan.steps:
            path = os.fsdecode(step.path)
            if step.out:
                outs.append(("out", path, None))
            if step.meta and step.new is not None:
                metas.append(("meta", path, self._meta(step)))
            elif step.new is not None:
                number = len(ins)
                self._stage(step, b"new/%d" % number)
                ins.append(("in", path, number))
        for describe_it in reversed(self._later):
            describe_it()
        # The deepest directory first: describing what is in a directory changes nothing of the directory itself.
        self.steps = [*outs, *ins, *reversed(metas)]

    def _meta(self, step: Step) -> dict[str, Any]:
        change = step.new
        assert change is not None
        info = stat_of(change)
        fd = open_beneath(self.root, step.path, os.O_PATH) if step.path else os.dup(self.root)
        try:
            path = b"/proc/self/fd/%d" % fd
            # What was set-uid on the host stays so; nothing becomes it.
            found = os.fstat(fd)
            mode = self.plan.staged_mode(change) | info.mode & found.st_mode & 0o6000
            now = description(mode, info.atime, info.mtime, self.plan.attributes(change))
            return {"before": before(path, now), "now": now, "file": [found.st_dev, found.st_ino]}
        finally:
            os.close(fd)

    def _stage(self, step: Step, top: bytes) -> None:
        assert step.new is not None
        self._make(step.new, top, replaces=step.out)
        for change in step.inside:
            self._make(change, top + change.path[len(step.path) :], replaces=False)

    def _make(self, change: Change, path: bytes, *, replaces: bool) -> None:
        node, at = change.node, self.journal.fd
        assert node is not None
        if isinstance(node, Inode) and node.nlink > 1 and id(node) in self._made:
            os.link(self._made[id(node)], path, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
            return
        if isinstance(node, Inode):
            self._made[id(node)] = path
        if node.kind == st.S_IFLNK:
            os.symlink(target_of(node), path, dir_fd=at)
            info = stat_of(change)
            os.utime(path, ns=(info.atime, info.mtime), dir_fd=at, follow_symlinks=False)
            if self.is_root:
                os.chown(path, *self.owner, dir_fd=at, follow_symlinks=False)
            return
        if isinstance(node, LayerDir):
            os.mkdir(path, 0o700, dir_fd=at)
        elif node.kind == st.S_IFIFO:
            os.mkfifo(path, 0o600, dir_fd=at)
        else:
            self._copy(change, path)
        owner, attributes = self._of_replaced(change) if replaces else (self.owner, {})
        if self.is_root:
            os.chown(path, *owner, dir_fd=at, follow_symlinks=False)
        if isinstance(node, LayerDir):
            self._later.append(lambda: self._describe(change, path, attributes))
        else:
            self._describe(change, path, attributes)

    def _of_replaced(self, change: Change) -> tuple[tuple[int, int], dict[bytes, bytes]]:
        """Owner and attributes of the host's file that goes: the box never saw the attributes, and may not change the
        owner."""
        there = lstat(self.root, change.path)
        if there is None or st.S_IFMT(there[2]) != (change.node.kind if change.node else 0):
            return self.owner, {}
        fd = open_beneath(self.root, change.path, os.O_PATH)
        try:
            return (there[4], there[5]), user_attributes(b"/proc/self/fd/%d" % fd)
        finally:
            os.close(fd)

    def _copy(self, change: Change, path: bytes) -> None:
        assert change.node is not None
        source = change.node.tree.open(ANYONE, change.node, os.O_RDONLY)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            goal = os.open(path, flags, 0o600, dir_fd=self.journal.fd)
            try:
                copy_content(source, goal)
            finally:
                os.close(goal)
        finally:
            os.close(source)

    def _describe(self, change: Change, path: bytes, attributes: dict[bytes, bytes]) -> None:
        info = stat_of(change)
        what = description(
            self.plan.staged_mode(change), info.atime, info.mtime, attributes | self.plan.attributes(change)
        )
        describe(b"/proc/self/fd/%d/%s" % (self.journal.fd, path), what)


def _is_told(change: Change) -> bool:
    """The time of a directory follows from what is in it."""
    if not isinstance(change.node, LayerDir) or change.was is None:
        return True
    return stat_of(change).mode != change.was.stat.mode or bool(change.node.xattrs)


def told(plan: Plan) -> list[str]:
    """The steps, for a person."""
    words = []
    for step in plan.steps:
        if step.meta:
            if step.new is None or not _is_told(step.new):
                continue
            word = "metadata"
        elif step.new is None:
            word = "delete"
        else:
            word = "replace" if step.out else "add"
        count = f" ({len(step.inside)} below it)" if step.inside else ""
        words.append(f"{word:9}{shown(step.path)}{count}")
    return words

"""sandbox: the steps that write a box's changes back to a host directory, and whether the host still agrees.

The host may have changed since the box first saw a file. A step is done only if the file is still as in the baseline:
same file, same size, same times. All look-ups are beneath the directory and follow no link.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.abi import text
from husk.native._core import open_beneath, stat_beneath
from husk.sandbox.apply.ruled_changes import ChangesByRule
from husk.sandbox.errors import HuskError
from husk.vfs.layer.delta import delta, is_same_content, is_same_inode, is_unchanged, stat_of, xattrs_of
from husk.vfs.layer.inodes import Inode, LayerDir
from husk.vfs.node import ACLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.native._core import HostStat
    from husk.vfs.layer.delta import Change, Was
    from husk.vfs.layer.layered_tree import LayeredTree

MOST_SHOWN = 10
SET_ID = 0o6000


class Conflict(HuskError):
    """The host directory is not as the box saw it."""

    exit_code = 1


class Clash:
    """The host is not as the box saw it: at `path`, in the way of `step` (None: of what the box has lost with it)."""

    __slots__ = ("path", "step", "why")

    def __init__(self, path: bytes, why: str, step: Step | None = None) -> None:
        self.path, self.why, self.step = path, why, step

    def __str__(self) -> str:
        return f"{shown(self.path)}: {self.why}"


class Step:
    """One name directly below a directory that stays.

    `out`: the host's file is moved away. `new`: this file takes the name, with `inside` in it. `meta`: the host's file
    gets the metadata of `new`. `change` is what the box did. `whole`: in a new directory, the names that are taken with
    all that is in them, where the others stay in the box (`selected_steps`). `merged`, `mode`: content and permissions,
    where these are not the box's (`both_changed`).
    """

    __slots__ = ("change", "inside", "merged", "meta", "mode", "new", "out", "path", "whole")

    def __init__(self, change: Change, *, out: bool, new: Change | None, meta: bool) -> None:
        self.path, self.change = change.path, change
        self.out, self.new, self.meta = out, new, meta
        self.inside: list[Change] = []
        self.whole: set[bytes] | None = None
        self.merged: bytes | None = None
        self.mode: int | None = None


def _leave_in_box(step: Step, left: list[Change]) -> None:
    """Of a new directory all but these names are taken. One that took the place of another, or was renamed, has no
    part that the box could go on with."""
    passed: dict[bytes, Change] = {step.path: step.change}
    for change in left:
        above = change.above
        while above is not None and above.path not in passed:
            passed[above.path] = above
            above = above.above
    if all(one.was is None and isinstance(one.node, LayerDir) and one.node.lower is None for one in passed.values()):
        step.whole = {
            one.path for one in step.inside if one.path not in passed and one.path.rpartition(b"/")[0] in passed
        }


class Plan:
    """The steps of one mount: at first all of them. `left`: steps that stay in the box, by choice."""

    def __init__(self, tree: LayeredTree, baseline: dict[bytes, HostStat]) -> None:
        lower = tree.root.lower
        assert lower is not None
        self.lower = lower
        self.left: list[Step] = []
        self.ruled_out = False  # a rule keeps changes from the host; they stay in the box, too
        self.moved = lower.moved
        self.baseline = baseline
        files = [info for info in baseline.values() if not st.S_ISDIR(info.mode)]
        self._files_by_identity = {(info.dev, info.ino): info for info in files}
        self.notes: list[str] = []
        self.steps: list[Step] = []
        within: dict[int, Step] = {}  # by the change of a directory that is new
        unruled = ChangesByRule(lower, self.notes)
        ruled: list[tuple[Step, Change]] = []  # in new directories
        for change in delta(tree, through=True):
            if unruled.leaves_out(change):
                self.ruled_out |= change.differs
                if id(change.above) in within:
                    ruled.append((within[id(change.above)], change))
                continue
            step = within.get(id(change.above))
            if step is None:
                step = self._step(change)
            elif self._is_applied(change):
                step.inside.append(change)
            if step is not None and isinstance(change.node, LayerDir) and not change.in_place:
                within[id(change)] = step
        for step in {id(step): step for step, _ in ruled}.values():
            _leave_in_box(step, [change for its, change in ruled if its is step])
        self.lost = list(tree.lost)
        self.steps = [step for step in self.steps if step.out or step.new is not None]

    def _is_applied(self, change: Change) -> bool:
        if change.node is None:
            return False
        if change.node.kind not in (st.S_IFREG, st.S_IFDIR, st.S_IFLNK, st.S_IFIFO):
            self.notes.append(f"{shown(change.path)}: a socket has no use without its program, and stays in the box")
            return False
        info = stat_of(change)
        if info.mode & SET_ID and change.node.kind == st.S_IFREG:
            self.notes.append(f"{shown(change.path)}: set-uid and set-gid are not carried over to the host")
        if change.was is not None and (info.uid, info.gid) != (change.was.stat.uid, change.was.stat.gid):
            self.notes.append(f"{shown(change.path)}: the owner on the host stays")
        return True

    def _step(self, change: Change) -> Step | None:
        node, was = change.node, change.was
        if node is not None and not self._is_applied(change):
            node = None
            if was is None:
                return None
        if change.in_place:
            step = Step(change, out=False, new=change if change.differs else None, meta=True)
        elif node is None:
            step = Step(change, out=was is not None, new=None, meta=False)
        else:
            step = Step(change, out=was is not None, new=change, meta=False)
            if isinstance(node, Inode) and node.kind == st.S_IFREG and was is not None:
                # The content is still the host's: only the metadata changes.
                step.meta = _is_content_of(node, was)
                step.out = not step.meta
        self.steps.append(step)
        return step

    # -- does the host agree? ------------------------------------------------------------------------------------
    def conflicts(self, root: int) -> list[Clash]:
        found = [Clash(path, "gone from the host since, or replaced") for path in self.lost]
        device = os.fstat(root).st_dev
        for step in self.steps:
            try:
                found += self._conflicts_of(step, root, device)
            except OSError as error:
                found.append(Clash(step.path, error.strerror or "it cannot be read", step))
        return found

    def _conflicts_of(self, step: Step, root: int, device: int) -> Iterator[Clash]:
        above = step.path.rpartition(b"/")[0]
        try:
            if stat_beneath(root, above).dev != device:
                yield Clash(above, "another file system is mounted there", step)
                return
        except OSError as error:
            yield Clash(above, f"the directory is gone from the host ({error.strerror})", step)
            return
        there = lstat(root, step.path)
        if there is None:
            if step.out or step.meta or step.path in self.baseline:
                yield Clash(step.path, "gone from the host since", step)
        elif not step.out and not step.meta:
            yield Clash(step.path, "exists on the host by now", step)
        elif step.meta and st.S_ISDIR(there.mode):
            if not self._is_same_directory(step.path, there):
                yield Clash(step.path, "another directory on the host by now", step)
        else:
            yield from self.changed_below(root, step.path, step.path, step=step)

    def _is_same_directory(self, path: bytes, there: HostStat) -> bool:
        expected = self.baseline.get(path)
        return expected is None or is_same_inode(expected, there)

    def changed_below(
        self, root: int, path: bytes, called: bytes, *, step: Step | None = None, moved: bool = False
    ) -> Iterator[Clash]:
        """What in the tree at `path`, which the plan knows as `called`, is not as the box saw it. `moved`: husk has
        moved it, which changed the ctime of its top."""
        waiting = [(path, called)]
        while waiting:
            path, called = waiting.pop()
            there = lstat(root, path)
            if there is None or not self._as_baseline(called, there, moved=moved):
                yield Clash(called, "changed on the host since", step)
            elif st.S_ISDIR(there.mode):
                fd = open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    names = [os.fsencode(name) for name in os.listdir(fd)]
                finally:
                    os.close(fd)
                waiting += [(path + b"/" + name, called + b"/" + name) for name in names]
            moved = False

    def _as_baseline(self, called: bytes, there: HostStat, *, moved: bool) -> bool:
        expected = self.baseline.get(called) or self._files_by_identity.get((there.dev, there.ino))
        if expected is not None:
            if st.S_ISDIR(there.mode):
                return is_same_inode(expected, there)
            return is_same_content(expected, there) if moved else is_unchanged(expected, there)
        # Everything below a directory that the box renamed is moved with it, whatever it is now.
        while called:
            if called in self.moved:
                return True
            called = called.rpartition(b"/")[0]
        return False

    def staged_mode(self, change: Change) -> int:
        info = stat_of(change)
        mode = info.mode & 0o7777
        if info.acl is not None:
            # The ACL stays in the box, whose users are not the host's. Without it the mode's group bits would give the
            # group what only the mask allowed.
            from husk.vfs.access.posix_acl import group_permissions

            mode = mode & ~0o070 | group_permissions(info.acl) << 3
        if isinstance(change.node, LayerDir):
            return mode & ~st.S_ISUID
        return mode & ~SET_ID

    def attributes(self, change: Change) -> dict[bytes, bytes]:
        assert change.node is not None
        return {name: value for name, value in xattrs_of(change.node).items() if name not in ACLS}


def _is_content_of(node: Inode, was: Was) -> bool:
    """Does `node` still show the host's file, by this name or another of it?"""
    if node.source is None or was.lower is None or node.source[0] is not was.lower:
        return False
    try:
        one, other = was.lower.stat(was.rel), was.lower.stat(node.source[1])
    except OSError:
        return False
    return (one.dev, one.ino) == (other.dev, other.ino)


def lstat(root: int, path: bytes) -> HostStat | None:
    try:
        return stat_beneath(root, path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
            return None
        raise


def shown(path: bytes) -> str:
    """A guest's name for a person's terminal; the directory itself has none."""
    return text.shown(path) or "."

"""sandbox: make ready in the staging directory everything new that an apply brings, and list the steps.

The content came from a guest: nothing becomes set-uid or set-gid, and the guest does not choose an owner. Guests of
other boxes may change the same directory meanwhile (`staging_dir`): each file is made in a directory that was opened
without following a link, and its metadata is set through its own descriptor.
"""

from __future__ import annotations

import os
import stat as st

from husk.native._core import open_beneath
from husk.sandbox.apply.apply_plan import Conflict, lstat, shown
from husk.sandbox.apply.journal import metadata, metadata_before, set_metadata, user_attributes
from husk.store.layout import write_and_close
from husk.vfs.layer.content_copy import copy_content
from husk.vfs.layer.delta import ANYONE, stat_of, target_of
from husk.vfs.layer.inodes import Inode, LayerDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from husk.sandbox.apply.apply_plan import Plan, Step
    from husk.sandbox.apply.staging_dir import StagingDir
    from husk.vfs.layer.delta import Change

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class StagedChanges:
    """Makes everything new under new/N, and the list of steps."""

    def __init__(self, staging: StagingDir, plan: Plan, root: int) -> None:
        self.staging, self.plan, self.root = staging, plan, root
        found = os.fstat(root)
        self.owner = found.st_uid, found.st_gid
        self.is_root = os.geteuid() == 0
        self._made: dict[int, bytes] = {}  # by inode, its first name below the staging directory's `new`
        self._later: list[Callable[[], None]] = []  # a directory gets its metadata when it is full
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
                self._stage(step, b"%d" % number)
                ins.append(("in", path, number))
        for set_it in reversed(self._later):
            set_it()
        # The deepest directory first: setting the metadata of its entries does not change the directory itself.
        self.steps = [*outs, *ins, *reversed(metas)]

    def _meta(self, step: Step) -> dict[str, Any]:
        change = step.new
        assert change is not None
        info = stat_of(change)
        fd = open_beneath(self.root, step.path, os.O_PATH) if step.path else os.dup(self.root)
        try:
            path = b"/proc/self/fd/%d" % fd
            # A file that was set-uid on the host stays so; none becomes it.
            found = os.fstat(fd)
            expected = self.plan.baseline.get(step.path)
            if expected is not None and (found.st_dev, found.st_ino) != (expected.dev, expected.ino):
                raise Conflict(f"{shown(step.path)}: another file on the host by now; nothing was applied.")
            mode = self.plan.staged_mode(change) | info.mode & found.st_mode & 0o6000
            now = metadata(mode, info.atime, info.mtime, self.plan.attributes(change))
            return {"before": metadata_before(path, now), "now": now, "file": [found.st_dev, found.st_ino]}
        finally:
            os.close(fd)

    def _stage(self, step: Step, top: bytes) -> None:
        assert step.new is not None
        self._make(step.new, top, replaces=step.out, step=step)
        for change in step.inside:
            self._make(change, top + change.path[len(step.path) :], replaces=False)

    def _make(self, change: Change, path: bytes, *, replaces: bool, step: Step | None = None) -> None:
        node = change.node
        assert node is not None
        above, name = self.staging.open_parent(path)
        try:
            if isinstance(node, Inode) and node.nlink > 1 and id(node) in self._made:
                self._link(self._made[id(node)], above, name)
                return
            if isinstance(node, Inode):
                self._made[id(node)] = path
            if node.kind == st.S_IFLNK:
                os.symlink(target_of(node), name, dir_fd=above)
            elif isinstance(node, LayerDir):
                os.mkdir(name, 0o700, dir_fd=above)
            elif node.kind == st.S_IFIFO:
                os.mkfifo(name, 0o600, dir_fd=above)
            elif step is not None and step.merged is not None:
                _write(step.merged, above, name)
            else:
                self._copy(change, above, name)
        finally:
            os.close(above)
        owner, attributes = self._of_replaced(change) if replaces and node.kind != st.S_IFLNK else (self.owner, {})
        held = self.staging.open_own(path, node.kind)
        try:
            if self.is_root:
                os.chown(b"/proc/self/fd/%d" % held, *owner)
            if node.kind == st.S_IFLNK:
                info = stat_of(change)
                os.utime(b"/proc/self/fd/%d" % held, ns=(info.atime, info.mtime))
            elif isinstance(node, LayerDir):
                found = os.fstat(held)
                identity = found.st_dev, found.st_ino
                self._later.append(lambda: self._set_later(change, path, identity, attributes))
            else:
                self._set_metadata(change, held, attributes, step)
        finally:
            os.close(held)

    def _link(self, first: bytes, above: int, name: bytes) -> None:
        there, called = self.staging.open_parent(first)
        try:
            os.link(called, name, src_dir_fd=there, dst_dir_fd=above, follow_symlinks=False)
        finally:
            os.close(there)

    def _of_replaced(self, change: Change) -> tuple[tuple[int, int], dict[bytes, bytes]]:
        """Owner and attributes of the host's file that is replaced: the box never saw the attributes, and may not
        change the owner."""
        there = lstat(self.root, change.path)
        if there is None or st.S_IFMT(there.mode) != (change.node.kind if change.node else 0):
            return self.owner, {}
        fd = open_beneath(self.root, change.path, os.O_PATH)
        try:
            return (there.uid, there.gid), user_attributes(b"/proc/self/fd/%d" % fd)
        finally:
            os.close(fd)

    def _copy(self, change: Change, above: int, name: bytes) -> None:
        assert change.node is not None
        source = change.node.tree.open(ANYONE, change.node, os.O_RDONLY)
        try:
            goal = os.open(name, NEW, 0o600, dir_fd=above)
            try:
                copy_content(source, goal)
            finally:
                os.close(goal)
        finally:
            os.close(source)

    def _set_later(
        self, change: Change, path: bytes, identity: tuple[int, int], attributes: dict[bytes, bytes]
    ) -> None:
        held = self.staging.open_own(path, st.S_IFDIR, identity)
        try:
            self._set_metadata(change, held, attributes)
        finally:
            os.close(held)

    def _set_metadata(
        self, change: Change, held: int, attributes: dict[bytes, bytes], step: Step | None = None
    ) -> None:
        info = stat_of(change)
        mode, modified = self.plan.staged_mode(change), info.mtime
        if step is not None and step.mode is not None:
            mode = step.mode
        if step is not None and step.merged is not None:
            modified = os.stat(b"/proc/self/fd/%d" % held).st_mtime_ns  # this content is new
        what = metadata(mode, info.atime, modified, attributes | self.plan.attributes(change))
        set_metadata(b"/proc/self/fd/%d" % held, what)


def _write(content: bytes, above: int, name: bytes) -> None:
    write_and_close(os.open(name, NEW, 0o600, dir_fd=above), content, durable=False)

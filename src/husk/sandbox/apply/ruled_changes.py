"""sandbox: which changes of a box are not applied, because a rule closes or protects their names on the host.

Below a cow mount the guest may do as it likes with protected names: the host has its own. Here it is decided that these
changes stay in the box. Not here: the steps (`apply_plan`), and what a rule says (`vfs.host.tree_rules`).
"""

from __future__ import annotations

import os
import stat as st

from husk.abi import text
from husk.native._core import open_beneath
from husk.vfs.host.tree_rules import PROTECT
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.host.tree_rules import TreeRule
    from husk.vfs.layer.delta import Change
    from husk.vfs.layer.lower import Lower

MOST_NOTES = 100


class ChangesByRule:
    """Asked for every change, a directory before what is in it."""

    __slots__ = ("_left", "_lower", "_notes", "_own")

    def __init__(self, lower: Lower, notes: list[str]) -> None:
        self._lower, self._notes = lower, notes
        self._left: set[int] = set()  # changes that are left out, by id
        self._own: set[int] = set()  # directories that the guest made

    def leaves_out(self, change: Change) -> bool:
        if self._lower.rules is None or change.above is None:
            return False
        if id(change.above) in self._left:
            self._left.add(id(change))
            return True
        if isinstance(change.node, LayerDir) and change.node.lower is None:
            self._own.add(id(change))
        what, rule = self._ruled(change)
        if rule is None:
            return False
        self._left.add(id(change))
        if change.differs and len(self._notes) < MOST_NOTES:
            where = f" ({text.shown(what)})" if what != change.path else ""
            self._notes.append(f"{text.shown(change.path)}{where}: {rule.reason}; left out, --allow applies it")
        return True

    def _ruled(self, change: Change) -> tuple[bytes, TreeRule | None]:
        """The rule that keeps the change from the host, and the name that it is for."""
        rules, node, was = self._lower.rules, change.node, change.was
        assert rules is not None
        path, in_own = change.path, id(change.above) in self._own
        kind = node.kind if node is not None else was.kind if was is not None else st.S_IFREG
        identity = None
        try:
            info = was.lower.stat(was.rel) if was is not None and was.lower is not None else None
            identity = None if info is None else (info.dev, info.ino)
        except OSError:
            pass  # gone by now, which `apply_plan` will find
        rule = rules.at(path, kind, in_own=in_own, identity=identity)
        if rule is None and in_own and node is not None:
            # In the box it is the guest's own. On the host a new .git/config would run at the next git status.
            rule = rules.at(path, kind, in_own=False)
            rule = rule if rule is not None and rule.verb == PROTECT else None
        if rule is not None:
            return path, rule
        if was is not None and was.kind == st.S_IFDIR and not change.in_place:
            return self._below(path)
        return path, self._content(change)

    def _content(self, change: Change) -> TreeRule | None:
        """The rule that denies the host's file which this name shows."""
        node = change.node
        if isinstance(node, LowerNode):
            lower, rel = node.lower, node.rel
        elif isinstance(node, Inode) and node.source is not None:
            lower, rel = node.source
        else:
            return None
        return lower.rules.denying(rel) if lower.rules is not None else None

    def _below(self, path: bytes) -> tuple[bytes, TreeRule | None]:
        """The host's directory is to be removed, with all in it. Hidden names are in it, too."""
        rules = self._lower.rules
        assert rules is not None
        root, waiting = os.dup(self._lower.fd), [path]  # a descriptor without a guard
        try:
            while waiting:
                above = waiting.pop()
                with _Listing(root, above) as found:
                    for entry in found:
                        name = above + b"/" + os.fsencode(entry.name)
                        is_dir = entry.is_dir(follow_symlinks=False)
                        rule = rules.at(name, st.S_IFDIR if is_dir else st.S_IFREG, in_own=False)
                        if rule is not None:
                            return name, rule
                        if is_dir:
                            waiting.append(name)
        finally:
            os.close(root)
        return path, None


class _Listing:
    """The entries of a host directory; none if it is gone by now, which `apply_plan` will find."""

    __slots__ = ("_entries", "_fd", "_path", "_root")

    def __init__(self, root: int, path: bytes) -> None:
        self._root, self._path, self._fd = root, path, -1

    def __enter__(self) -> list[os.DirEntry[str]]:
        try:
            self._fd = open_beneath(self._root, self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return []
        with os.scandir(self._fd) as entries:
            return list(entries)

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

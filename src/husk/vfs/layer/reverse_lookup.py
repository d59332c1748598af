"""vfs: from an open host file back to the node of a layered tree, whatever was renamed, copied or removed meanwhile."""

from __future__ import annotations

import stat as st

from husk.vfs.host.host_file import beneath, place_now
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode
from husk.vfs.pinned import Orphan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.layer.copy_up import CopyUp
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.layer.lower import Lower
    from husk.vfs.node import Dir, Node


class ReverseLookup:
    """Answers which node of its tree a descriptor belongs to."""

    __slots__ = ("_copy_up", "_tree")

    def __init__(self, tree: LayeredTree, copy_up: CopyUp) -> None:
        self._tree, self._copy_up = tree, copy_up

    def host_depth(self, path: bytes) -> int:
        lowers = self._tree.lowers
        shown = [lower.path for lower in lowers if path == lower.path or beneath(lower.path, path) is not None]
        return max(map(len, shown), default=0)

    def follow_moves(self, path: bytes) -> bool:
        moved = False
        for lower in self._tree.lowers:
            # A single file that is shown has no top, and is known by its identity.
            if lower.is_host and lower.top is not None and (not path or beneath(lower.path, path) is not None):
                before, lower.path = lower.path, place_now(lower.fd, lower.path)
                moved = moved or lower.path != before
        return moved

    def node_of_host(self, path: bytes, dev: int, ino: int, via: bytes) -> Node | None:
        for lower in self._tree.lowers:
            if path == lower.path:  # a single file that is shown
                return self._copy_up.inodes.get((dev, ino))
            found = lower.trace(path, dev, ino)
            if found is not None:
                # A lower file that was copied up is its inode, wherever and however often it was renamed.
                return self._found(lower, *found, via)
            if lower.exclusive and beneath(lower.path, path) is not None:
                return None
        return None

    def is_unchanged(self, node: LowerNode) -> bool:
        """Not if the file was copied up, through another name perhaps."""
        return node.key not in self._copy_up.inodes

    def current(self, node: Node) -> Node:
        return self._found(node.lower, node.rel, node.key, b"") if isinstance(node, LowerNode) else node

    def _found(self, lower: Lower, rel: bytes, key: tuple[int, int], via: bytes) -> Node:
        return self._copy_up.inodes.get(key) or self._lower_node(lower, rel, key) or self._orphan(lower, rel, key, via)

    def _lower_node(self, lower: Lower, rel: bytes, key: tuple[int, int]) -> LowerNode | None:
        """The file `rel`, if it still shows and is the one meant."""
        head, _, name = rel.rpartition(b"/")
        directory = self._where(lower, head)
        if directory is None or name in directory.names or not directory.shows_lower(name):
            return None
        try:
            info = lower.stat(rel)
        except (FileNotFoundError, NotADirectoryError):
            return None  # only these mean that it is gone, and what is gone once stays so
        if (info.dev, info.ino) != key or info.mode & 0o170000 == st.S_IFDIR:
            return None
        return LowerNode(self._tree, directory, name, lower, rel, info)

    def _orphan(self, lower: Lower, rel: bytes, key: tuple[int, int], via: bytes) -> Orphan:
        rel = rel.removesuffix(b" (deleted)")
        head, _, name = rel.rpartition(b"/")
        directory = self._where(lower, head)
        was = (directory, name) if directory is not None else (lower.top or self._tree.root, rel)
        source = last = None
        try:
            info = lower.stat(rel)
            if (info.dev, info.ino) == key:
                source, last = (lower, rel), info
        except OSError:
            pass  # the host removed it, too
        return Orphan(self._tree, via, was, lower.uids, lower.gids, key=key, last=last, hidden=1, source=source)

    def _where(self, lower: Lower, rel: bytes) -> LayerDir | None:
        """The directory that shows lower directory `rel` now; None when none does any more."""
        names: list[bytes] = []
        here = lower.moved.get(rel) if rel else lower.top
        while rel and here is None:
            rel, _, name = rel.rpartition(b"/")
            names.append(name)
            here = lower.moved.get(rel) if rel else lower.top
        while names and here is not None:
            name = names.pop()
            child = here.names.get(name)
            if child is None:
                try:
                    child = self._tree.lookup(None, here, name)
                except OSError:
                    return None
            if not isinstance(child, LayerDir) or child.lower is not lower or child.rel != here.below(name):
                return None
            here = child
        return here

    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        if isinstance(node, LowerNode):
            return node.parent, node.name
        if isinstance(node, Inode) and node.parent is not None and not node.nameless:
            return node.parent, node.name
        return None

    def old_name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        if isinstance(node, Orphan):
            return node.was
        return (node.parent, node.name) if isinstance(node, Inode) and node.parent is not None else None

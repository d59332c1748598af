"""vfs: which names of a layered tree the host can be asked for without looking at the layer.

The questions of the name cache, answered with a `HostView`.
"""

from __future__ import annotations

import stat as st

from husk.abi.structs import pack_stat
from husk.vfs.host_view import HostView, given_view, host_showing
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode
from husk.vfs.node import ACL_ACCESS, Stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.layer.inode_numbers import InodeNumbers
    from husk.vfs.layer.lower import Lower
    from husk.vfs.layer.upper_files import UpperFiles
    from husk.vfs.node import Context, Dir, Node

PRIVILEGE = st.S_ISUID | st.S_ISGID


class Cacheable:
    """The views of one tree, whose device is `dev`."""

    __slots__ = ("_dev", "_files", "_numbers")

    def __init__(self, dev: int, files: UpperFiles, numbers: InodeNumbers) -> None:
        self._dev, self._files, self._numbers = dev, files, numbers

    def names(self, directory: Dir) -> HostView | None:
        """None unless every name in `directory` is the host's, unchanged."""
        if directory.is_hidden_or_watched() or not isinstance(directory, LayerDir):
            return None
        lower = directory.lower
        if lower is None or directory.only is not None or directory.copied_up:
            return None
        for name, node in directory.names.items():
            if not isinstance(node, LayerDir) or node.mounted or node.lower is not lower:
                return None
            if node.rel != directory.below(name):
                return None
        return self._lower_view(lower, directory.rel)

    def beneath(self, directory: LayerDir) -> HostView | None:
        """What the host has by the names of a changed directory that are not in `names`. None: only the tree knows."""
        lower = directory.lower
        if lower is None or not lower.is_host or directory.only is not None:
            return None
        return self._lower_view(lower, directory.rel)

    def node(self, ctx: Context, node: Node) -> HostView | None:
        """One node, in a directory where others may have changed."""
        if isinstance(node, LowerNode) and node.kind in (st.S_IFREG, st.S_IFLNK):
            return self._lower_file(node)
        if isinstance(node, Inode):
            return self._upper_file(node)
        if isinstance(node, LayerDir) and node.mounted is None and node.lower is None:
            info = node.tree.stat(ctx, node)
            return None if info.acl is not None else given_view(info)  # C judges by the mode alone
        return None

    def handle(self, node: Node, dev: int, ino: int) -> HostView | None:
        """What fstat on a descriptor of `node` shows. Opening for writing copies a lower file up: then `node` is still
        what the walk found, and the open file, `dev` and `ino`, is another."""
        if isinstance(node, Inode):
            return self._upper_file(node)
        if not isinstance(node, LowerNode):
            return None
        info = node.lower.stat(node.rel)
        if (info.dev, info.ino) != (dev, ino):
            return None
        # A file with other names may have been changed through those.
        view = self._lower_file(node) if info.nlink == 1 and info.ino < 1 << 32 else None
        return view if view is not None and view.host_dev == info.dev and view.manifest is None else None

    def own_files(self, directory: Dir, most: int) -> list[tuple[bytes, HostView]] | None:
        """The upper files of a directory, by name; None: it has more than `most` names of the box's own."""
        assert isinstance(directory, LayerDir)
        if len(directory.names) > most:
            return None
        found = []
        for name, node in directory.names.items():
            view = self._upper_file(node) if isinstance(node, Inode) else None
            if view is not None:
                found.append((name, view))
        return found

    def _lower_file(self, node: LowerNode) -> HostView | None:
        return self._lower_view(node.lower, node.rel) if node.parent.mirror is None else None

    def _upper_file(self, node: Inode) -> HostView | None:
        """Size and content times are the real file's, the rest is the inode's. Only with a single name: a change
        through one name is announced for that name's directory only."""
        if node.kind != st.S_IFREG or not node.number or node.source is not None or node.others or node.nlink != 1:
            return None
        if node.mode & PRIVILEGE or (node.xattrs and ACL_ACCESS in node.xattrs):
            return None
        if node.parent is not None and node.parent.mirror is not None:
            return None  # it is opened by its watched name, and a rename of a directory above moves that
        # Fields that are 0 here are asked of the real file each time.
        times = 0, 0, node.ctime, node.btime
        info = Stat(self._dev, node.ino, node.mode, 1, node.uid, node.gid, 0, 0, 0, 0, *times)
        files_fd = self._files.state.files_fd
        return HostView(files_fd, b"%d" % node.number, 0, ("upper", pack_stat(info), node.host_ctime))

    def _lower_view(self, lower: Lower, rel: bytes) -> HostView | None:
        showing = host_showing(self._dev, lower.uids, lower.gids)
        info = lower.stat(rel)
        # Only inode numbers of the tree's first host device are shown as they are.
        if showing is None or not self._numbers.is_first_device(info.dev):
            return None
        return HostView(lower.fd, rel, info.dev, showing, layered=True, manifest=lower.mapped, info=info)

"""vfs: which directories show a host directory just as it is, so that somebody else may answer for them.

The question behind the name cache: may names in this directory be looked up on the host, without looking at the layer?
"""

from __future__ import annotations

from husk.native._core import stat_beneath
from husk.vfs.hosttree import HostDir, HostRead
from husk.vfs.layer_copy import CopyUp
from husk.vfs.layer_nodes import LayerDir, Lower, LowerNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Dir, Tree

SAME = (0xFFFFFFFF, 0xFFFFFFFF)  # no host id is shown as another


class HostView:
    """Where a directory's names are on the host, and how what is there is shown."""

    __slots__ = ("dev", "gids", "host_dev", "layered", "rel", "root_fd", "uids")

    def __init__(
        self, root_fd: int, rel: bytes, dev: int, uids: dict[int, int], gids: dict[int, int], *, layered: bool
    ) -> None:
        self.root_fd, self.rel, self.dev, self.layered = root_fd, rel, dev, layered
        self.host_dev = stat_beneath(root_fd, rel)[0]
        self.uids = next(iter(uids.items()), SAME)
        self.gids = next(iter(gids.items()), SAME)


def host_view(directory: Dir) -> HostView | None:
    """None unless every name in `directory` is the host's, unchanged."""
    if directory.removed or directory.mounted is not None:
        return None
    tree = directory.tree
    if isinstance(directory, HostDir) and isinstance(tree, HostRead):
        if len(tree.uids) > 1 or len(tree.gids) > 1 or any(child.mounted for child in directory.children.values()):
            return None
        return HostView(tree.fd, directory.rel(), tree.dev, tree.uids, tree.gids, layered=False)
    if isinstance(directory, LayerDir) and directory.lower is not None and directory.only is None and not directory.own:
        lower = directory.lower
        if len(lower.uids) > 1 or len(lower.gids) > 1:
            return None
        for name, node in directory.names.items():
            if (
                not isinstance(node, LayerDir)
                or node.lower is not lower
                or node.rel != directory.below(name)
                or node.mounted
            ):
                return None
        return _layered(tree, lower, directory.rel)
    return None


def lower_view(node: LowerNode) -> HostView | None:
    """The same for one unchanged file, in a directory where others may have changed."""
    if len(node.lower.uids) > 1 or len(node.lower.gids) > 1:
        return None
    return _layered(node.tree, node.lower, node.rel)


def _layered(tree: Tree, lower: Lower, rel: bytes) -> HostView | None:
    view = HostView(lower.fd, rel, tree.dev, lower.uids, lower.gids, layered=True)
    # Only numbers of the tree's first host device are shown as they are.
    return view if isinstance(tree, CopyUp) and tree.first_device(view.host_dev) else None

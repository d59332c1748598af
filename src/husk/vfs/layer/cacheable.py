"""vfs: what may be looked up on the host without looking at the layer, and how what is found there is shown.

The questions behind the name cache. A *view* says where the host has a directory's names, or one file, and how to show
them; it holds as long as `changed` is not called for the directory it was made for.
"""

from __future__ import annotations

import stat as st

from husk.abi.structs import pack_stat
from husk.native._core import stat_beneath
from husk.vfs.host.host_tree import HostDir, HostRead
from husk.vfs.layer.copy_up import CopyUp
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode
from husk.vfs.node import Stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import Manifest, Showing
    from husk.vfs.layer.lower import Lower
    from husk.vfs.node import Dir, Tree

SAME = (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF)  # no host id is shown as another
PRIVILEGE = st.S_ISUID | st.S_ISGID


class HostView:
    """`rel` beneath `root_fd` on the host. `layered`: hard links and changed files may live elsewhere in the layer."""

    __slots__ = ("host_dev", "host_ino", "layered", "manifest", "rel", "root_fd", "showing")

    def __init__(self, root_fd: int, rel: bytes, host_dev: int, showing: Showing, *, layered: bool) -> None:
        self.root_fd, self.rel, self.host_dev, self.showing, self.layered = root_fd, rel, host_dev, showing, layered
        self.host_ino = 0  # of a directory that is known by its identity, not by its name
        self.manifest: Manifest | None = None  # names are in there, not on the host


MISSING = HostView(-1, b"", 0, ("host", 0, SAME, SAME), layered=False)


def host_view(directory: Dir) -> HostView | None:
    """None unless every name in `directory` is the host's, unchanged."""
    if directory.removed or directory.mounted is not None or directory.real is not None:
        return None
    if directory.parent is not None and directory.parent.real is not None:
        return None  # who opens it may be watched
    tree = directory.tree
    if isinstance(directory, HostDir) and isinstance(tree, HostRead):
        if any(child.mounted for child in directory.children.values()):
            return None
        rel = directory.rel()
        found = stat_beneath(tree.fd, rel)
        if (found.dev, found.ino) != directory.key:
            return None  # a host process put another one there
        view = _as_host(tree, tree.fd, rel, tree.uids, tree.gids, layered=False, host_dev=found.dev)
        if view is not None:
            view.host_ino = found.ino
        return view
    if isinstance(directory, LayerDir) and directory.lower is not None and directory.only is None and not directory.own:
        for name, node in directory.names.items():
            if not isinstance(node, LayerDir) or node.mounted or node.lower is not directory.lower:
                return None
            if node.rel != directory.below(name):
                return None
        return _layered(tree, directory.lower, directory.rel)
    return None


def lower_view(node: LowerNode) -> HostView | None:
    """The same for one unchanged file, in a directory where others may have changed."""
    return _layered(node.tree, node.lower, node.rel) if node.parent.real is None else None


def upper_view(node: Inode) -> HostView | None:
    """A file of the box's own: size and content times are its real file's, the rest ours. Only with a single name,
    since a change through one name is told to that name's directory alone."""
    if node.kind != st.S_IFREG or not node.number or node.source is not None or node.others or node.nlink != 1:
        return None
    if node.mode & PRIVILEGE or not isinstance(node.tree, CopyUp):
        return None
    if node.parent is not None and node.parent.real is not None:
        return None  # opened by the name that is watched, and whoever renames a directory above moves it
    # What is 0 here is asked of the real file each time.
    times = 0, 0, node.ctime, node.btime
    info = Stat(node.tree.dev, node.ino, node.mode, 1, node.uid, node.gid, 0, 0, 0, 0, *times)
    return HostView(
        node.tree.state.files_fd, b"%d" % node.number, 0, ("upper", pack_stat(info), node.host_ctime), layered=False
    )


def given_view(info: Stat) -> HostView:
    """Nothing of the host: the answer itself."""
    return HostView(-1, b"", 0, ("given", pack_stat(info)), layered=False)


def _layered(tree: Tree, lower: Lower, rel: bytes) -> HostView | None:
    view = _as_host(tree, lower.fd, rel, lower.uids, lower.gids, layered=True, host_dev=lower.stat(rel).dev)
    if view is not None:
        view.manifest = lower.mapped
    # Only numbers of the tree's first host device are shown as they are.
    return view if view is not None and isinstance(tree, CopyUp) and tree.first_device(view.host_dev) else None


def _as_host(
    tree: Tree,
    root_fd: int,
    rel: bytes,
    uids: dict[int, int],
    gids: dict[int, int],
    *,
    layered: bool,
    host_dev: int,
) -> HostView | None:
    owner, group = _shown(uids), _shown(gids)
    if owner is None or group is None:
        return None
    return HostView(root_fd, rel, host_dev, ("host", tree.dev, owner, group), layered=layered)


def _shown(ids: dict[int, int]) -> tuple[int, int, int] | None:
    """Who is shown as whom, and as whom a stranger of that number (`permissions.shown_as`); None for more than that."""
    if not ids:
        return SAME
    *strangers, (host, own) = ids.items()
    if any(number != own for number, _ in strangers):
        return None
    return host, own, strangers[0][1] if strangers else own

"""vfs: what a guest changed in a layered tree, told as a list of paths."""

from __future__ import annotations

import stat as st

from husk.native._core import stat_beneath
from husk.vfs.layer_nodes import WHITEOUT, Inode, LayerDir
from husk.vfs.node import Context, Credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.native._core import HostStat
    from husk.vfs.layer import LayeredTree
    from husk.vfs.node import Dir, Node

_ANYONE = Context(Credentials(0, 0))


def seal(tree: LayeredTree) -> None:
    _seal(tree, tree.root)


def _seal(tree: LayeredTree, directory: LayerDir) -> None:
    for name in directory.names:
        accept(tree, directory, name)


def accept(tree: LayeredTree, directory: Dir, name: bytes) -> None:
    assert isinstance(directory, LayerDir)
    node = directory.names[name]
    if node is not WHITEOUT:
        info = tree.stat(_ANYONE, node)
        if directory.base is None:
            directory.base = {}
        directory.base[name] = node, info.mode, info.mtime
    if isinstance(node, LayerDir):
        _seal(tree, node)


def changes(tree: LayeredTree) -> list[tuple[str, bytes]]:
    return sorted(_in(tree, tree.root, b"/"), key=lambda change: change[1])


def _in(tree: LayeredTree, directory: LayerDir, prefix: bytes) -> Iterator[tuple[str, bytes]]:
    base = directory.base or {}
    for name in base.keys() - directory.names.keys():
        yield "deleted", prefix + name
    for name, node in list(directory.names.items()):
        path = prefix + name
        was = base.get(name)
        lower = None if was is not None else _lower_info(directory, name)
        if node is WHITEOUT:
            if was is not None or lower is not None:
                yield "deleted", path
        elif was is not None and was[0] is node:
            info = tree.stat(_ANYONE, node)
            if info.mode != was[1] or (node.kind != st.S_IFDIR and info.mtime != was[2]):
                yield "changed", path
            if isinstance(node, LayerDir):
                yield from _in(tree, node, path + b"/")
        elif isinstance(node, LayerDir) and node.lower is not None and _in_place(directory, name, node):
            if node.own and lower is not None and (node.mode, node.uid, node.gid) != _owner(node, lower):
                yield "changed", path
            yield from _in(tree, node, path + b"/")
        elif isinstance(node, Inode) and lower is not None and _untouched(directory, name, node, lower):
            continue
        else:
            yield "added" if was is None and lower is None else "changed", path
            if isinstance(node, LayerDir):
                yield from _all(tree, node, path + b"/")


def _all(tree: LayeredTree, directory: LayerDir, prefix: bytes) -> Iterator[tuple[str, bytes]]:
    """Everything below a directory that is new at its place."""
    for entry in list(tree.entries(_ANYONE, directory, 0)):
        yield "added", prefix + entry.name
        if entry.kind == st.S_IFDIR:
            child: Node = tree.lookup(None, directory, entry.name)
            if isinstance(child, LayerDir):
                yield from _all(tree, child, prefix + entry.name + b"/")


def _in_place(directory: LayerDir, name: bytes, node: LayerDir) -> bool:
    return node.lower is directory.lower and node.rel == directory.below(name)


def _owner(node: LayerDir, info: HostStat) -> tuple[int, int, int]:
    assert node.lower is not None
    return info[2], node.lower.uids.get(info[4], info[4]), node.lower.gids.get(info[5], info[5])


def _untouched(directory: LayerDir, name: bytes, node: Inode, info: HostStat) -> bool:
    """An inode that was made for its link count or change time only still is the lower file."""
    lower = directory.lower
    if lower is None or node.source != (lower, directory.below(name)):
        return False
    owner = lower.uids.get(info[4], info[4]), lower.gids.get(info[5], info[5])
    return (node.mode, node.uid, node.gid, node.mtime) == (info[2], *owner, info[11])


def _lower_info(directory: LayerDir, name: bytes) -> HostStat | None:
    if directory.lower is None or not directory.shows_lower(name):
        return None
    try:
        return stat_beneath(directory.lower.fd, directory.below(name))
    except OSError:
        return None

"""vfs: what a guest changed in a layered tree, as a list of paths. `delta` finds the same node by node."""

from __future__ import annotations

import stat as st

from husk.vfs.layer.inodes import WHITEOUT, Base, Inode, LayerDir
from husk.vfs.node import ROOT_CONTEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from husk.native._core import HostStat
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.node import Dir, Node


def seal(tree: LayeredTree, names: Iterable[bytes] | None = None) -> None:
    for name in tree.root.names if names is None else names:
        accept(tree, tree.root, name)
    tree.sealed_root = tree.stat(ROOT_CONTEXT, tree.root)


def accept(tree: LayeredTree, directory: Dir, name: bytes) -> None:
    """Make a name, and all below it, part of the starting point as it is now."""
    assert isinstance(directory, LayerDir)
    waiting = [(directory, name)]
    while waiting:
        directory, name = waiting.pop()
        node = directory.names[name]
        if node is WHITEOUT:
            continue
        if directory.base is None:
            directory.base = {}
        directory.base[name] = Base(node, tree.stat(ROOT_CONTEXT, node))
        if isinstance(node, LayerDir):
            waiting += [(node, inner) for inner in node.names]


# Of all paths together, in bytes. Each may be as long as a path gets: 500,000 of them could be gigabytes.
ROOM = 64 << 20
PATH_MAX = 4096


def changes(tree: LayeredTree, room: int = ROOM) -> tuple[list[tuple[str, bytes]], int]:
    """What changed, and how many changes are left out: those too deep for any call to name them by one path, and those
    found when `room` is used up. No recursion here: a guest can make directories deeper than Python's stack."""
    found: list[tuple[str, bytes]] = []
    left_out = 0
    # Directories still to look through, each with its parent's path (one text for all its siblings, since there may be
    # very many) and its name, or None where all is left out; `new` ones are new there, and so is everything in them.
    waiting: list[tuple[LayerDir, bytes | None, bytes, bool]] = [(tree.root, b"", b"", False)]
    while waiting:
        directory, parent, own_name, new = waiting.pop()
        prefix = None if parent is None else parent + own_name + b"/"
        if prefix is not None and len(prefix) > PATH_MAX:
            prefix = None
        listed = _everything(tree, directory) if new else _differing(tree, directory)
        for change, name, node, node_is_new in listed:
            if change and (prefix is None or len(prefix) + len(name) > min(PATH_MAX, room)):
                left_out += 1
            elif change and prefix is not None:
                found.append((change, prefix + name))
                room -= len(prefix) + len(name)
            if isinstance(node, LayerDir):
                if node_is_new and node.pending and node.lower is None and (written := _written(node)) is not None:
                    for rest in written:
                        if prefix is None or len(prefix) + len(name) + len(rest) > min(PATH_MAX, room):
                            left_out += 1
                        else:
                            found.append(("added", prefix + name + rest))
                            room -= len(prefix) + len(name) + len(rest)
                    continue
                waiting.append((node, prefix, name, node_is_new))
    return sorted(found, key=lambda change: change[1]), left_out


def _written(directory: LayerDir) -> list[bytes] | None:
    """The names below a directory of a kept box that was not looked into."""
    from husk.vfs.layer.overlay import untouched

    found = untouched(directory)
    if found is None:
        return None
    overlay, top = found
    return [entry.path[len(top.path) :] for entry in overlay.below(top)]


def _everything(tree: LayeredTree, directory: LayerDir) -> Iterator[tuple[str, bytes, Node | None, bool]]:
    for entry in list(tree.entries(ROOT_CONTEXT, directory, 0)):
        yield "added", entry.name, tree.lookup(None, directory, entry.name) if entry.kind == st.S_IFDIR else None, True


def _differing(tree: LayeredTree, directory: LayerDir) -> Iterator[tuple[str, bytes, Node | None, bool]]:
    """(what changed, name, node, is it new at its place) for names that may differ from the starting point."""
    base = directory.base or {}
    for name in base.keys() - directory.names.keys():
        yield "deleted", name, None, False
    for name, node in list(directory.names.items()):
        was = base.get(name)
        lower = None if was is not None else _lower_info(directory, name)
        if node is WHITEOUT:
            yield (
                "deleted" if (was is not None and was.stat is not None) or lower is not None else "",
                name,
                None,
                False,
            )
        elif was is not None and was.node is node and was.stat is not None:
            info = tree.stat(ROOT_CONTEXT, node)
            differs = info.mode != was.stat.mode or (node.kind != st.S_IFDIR and info.mtime != was.stat.mtime)
            yield "changed" if differs else "", name, node, False
        elif isinstance(node, LayerDir) and node.lower is not None and _in_place(directory, name, node):
            differs = node.copied_up and lower is not None and _metadata_differs(node, lower)
            yield "changed" if differs else "", name, node, False
        elif isinstance(node, Inode) and lower is not None and _untouched(directory, name, node, lower):
            continue
        else:
            yield "added" if was is None and lower is None else "changed", name, node, True


def _in_place(directory: LayerDir, name: bytes, node: LayerDir) -> bool:
    return node.lower is directory.lower and node.rel == directory.below(name)


def _metadata_differs(node: LayerDir, info: HostStat) -> bool:
    """Do they differ?"""
    assert node.lower is not None
    return (node.mode, node.uid, node.gid) != (info.mode, *node.lower.shown_owner(info))


def _untouched(directory: LayerDir, name: bytes, node: Inode, info: HostStat) -> bool:
    """Does an inode that was made only for its link count or change time still show the lower file?"""
    lower = directory.lower
    if lower is None:
        return False
    met = node.kind == st.S_IFIFO and node.key == (info.dev, info.ino)  # opening it gave the box a FIFO of its own
    if not met and (node.source or node.origin) != (lower, directory.below(name)):
        return False
    now = node.tree.stat(ROOT_CONTEXT, node)
    if (now.mode, now.uid, now.gid) != (info.mode, *lower.shown_owner(info)):
        return False
    return met or (now.mtime, now.size) == (info.mtime, info.size)


def _lower_info(directory: LayerDir, name: bytes) -> HostStat | None:
    if directory.lower is None or not directory.shows_lower(name):
        return None
    try:
        return directory.lower.stat(directory.below(name))
    except OSError:
        return None

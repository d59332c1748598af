"""vfs: what a guest changed in a layered tree, told as a list of paths."""

from __future__ import annotations

import stat as st

from husk.vfs.layer.inodes import WHITEOUT, Inode, LayerDir
from husk.vfs.node import Context, Credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.native._core import HostStat
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.node import Dir, Node

_ANYONE = Context(Credentials(0, 0))


def seal(tree: LayeredTree) -> None:
    for name in tree.root.names:
        accept(tree, tree.root, name)
    tree.sealed_root = tree.stat(_ANYONE, tree.root)


def accept(tree: LayeredTree, directory: Dir, name: bytes) -> None:
    """Take a name, and all below it, as it is now for the starting point."""
    assert isinstance(directory, LayerDir)
    waiting = [(directory, name)]
    while waiting:
        directory, name = waiting.pop()
        node = directory.names[name]
        if node is WHITEOUT:
            continue
        info = tree.stat(_ANYONE, node)
        if directory.base is None:
            directory.base = {}
        directory.base[name] = node, info.mode, info.mtime, info
        if isinstance(node, LayerDir):
            waiting += [(node, inner) for inner in node.names]


# Of all paths together, in bytes. Each may be as long as a path gets, and names of 500,000 would be gigabytes.
ROOM = 64 << 20
PATH_MAX = 4096


def changes(tree: LayeredTree, room: int = ROOM) -> tuple[list[tuple[str, bytes]], int]:
    """What changed, and how many changes are not told: those too deep for any call to name them by one path, and what
    comes when `room` is used up. No recursion here: a guest can make directories deeper than Python's stack."""
    found: list[tuple[str, bytes]] = []
    left_out = 0
    # Directories still to look through, each with its parent's path (one text for all its siblings, since there may be
    # very many) and its name, or None where nothing is told; `new` ones are new at their place, and so is all in them.
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
    """The names below a directory of a kept box that nobody looked into."""
    from husk.vfs.layer.overlay import untouched

    found = untouched(directory)
    if found is None:
        return None
    overlay, top = found
    return [entry.path[len(top.path) :] for entry in overlay.below(top)]


def _everything(tree: LayeredTree, directory: LayerDir) -> Iterator[tuple[str, bytes, Node | None, bool]]:
    for entry in list(tree.entries(_ANYONE, directory, 0)):
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
                "deleted" if (was is not None and was[0] is not WHITEOUT) or lower is not None else "",
                name,
                None,
                False,
            )
        elif was is not None and was[0] is node:
            info = tree.stat(_ANYONE, node)
            differs = info.mode != was[1] or (node.kind != st.S_IFDIR and info.mtime != was[2])
            yield "changed" if differs else "", name, node, False
        elif isinstance(node, LayerDir) and node.lower is not None and _in_place(directory, name, node):
            differs = node.own and lower is not None and (node.mode, node.uid, node.gid) != _owner(node, lower)
            yield "changed" if differs else "", name, node, False
        elif isinstance(node, Inode) and lower is not None and _untouched(directory, name, node, lower):
            continue
        else:
            yield "added" if was is None and lower is None else "changed", name, node, True


def _in_place(directory: LayerDir, name: bytes, node: LayerDir) -> bool:
    return node.lower is directory.lower and node.rel == directory.below(name)


def _owner(node: LayerDir, info: HostStat) -> tuple[int, int, int]:
    assert node.lower is not None
    return info.mode, node.lower.uids.get(info.uid, info.uid), node.lower.gids.get(info.gid, info.gid)


def _untouched(directory: LayerDir, name: bytes, node: Inode, info: HostStat) -> bool:
    """An inode that was made for its link count or change time only still is the lower file."""
    lower = directory.lower
    if lower is None:
        return False
    met = node.kind == st.S_IFIFO and node.key == (info.dev, info.ino)  # opening it gave the box a FIFO of its own
    if not met and (node.source or node.origin) != (lower, directory.below(name)):
        return False
    owner = lower.uids.get(info.uid, info.uid), lower.gids.get(info.gid, info.gid)
    now = node.tree.stat(_ANYONE, node)
    if (now.mode, now.uid, now.gid) != (info.mode, *owner):
        return False
    return met or (now.mtime, now.size) == (info.mtime, info.size)


def _lower_info(directory: LayerDir, name: bytes) -> HostStat | None:
    if directory.lower is None or not directory.shows_lower(name):
        return None
    try:
        return directory.lower.stat(directory.below(name))
    except OSError:
        return None

"""vfs: how a layered tree differs from its starting point, node by node. The one walk behind keeping a box, showing its
changes, writing them back and making a layer of them; `changes` is its short form for a result.

The starting point is what the lower trees show, and what husk itself put in before the guest began (`base`).
"""

from __future__ import annotations

import stat as st

from husk.store.manifests.manifest_writer import names_fit
from husk.store.store_errors import BadManifest
from husk.vfs.layer.inodes import WHITEOUT, Inode, LayerDir, LowerNode
from husk.vfs.layer.overlay import untouched
from husk.vfs.node import ROOT_CONTEXT, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.native._core import HostStat
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.layer.lower import Lower
    from husk.vfs.node import Node, Stat

Twins = dict[tuple[int, int], "Inode | LowerNode"]  # by the lower file's identity
ANYONE = ROOT_CONTEXT  # these trees check no permissions
READ_ONLY = 0


class Was:
    """What a name was at the starting point: a lower file (`lower`, `rel`), or a node that husk made (`node`)."""

    __slots__ = ("lower", "node", "rel", "stat")

    def __init__(self, stat: Stat, lower: Lower | None, rel: bytes, node: Node | None) -> None:
        self.stat, self.lower, self.rel, self.node = stat, lower, rel, node

    @property
    def kind(self) -> int:
        return st.S_IFMT(self.stat.mode)

    def xattrs(self) -> dict[bytes, bytes]:
        return self.lower.xattrs(self.rel) if self.lower is not None else {}

    def target(self) -> bytes:
        if self.lower is not None:
            return self.lower.read_link(self.rel)
        return self.node.target if isinstance(self.node, Inode) else b""

    def open(self) -> int:
        """Its content, to read."""
        if self.lower is not None:
            return self.lower.content(self.rel)
        if self.node is None:
            raise error(2)
        return self.node.tree.open(ANYONE, self.node, READ_ONLY)


class Change:
    """One name that differs. `node` is what is there now (None: nothing), `was` what was there (None: nothing).

    `in_place`: a directory that still is the same one; only its metadata (`differs`) or names in it changed. Without
    `differs` it is listed only because of what is in it. `above` is the change of the directory it lies in.

    Paths are built when they are asked for, and only directories keep theirs (`size` is the length): a guest can make
    half a million names, each at the end of a path of 4 KiB.
    """

    __slots__ = ("_path", "_told", "above", "differs", "in_place", "name", "node", "size", "was")

    def __init__(self, above: Change | None, name: bytes, node: Node | None, was: Was | None) -> None:
        self.above, self.name, self.node, self.was = above, name, node, was
        self.size: int = above.size + 1 + len(name) if above is not None and above.size else len(name)
        self._path: bytes | None = None
        self.in_place = False
        self.differs = True
        self._told = False

    def tell(self) -> None:
        """This one, and so the directories above it, are part of the delta."""
        here: Change | None = self
        while here is not None and not here._told:
            here._told = True
            here = here.above

    @property
    def path(self) -> bytes:
        lacking: list[Change] = []  # no recursion: they can be deeper than Python's stack
        here: Change | None = self
        while here is not None and here._path is None:
            lacking.append(here)
            here = here.above
        path = here._path if here is not None and here._path else b""
        while lacking:
            here = lacking.pop()
            path = below(path, here.name)
            if isinstance(here.node, LayerDir):
                here._path = path
        return path

    @property
    def told(self) -> bool:
        return self._told


def delta(tree: LayeredTree, *, through: bool, exact: bool = False, linked: bool = False) -> list[Change]:
    """All changes, a directory before what is in it, the root first; paths are relative, without a slash at either end.

    `through`: everything in a renamed lower directory is listed. Else only where it came from and what differs in it,
    and a directory that was not looked into (`untouched`) stands for all in it. `exact`: also files that differ only in
    link count or change time. `linked`: with one name of a file, all its names.
    """
    twins: Twins = _twins(tree) if through else {}
    found = _walk(tree, twins, through=through, exact=exact)
    if linked:
        lacking = _tell_linked(found)
        if lacking.keys() - twins.keys():
            # Only a walk of the whole tree finds their other names.
            twins |= lacking
            found = _walk(tree, twins, through=through, exact=exact)
        _tell_linked(found)
    told = [change for change in found if change.told]
    if not names_fit(text := sum(change.size for change in told), len(told)):
        raise BadManifest(f"the paths of all that changed take {text >> 20} MiB; remove the deepest directories first.")
    return told


def _walk(tree: LayeredTree, twins: Twins, *, through: bool, exact: bool) -> list[Change]:
    """All names that may differ; those that do are marked as told."""
    root = Change(None, b"", tree.root, _root_was(tree))
    root.in_place, root.differs = True, _dir_differs(tree, tree.root, root.was)
    found = [root]
    if root.differs:
        root.tell()
    waiting: list[tuple[Change, bool]] = [(root, False)]  # no recursion, as above
    while waiting:
        above, new = waiting.pop()
        assert isinstance(above.node, LayerDir)
        listed = _everything(tree, above) if new else _differing(tree, above, exact)
        for change in sorted([*listed, *_twins_in(tree, above, twins)], key=lambda change: change.name):
            found.append(change)
            if change.differs:
                change.tell()
            if isinstance(change.node, LayerDir):
                if not through and untouched(change.node) is not None:
                    change.tell()
                else:
                    waiting.append((change, through and not change.in_place))
    return found


def _tell_linked(found: list[Change]) -> Twins:
    """Tell the unchanged names of told files, too. Returns the lower files that have further names."""
    count: dict[int, int] = {}
    linked = [change for change in found if isinstance(change.node, Inode | LowerNode) and _link_count(change.node) > 1]
    told = {_number(change.node) for change in linked if change.told}
    lower: Twins = {}
    for change in linked:
        node = change.node
        number = _number(node)
        if number in told and isinstance(node, Inode | LowerNode):
            change.tell()
            count[number] = count.get(number, 0) + 1
            if node.key is not None:
                lower[node.key] = node
    return {key: node for key, node in lower.items() if count[_number(node)] < _link_count(node)}


def _number(node: Node | None) -> int:
    assert isinstance(node, Inode | LowerNode)
    return node.ino if isinstance(node, Inode) else node.tree.stat(ANYONE, node).ino


def _link_count(node: Node) -> int:
    return node.nlink if isinstance(node, Inode) else node.tree.stat(ANYONE, node).nlink


def below(path: bytes, name: bytes) -> bytes:
    return path + b"/" + name if path else name


def _everything(tree: LayeredTree, above: Change) -> Iterator[Change]:
    directory = above.node
    assert isinstance(directory, LayerDir)
    for entry in tree.snapshot(directory):
        yield Change(above, entry.name, tree.lookup(None, directory, entry.name), None)


def _differing(tree: LayeredTree, above: Change, exact: bool) -> Iterator[Change]:
    directory = above.node
    assert isinstance(directory, LayerDir)
    names, base = directory.names, directory.base or {}
    for name in base.keys() - names.keys():
        yield Change(above, name, None, was_of(tree, directory, name))
    for name, node in list(names.items()):
        was = was_of(tree, directory, name)
        if node is WHITEOUT:
            if was is not None:
                yield Change(above, name, None, was)
            continue
        change = Change(above, name, node, was)
        if isinstance(node, LayerDir):
            change.in_place = was is not None and _is_in_place(directory, name, node, was)
            change.differs = not change.in_place or _dir_differs(tree, node, was)
            # In another place it must be written down that not all of it shows.
            change.differs |= node.only is not None and not above.in_place
        elif isinstance(node, Inode) and was is not None and _is_same(tree, directory, name, node, was):
            change.differs = exact and _moved_on(tree, node, was)
        yield change


def was_of(tree: LayeredTree, directory: LayerDir, name: bytes) -> Was | None:
    base = (directory.base or {}).get(name)
    if base is not None:
        if base.stat is None:
            return None  # hidden from the start
        if isinstance(base.node, LayerDir) and base.node.lower is not None:
            return Was(base.stat, base.node.lower, base.node.rel, base.node)
        return Was(base.stat, None, b"", base.node)
    lower = directory.lower
    if lower is None or not directory.shows_lower(name):
        return None
    rel = directory.below(name)
    try:
        return Was(tree.lower_stat(lower.stat(rel), lower), lower, rel, None)
    except OSError:
        return None


def _root_was(tree: LayeredTree) -> Was | None:
    root = tree.root
    if root.lower is not None:
        return Was(tree.lower_stat(root.lower.stat(root.rel), root.lower), root.lower, root.rel, None)
    return Was(tree.sealed_root, None, b"", root) if tree.sealed_root is not None else None


def _is_in_place(directory: LayerDir, name: bytes, node: LayerDir, was: Was) -> bool:
    base = (directory.base or {}).get(name)
    if base is not None:
        return base.node is node
    return node.lower is not None and node.lower is directory.lower and node.rel == directory.below(name)


def _dir_differs(tree: LayeredTree, node: LayerDir, was: Was | None) -> bool:
    if was is None or not node.copied_up:
        return was is None
    now, old = tree.stat(ANYONE, node), was.stat
    if (now.mode, now.uid, now.gid, now.mtime) != (old.mode, old.uid, old.gid, old.mtime):
        return True
    return (node.xattrs or {}) != was.xattrs()


def _is_same(tree: LayeredTree, directory: LayerDir, name: bytes, node: Inode, was: Was) -> bool:
    """Does an inode made only for its link count or change time still show what was there?"""
    base = (directory.base or {}).get(name)
    if base is not None:
        if base.node is not node:
            return False
    else:
        met = node.kind == st.S_IFIFO and was.kind == st.S_IFIFO  # opening it gave the box a FIFO of its own
        linked = node.kind == st.S_IFLNK and was.kind == st.S_IFLNK and node.key is not None
        if not met and not linked and (node.source or node.origin) != (was.lower, was.rel):
            return False
    now, old = tree.stat(ANYONE, node), was.stat
    if (now.mode, now.uid, now.gid) != (old.mode, old.uid, old.gid) or (node.xattrs or {}) != was.xattrs():
        return False
    if node.kind == st.S_IFLNK:
        return node.target == was.target() and now.mtime == old.mtime
    return node.kind == st.S_IFIFO or (now.mtime, now.size) == (old.mtime, old.size)


def _moved_on(tree: LayeredTree, node: Inode, was: Was) -> bool:
    return was.lower is not None and (node.nlink, node.ctime) != (was.stat.nlink, was.stat.ctime)


# -- other names of lower files that were changed ------------------------------------------------------------------
def _twins(tree: LayeredTree) -> Twins:
    """Inodes that replaced a hard-linked lower file, by its identity: names of it that were not looked up since are in
    no table, and show the change all the same."""
    copy_up = tree.copy_up
    if not copy_up.hard_links_changed:
        return {}
    return {key: copy_up.inodes[key] for key in copy_up.twins if copy_up.inodes[key].nlink > 1}


def _twins_in(tree: LayeredTree, above: Change, twins: Twins) -> Iterator[Change]:
    directory = above.node
    if not twins or not above.in_place or not isinstance(directory, LayerDir) or directory.lower is None:
        return
    for name, identity, kind in directory.lower.names(directory.rel):
        if name in directory.names or not directory.shows_lower(name):
            continue
        if kind == st.S_IFDIR:
            # Only to look further: one without a twin in it is not told.
            inner = Change(above, name, tree.lookup(None, directory, name), None)
            inner.was, inner.in_place, inner.differs = was_of(tree, directory, name), True, False
            yield inner
        elif identity in twins:
            twin = twins[identity]
            was = was_of(tree, directory, name)
            if was is None:
                continue
            inode = twin if isinstance(twin, Inode) else tree.lookup(None, directory, name)
            change = Change(above, name, inode, was)
            change.differs = isinstance(inode, Inode) and not _is_same(tree, directory, name, inode, was)
            yield change


def stat_of(change: Change) -> Stat:
    node = change.node
    assert node is not None
    return node.tree.stat(ANYONE, node)


def xattrs_of(node: Node) -> dict[bytes, bytes]:
    tree = node.tree
    return {name: tree.get_xattr(ANYONE, node, name) for name in tree.list_xattr(ANYONE, node)}


def target_of(node: Node) -> bytes:
    if isinstance(node, Inode):
        return node.target
    assert isinstance(node, LowerNode)
    return node.lower.read_link(node.rel)


# Is a host file the one that was recorded?
def is_same_inode(one: HostStat, other: HostStat) -> bool:
    return (one.dev, one.ino, st.S_IFMT(one.mode)) == (other.dev, other.ino, st.S_IFMT(other.mode))


def is_same_content(one: HostStat, other: HostStat) -> bool:
    """The same inode, which was not written to since. Its metadata may have changed."""
    return is_same_inode(one, other) and (one.size, one.mtime) == (other.size, other.mtime)


def is_unchanged(one: HostStat, other: HostStat) -> bool:
    return is_same_content(one, other) and one.ctime == other.ctime

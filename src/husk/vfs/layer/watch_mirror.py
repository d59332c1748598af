"""vfs: directories of a layered tree that are real on the host, because somebody watches them.

The host tells a watcher what happens to host files under host names. So a watched directory has a counterpart, a host
directory with an entry for each of its names, and husk repeats every change of a name there: `mkdir` by a mkdir,
`rename` by a rename, and the host kernel makes the events. See docs/design/005-inotify.md. Nothing here is loaded
before the first watch.

Life of an entry: `names` knows it. A file with content of its own *is* the entry, and its `files/<n>` is gone. What has
no real file of its own (lower files, symbolic links) is stood for by an empty file that has a second name, `files/<k>`
(`kept`): a name nobody watches, through which content can come in unnoticed. Once entered, a node stays entered
wherever it is renamed to, and its counterpart lasts until the box ends: nobody tells us when a watch ends.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import stat_beneath
from husk.vfs.layer.copy_up import NOBODY, CopyUp
from husk.vfs.layer.inodes import WHITEOUT, Inode, LayerDir, LowerNode
from husk.vfs.node import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.node import Node

    Named = tuple[LayerDir, bytes, Node]

MOST_KEPT = 1 << 17  # files that stand for others, over a whole tree; each is an inode of the host's
LONGEST_PLACE = 2048  # of a counterpart's path: the host must still be able to tell it
LARGEST_COPY = 64 << 20
EXCHANGE = 2


class Real:
    """The counterpart of `directory`. `top` is where it lies if it is no entry in its parent's.

    `full`: all names are entered, for it is watched itself; else only those of nodes that are watched. `reads`: a
    watcher wants to know of reading, too.
    """

    __slots__ = ("directory", "full", "names", "reads", "top", "tree")

    def __init__(self, tree: CopyUp, directory: LayerDir, top: bytes) -> None:
        self.tree, self.directory, self.top = tree, directory, top
        self.names: set[bytes] = set()
        self.full = self.reads = False

    def entry(self, name: bytes) -> bytes:
        """Host path of a name, beneath the state's descriptor."""
        return self.tree.state.real_path(self.directory) + b"/" + name

    def node(self, name: bytes) -> Node | None:
        node = self.directory.names.get(name)
        return None if node is WHITEOUT else node

    def show(self, name: bytes, node: Node) -> None:
        """Enter `name`, which a watcher sees as new."""
        self.clear(name)
        tree, at, path = self.tree, self.tree.state.fd, self.entry(name)
        if isinstance(node, LayerDir):
            os.mkdir(path, 0o755, dir_fd=at)
        elif isinstance(node, Inode) and _has_file(node):
            home = tree.home(node)
            os.link(home, path, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
            if home.startswith(b"files/"):
                os.unlink(home, dir_fd=at)
        else:
            os.link(_likeness(tree, node), path, src_dir_fd=at, dst_dir_fd=at)
        self.names.add(name)

    def clear(self, name: bytes) -> None:
        """The tree has no such name. An entry all the same is one of the host's files that the host has removed."""
        self.names.discard(name)
        path, at = self.entry(name), self.tree.state.fd
        try:
            os.unlink(path, dir_fd=at)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            from shutil import rmtree

            rmtree(path, dir_fd=at)

    def take_in(self, name: bytes, node: Node) -> None:
        """Enter a name that is there already, before anybody watches. What is open moves along."""
        at = self.tree.state.fd
        if isinstance(node, LayerDir) and node.real is not None:
            os.rename(node.real.top, self.entry(name), src_dir_fd=at, dst_dir_fd=at)
        elif isinstance(node, Inode) and _has_file(node) and (home := self.tree.home(node)).startswith(b"files/"):
            os.rename(home, self.entry(name), src_dir_fd=at, dst_dir_fd=at)
        else:
            self.show(name, node)
        self.names.add(name)

    def fill(self, tree: LayeredTree) -> None:
        """Enter all names: the directory itself is going to be watched."""
        listing = tree.snapshot(self.directory)
        if len(tree.kept) + len(listing) > MOST_KEPT or len(self.entry(b"")) > LONGEST_PLACE:
            raise error(errno.ENOSPC)
        at = tree.state.fd
        for entry in listing:
            if entry.name in self.names:
                continue
            node = self.directory.names.get(entry.name)
            if node is not None:
                self.take_in(entry.name, node)
                continue
            path = self.entry(entry.name)
            if entry.kind == st.S_IFDIR:
                os.mkdir(path, 0o755, dir_fd=at)
            else:
                os.link(stand_in(tree, entry.ino, entry.kind), path, src_dir_fd=at, dst_dir_fd=at)
            self.names.add(entry.name)
        self.full = True

    def remove(self, name: bytes, node: Node) -> None:
        """`name` is about to go, from its directory and for good."""
        if name not in self.names:
            return
        path, at = self.entry(name), self.tree.state.fd
        self.let_go(name, node)
        if isinstance(node, LayerDir):
            os.rmdir(path, dir_fd=at)
        else:
            os.unlink(path, dir_fd=at)
            drop_stand_in(self.tree, node)
        self.names.discard(name)

    def let_go(self, name: bytes, node: Node) -> None:
        """The host entry of `name` is about to be removed, or replaced: what of `node` must outlive it?"""
        state, path = self.tree.state, self.entry(name)
        # Who opened it by this name has a descriptor that no name leads back from.
        if isinstance(node, LayerDir):
            state.remember_unnamed(stat_beneath(state.fd, path).ino, node)
            state.real_gone(path, node)
            if node.real is not None:
                for stale in list(node.real.names):
                    node.real.clear(stale)  # it is empty: only the host's own files can have left entries behind
        elif isinstance(node, Inode) and _has_file(node):
            state.remember_unnamed(stat_beneath(state.fd, path).ino, node)
            if node.nlink > 1 and sum(1 for directory, name in node.all_names() if _entered(directory, name)) <= 1:
                os.link(path, b"files/%d" % node.number, src_dir_fd=state.fd, dst_dir_fd=state.fd)


def real_of(tree: CopyUp, directory: LayerDir) -> Real:
    """The directory as a real one, with no names entered if it was not."""
    if directory.real is None:
        tree.on_change(directory, True)  # nothing taught about it holds any more
        tree.watched = True
        top = b"" if tree.state.real_path(directory) else tree.state.new_real(directory)
        directory.real = Real(tree, directory, top)
    return directory.real


def hold(tree: CopyUp, directory: LayerDir, name: bytes, node: Node) -> None:
    """Give `node` an entry, so that the host can tell when it is renamed or removed."""
    real = real_of(tree, directory)
    if name not in real.names:
        if len(real.entry(name)) > LONGEST_PLACE:
            raise error(errno.ENOSPC)
        real.take_in(name, node)


def link(tree: CopyUp, directory: LayerDir, name: bytes, inode: Inode) -> None:
    """Repeat a link on the host. Who has an entry under one name has one under each."""
    if any(_entered(*place) for place in inode.all_names()):
        real_of(tree, directory).show(name, inode)
    elif directory.real is not None and directory.real.full:
        directory.real.show(name, inode)


def rename(tree: CopyUp, source: Named, target: tuple[LayerDir, bytes, Node | None], *, exchange: bool) -> None:
    """Repeat a rename on the host, just before it takes place in the tree."""
    (old, old_name, moving), (new, new_name, other) = source, target
    at = tree.state.fd
    had, there = _entered(old, old_name), _entered(new, new_name)
    if not (
        had
        or there
        or (new.real is not None and new.real.full)
        or (exchange and old.real is not None and old.real.full)
    ):
        return
    if exchange:
        assert other is not None
        hold(tree, old, old_name, moving)
        hold(tree, new, new_name, other)
        from husk.vfs.host.host_tree_write import rename_with_flags

        rename_with_flags(at, old.real.entry(old_name), at, new.real.entry(new_name), EXCHANGE)  # type: ignore[union-attr]
        return
    goal = real_of(tree, new)
    path = old.real.entry(old_name) if had and old.real is not None else _away(tree, moving)
    if other is None:
        goal.clear(new_name)
    elif there:
        goal.let_go(new_name, other)
    os.rename(path, goal.entry(new_name), src_dir_fd=at, dst_dir_fd=at)
    if there and other is not None:
        drop_stand_in(tree, other)
    if had and old.real is not None:
        old.real.names.discard(old_name)
    goal.names.add(new_name)


def _away(tree: CopyUp, node: Node) -> bytes:
    """Host path of a node that lies in no real directory; for a rename into one."""
    if isinstance(node, LayerDir):
        return node.real.top if node.real is not None else tree.state.new_real(node)
    if isinstance(node, Inode) and _has_file(node) and (home := tree.home(node)).startswith(b"files/"):
        return home
    # The name that moves is one of several, or it has a stand-in, which must keep its other name.
    path = b"files/%d" % tree.state.new_number()
    whence = tree.home(node) if isinstance(node, Inode) and _has_file(node) else _likeness(tree, node)
    os.link(whence, path, src_dir_fd=tree.state.fd, dst_dir_fd=tree.state.fd, follow_symlinks=False)
    return path


def stand_in(tree: CopyUp, ino: int, kind: int = st.S_IFREG) -> bytes:
    """An empty file, or a FIFO, for what has none of its own; all names of one inode share it."""
    number = tree.kept.get(ino)
    if number is None:
        if len(tree.kept) >= MOST_KEPT:
            raise error(errno.ENOSPC)
        tree.state.room_for(1)
        number = tree.state.new_number()
        os.mknod(b"files/%d" % number, (st.S_IFIFO if kind == st.S_IFIFO else st.S_IFREG) | 0o600, dir_fd=tree.state.fd)
        tree.state.count(1)
        tree.kept[ino] = number
    return b"files/%d" % number


def _likeness(tree: CopyUp, node: Node) -> bytes:
    """A host path of what stands for a node without a file: by its second name, or else by an entry."""
    ino = number_shown(tree, node)
    if ino not in tree.kept and isinstance(node, Inode):
        for directory, name in node.all_names():
            if directory.real is not None and name in directory.real.names:
                return directory.real.entry(name)
    return stand_in(tree, ino, node.kind)


def drop_second_name(tree: CopyUp, node: Inode) -> None:
    """Of what is watched itself and can get no content: whoever watches would see that name go."""
    number = tree.kept.pop(node.ino, 0)
    if number:
        tree.state.count(-1)
        os.unlink(b"files/%d" % number, dir_fd=tree.state.fd)


def drop_stand_in(tree: CopyUp, node: Node) -> None:
    """The last name of `node` is gone. Only now: whatever failed before, its entries still have their second name."""
    if isinstance(node, LowerNode) or (isinstance(node, Inode) and not _has_file(node) and node.nlink <= 1):
        number = tree.kept.pop(number_shown(tree, node), 0)
        if number:
            tree.state.count(-1)
            os.unlink(b"files/%d" % number, dir_fd=tree.state.fd)


def number_shown(tree: CopyUp, node: Node) -> int:
    if isinstance(node, LowerNode):
        return tree.number_of(*node.key)
    assert isinstance(node, Inode)
    return node.ino


def wants_a_copy(tree: LayeredTree, node: LowerNode | Inode) -> bool:
    """Is this a lower file that somebody watches being read?"""
    if node.kind != st.S_IFREG or (isinstance(node, Inode) and node.source is None):
        return False
    names = [(node.parent, node.name)] if isinstance(node, LowerNode) else node.all_names()
    if not any(directory.real is not None and directory.real.reads for directory, _ in names):
        return False
    return tree.stat(NOBODY, node).size <= LARGEST_COPY


def _has_file(node: Inode) -> bool:
    return bool(node.number) and node.kind != st.S_IFLNK


def _entered(directory: LayerDir, name: bytes) -> bool:
    return directory.real is not None and name in directory.real.names

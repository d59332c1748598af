"""vfs: mirrors of watched directories — host directories that repeat what happens in a layered tree.

The host tells a watcher what happens to host files under host names. So a watched directory has a mirror, a host
directory with an entry for each of its names, and husk repeats every change of a name there: `mkdir` by a mkdir,
`rename` by a rename, and the host kernel makes the events. See docs/design/005-inotify.md. This module is not loaded
before the first watch.

Life of an entry: `names` knows it. A file with content of its own *is* the entry, and its `files/<n>` is gone. What has
no real file of its own (lower files, symbolic links) has a stand-in: an empty file with a second name, `files/<k>`,
that is not watched, through which content can come in unnoticed. Once entered, a node stays entered wherever it is
renamed to, and its mirror lasts until the box ends: the host does not tell husk when a watch ends.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import open_beneath, stat_beneath
from husk.vfs.layer.inodes import WHITEOUT, Inode, LayerDir, LowerNode
from husk.vfs.node import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.layer.copy_up import CopyUp
    from husk.vfs.layer.host_changes import HostChanges
    from husk.vfs.layer.inode_numbers import InodeNumbers
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.layer.upper_files import UpperFiles
    from husk.vfs.node import Node

    Named = tuple[LayerDir, bytes, Node]

STAND_INS_MAX = 1 << 17  # over a whole tree; each is an inode of the host's
PATH_MAX = 2048  # of a mirror's path: the host must still be able to tell it
COPY_MAX = 64 << 20
LINKS_MAX = 256  # names of one file that get an entry because another name of it has one
EXCHANGE = 2
READS = 0x01 | 0x10 | 0x20  # IN_ACCESS, IN_CLOSE_NOWRITE, IN_OPEN


class MirrorDir:
    """The mirror of `directory`. `top` is where it lies if it is no entry of its parent's mirror.

    `complete`: all names are entered, because the directory itself is watched; else only names of watched nodes are.
    `reads`: a watcher wants to know of reading, too.
    """

    __slots__ = ("complete", "directory", "mirror", "names", "numbers", "reads", "top")

    def __init__(self, mirror: WatchMirror, directory: LayerDir, top: bytes) -> None:
        self.mirror, self.directory, self.top = mirror, directory, top
        self.names: set[bytes] = set()
        self.numbers: dict[bytes, int] = {}  # of names that have a stand-in: whose it is
        self.complete = self.reads = False

    def entry(self, name: bytes) -> bytes:
        """Host path of a name, beneath the state's descriptor."""
        return self.mirror.state.mirror_path(self.directory) + b"/" + name

    def node(self, name: bytes) -> Node | None:
        node = self.directory.names.get(name)
        return None if node is WHITEOUT else node

    def show(self, name: bytes, node: Node) -> None:
        """Enter `name`, which a watcher sees as new."""
        self.clear(name)
        mirror, at, path = self.mirror, self.mirror.state.fd, self.entry(name)
        if isinstance(node, LayerDir):
            os.mkdir(path, 0o755, dir_fd=at)
        elif isinstance(node, Inode) and _has_file(node):
            real = mirror.files.path(node)
            os.link(real, path, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
            if real.startswith(b"files/"):
                os.unlink(real, dir_fd=at)
        else:
            os.link(mirror.stand_in_path(node), path, src_dir_fd=at, dst_dir_fd=at)
            self.numbers[name] = mirror.shown_number(node)
        self.names.add(name)

    def clear(self, name: bytes) -> None:
        """The tree has no such name. If there is an entry all the same, it mirrors a host file that the host has
        removed."""
        self.names.discard(name)
        path, at = self.entry(name), self.mirror.state.fd
        try:
            os.unlink(path, dir_fd=at)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            from shutil import rmtree

            rmtree(path, dir_fd=at)

    def take_in(self, name: bytes, node: Node) -> None:
        """Enter a name that exists already, before it is watched. Open files move along."""
        at = self.mirror.state.fd
        if isinstance(node, LayerDir) and node.mirror is not None:
            os.rename(node.mirror.top, self.entry(name), src_dir_fd=at, dst_dir_fd=at)
        elif isinstance(node, LayerDir) and node.placeholder is not None:
            self.mirror.state.move_placeholder(node, self.entry(name))
        elif isinstance(node, Inode) and (real := self.mirror.numbered_file(node)):
            os.rename(real, self.entry(name), src_dir_fd=at, dst_dir_fd=at)
        else:
            self.show(name, node)
        self.names.add(name)
        if isinstance(node, Inode) and _has_file(node):
            self.mirror.enter_others(node)

    def complete_names(self, tree: LayeredTree) -> None:
        """Enter all names: the directory itself is going to be watched."""
        listing = tree.snapshot(self.directory)
        mirror = self.mirror
        if len(mirror.files.stand_ins) + len(listing) > STAND_INS_MAX or len(self.entry(b"")) > PATH_MAX:
            raise error(errno.ENOSPC)
        at = mirror.state.fd
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
                os.link(mirror.stand_in(entry.ino, entry.kind), path, src_dir_fd=at, dst_dir_fd=at)
                self.numbers[entry.name] = entry.ino
            self.names.add(entry.name)
        self.complete = True

    def remove(self, name: bytes, node: Node) -> None:
        """`name` is about to go, from its directory and for good."""
        if name not in self.names:
            return
        path, at = self.entry(name), self.mirror.state.fd
        self.let_go(name, node)
        if isinstance(node, LayerDir):
            os.rmdir(path, dir_fd=at)
        else:
            os.unlink(path, dir_fd=at)
            self.mirror.drop_stand_in(node)
        self.names.discard(name)

    def let_go(self, name: bytes, node: Node) -> None:
        """The host entry of `name` is about to be removed or replaced: keep what of `node` must outlive it."""
        state, path = self.mirror.state, self.entry(name)
        # A descriptor opened by this name has no name that leads back from it.
        if isinstance(node, LayerDir):
            state.remember_unnamed(stat_beneath(state.fd, path).ino, node)
            state.mirror_removed(path, node)
            if node.mirror is not None:
                for stale in list(node.mirror.names):
                    node.mirror.clear(stale)  # it is empty: only the host's own files can have left entries behind
        elif isinstance(node, Inode) and _has_file(node):
            state.remember_unnamed(stat_beneath(state.fd, path).ino, node)
            if node.nlink > 1 and sum(1 for directory, name in node.all_names() if _entered(directory, name)) <= 1:
                os.link(path, b"files/%d" % node.number, src_dir_fd=state.fd, dst_dir_fd=state.fd)


class WatchMirror:
    """All mirrors of one tree, and the stand-ins in them."""

    __slots__ = ("_announce", "_copy_up", "_host", "_is_first", "_numbers", "_tree", "files", "state")

    def __init__(self, tree: LayeredTree, files: UpperFiles, numbers: InodeNumbers, copy_up: CopyUp) -> None:
        self._tree, self.files, self._numbers, self._copy_up, self.state = tree, files, numbers, copy_up, files.state
        self._announce = files.state.invalidation.announce
        self._host: HostChanges | None = None
        self._is_first = False
        self.state.need_files()  # by path, too

    def end(self) -> None:
        """No guest watches any more. Safe to call twice."""
        host, self._host = self._host, None
        if host is not None:
            host.end()

    # -- watching ----------------------------------------------------------------------------------------------
    def watch(self, node: Node, mask: int) -> int:
        """An O_PATH descriptor of what is to be watched."""
        self._is_first = self._host is None
        try:
            return self._directory(node, mask) if isinstance(node, LayerDir) else self._file(node)
        except OSError:
            self.give_up()
            raise

    def give_up(self) -> None:
        """The last watch came to nothing. If it was the first, the host needs not be followed."""
        if self._is_first:
            self.end()

    def _directory(self, directory: LayerDir, mask: int) -> int:
        """The mirror, in which all names are entered."""
        if isinstance(directory.parent, LayerDir):
            self._enter(directory.parent, directory.name, directory)
        mirror = self._of(directory)
        self._follow_host(directory)
        if not mirror.complete:
            mirror.complete_names(self._tree)
        mirror.reads |= bool(mask & READS)
        return open_beneath(self.state.fd, self.state.mirror_path(directory), os.O_PATH | os.O_DIRECTORY)

    def _file(self, node: Node) -> int:
        """Its entry. A lower file is copied up: two files cannot take turns behind a watch."""
        inode = self._copy_up.inode(node)
        if inode.nlink == 0 and inode.via:
            with self.files.pinned(inode) as path:
                return os.open(path, os.O_PATH | os.O_CLOEXEC)
        if inode.source is not None:
            self._copy_up.content_for_watchers(inode)
        names = inode.all_names()
        if not names:
            raise error(errno.ENOENT)
        directory, name = next((each for each in names if _entered(*each)), names[0])
        self._enter(directory, name, inode)
        if inode.kind == st.S_IFLNK:
            self._drop_second_name(inode.ino)  # it gets no content, and its watcher would see that name go
        assert directory.mirror is not None
        return open_beneath(self.state.fd, directory.mirror.entry(name), os.O_PATH | os.O_NOFOLLOW)

    def wants_copy(self, node: LowerNode | Inode) -> bool:
        """Is this a lower file in a directory whose reads are watched?"""
        if node.kind != st.S_IFREG or (isinstance(node, Inode) and node.source is None):
            return False
        names = [(node.parent, node.name)] if isinstance(node, LowerNode) else node.all_names()
        if not any(directory.mirror is not None and directory.mirror.reads for directory, _ in names):
            return False
        return self._tree.stat(None, node).size <= COPY_MAX

    def _of(self, directory: LayerDir) -> MirrorDir:
        """The directory's mirror, made without entries if it has none."""
        if directory.mirror is None:
            self._announce(directory, True)  # nothing taught about it holds any more
            self.files.mirrored = True
            top = b"" if self.state.mirror_path(directory) else self.state.new_mirror(directory)
            directory.mirror = MirrorDir(self, directory, top)
        return directory.mirror

    def _follow_host(self, directory: LayerDir) -> None:
        """Below a `cow` mount the host's programs change files, too. Before the names are entered: none is missed."""
        lower = directory.lower
        if lower is None or not lower.is_host or lower is not self._tree.root.lower:
            return
        try:
            if self._host is None:
                from husk.vfs.layer.host_changes import HostChanges

                self._host = HostChanges(self._tree, self, self._copy_up)
            self._host.follow(directory)
        except OSError:
            pass  # the host gives no more queues or watches; what guests do is reported all the same

    def _enter(self, directory: LayerDir, name: bytes, node: Node) -> None:
        """Give `node` an entry, so that the host can tell when it is renamed or removed."""
        mirror = self._of(directory)
        self._follow_host(directory)
        if name not in mirror.names:
            if len(mirror.entry(name)) > PATH_MAX:
                raise error(errno.ENOSPC)
            mirror.take_in(name, node)

    def enter_others(self, inode: Inode) -> None:
        """A node that has an entry under one name has one under each: opened by a name that is not watched, it must
        not be reported under the one that is."""
        for directory, name in inode.all_names()[:LINKS_MAX]:
            if not _entered(directory, name) and len(self._of(directory).entry(name)) <= PATH_MAX:
                self._of(directory).show(name, inode)

    # -- repeating changes -------------------------------------------------------------------------------------
    def link(self, directory: LayerDir, name: bytes, inode: Inode) -> None:
        """A node that has an entry under one name has one under each."""
        if any(_entered(*each) for each in inode.all_names()):
            self._of(directory).show(name, inode)
        elif directory.mirror is not None and directory.mirror.complete:
            directory.mirror.show(name, inode)

    def exchange(self, source: Named, target: Named) -> None:
        """Repeat RENAME_EXCHANGE on the host, just before it takes place in the tree."""
        (old, old_name, moving), (new, new_name, other) = source, target
        if not (_entered(old, old_name) or _entered(new, new_name) or _is_complete(old) or _is_complete(new)):
            return
        self._enter(old, old_name, moving)
        self._enter(new, new_name, other)
        from husk.vfs.host.host_tree_write import rename_with_flags

        at = self.state.fd
        rename_with_flags(at, self._of(old).entry(old_name), at, self._of(new).entry(new_name), EXCHANGE)

    def rename(self, source: Named, target: tuple[LayerDir, bytes, Node | None]) -> None:
        """Repeat a rename on the host, just before it takes place in the tree."""
        (old, old_name, moving), (new, new_name, replaced) = source, target
        at = self.state.fd
        had, there = _entered(old, old_name), _entered(new, new_name)
        if not (had or there or _is_complete(new)):
            return
        goal = self._of(new)
        path = old.mirror.entry(old_name) if had and old.mirror is not None else self._path_outside(moving)
        if replaced is None:
            goal.clear(new_name)
        elif there:
            goal.let_go(new_name, replaced)
        os.rename(path, goal.entry(new_name), src_dir_fd=at, dst_dir_fd=at)
        if there and replaced is not None:
            self.drop_stand_in(replaced)
        if had and old.mirror is not None:
            old.mirror.names.discard(old_name)
        goal.names.add(new_name)

    def _path_outside(self, node: Node) -> bytes:
        """Host path of a node that has no entry in a mirror; for a rename into one."""
        if isinstance(node, LayerDir):
            return node.mirror.top if node.mirror is not None else self.state.new_mirror(node)
        if isinstance(node, Inode) and (real := self.numbered_file(node)):
            return real
        # The name that moves is one of several, or it has a stand-in, which must keep its other name.
        path = b"files/%d" % self.state.new_number()
        is_file = isinstance(node, Inode) and _has_file(node)
        source = self.files.path(node) if isinstance(node, Inode) and is_file else self.stand_in_path(node)
        os.link(source, path, src_dir_fd=self.state.fd, dst_dir_fd=self.state.fd, follow_symlinks=False)
        return path

    def numbered_file(self, inode: Inode) -> bytes:
        """The real file of an inode, if it lies under its number; else empty."""
        if not _has_file(inode):
            return b""
        path = self.files.path(inode)
        return path if path.startswith(b"files/") else b""

    # -- stand-ins ---------------------------------------------------------------------------------------------
    def stand_in(self, ino: int, kind: int = st.S_IFREG) -> bytes:
        """An empty file, or a FIFO, for a node without a real file; all names of one inode share it."""
        stand_ins, state = self.files.stand_ins, self.state
        number = stand_ins.get(ino)
        if number is None:
            if len(stand_ins) >= STAND_INS_MAX:
                raise error(errno.ENOSPC)
            state.room_for(1)
            number = state.new_number()
            mode = (st.S_IFIFO if kind == st.S_IFIFO else st.S_IFREG) | 0o600
            os.mknod(b"files/%d" % number, mode, dir_fd=state.fd)
            state.count(1)
            stand_ins[ino] = number
        return b"files/%d" % number

    def stand_in_path(self, node: Node) -> bytes:
        """A host path of the stand-in of a node: its second name, or else an entry of it."""
        ino = self.shown_number(node)
        if ino not in self.files.stand_ins and isinstance(node, Inode):
            for directory, name in node.all_names():
                if directory.mirror is not None and name in directory.mirror.names:
                    return directory.mirror.entry(name)
        return self.stand_in(ino, node.kind)

    def drop_stand_in(self, node: Node) -> None:
        """The last name of `node` is gone. Called last: if a step before failed, its entries still have their second
        name."""
        if isinstance(node, LowerNode) or (isinstance(node, Inode) and not _has_file(node) and node.nlink <= 1):
            self._drop_second_name(self.shown_number(node))

    def drop_unused(self, ino: int) -> None:
        """An entry with the stand-in of `ino` is gone. It was the last one, if only the second name is left."""
        number = self.files.stand_ins.get(ino)
        if number is not None and stat_beneath(self.state.files_fd, b"%d" % number).nlink == 1:
            self._drop_second_name(ino)

    def _drop_second_name(self, ino: int) -> None:
        number = self.files.stand_ins.pop(ino, 0)
        if number:
            self.state.count(-1)
            os.unlink(b"files/%d" % number, dir_fd=self.state.fd)

    def shown_number(self, node: Node) -> int:
        if isinstance(node, LowerNode):
            return self._numbers.shown(*node.key)
        assert isinstance(node, Inode)
        return node.ino


def _has_file(inode: Inode) -> bool:
    return bool(inode.number) and inode.kind != st.S_IFLNK


def _entered(directory: LayerDir, name: bytes) -> bool:
    return directory.mirror is not None and name in directory.mirror.names


def _is_complete(directory: LayerDir) -> bool:
    return directory.mirror is not None and directory.mirror.complete

"""vfs: from a descriptor back to its file — the way from `/proc/PID/fd/N` to a node and its virtual path."""

from __future__ import annotations

import os

from husk.vfs.layer.inodes import Inode
from husk.vfs.node import Dir
from husk.vfs.pinned import Orphan
from husk.vfs.synth.synth_tree import is_snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.vfs.mount_table import MountTable
    from husk.vfs.node import Node, Tree
    from husk.vfs.walk import Walker

DELETED = b" (deleted)"
FILES_KEPT = 1024
SHOWN = b"/husk-host"  # where a box's mount namespace shows the host's /usr (native/init/builder.c)


def _host_name(link: bytes) -> bytes:
    """The host's name of a file that a guest opened itself there (docs/design/026-direct-names.md)."""
    return link[len(SHOWN) :] if link.startswith(SHOWN + b"/") else link


class Handles:
    """`link` is what husk reads from /proc/PID/fd/N or /proc/PID/cwd; (dev, ino) is the open file's host identity."""

    __slots__ = ("_context", "_files", "_lock", "_root", "_state", "_table", "_walker")

    def __init__(self, table: MountTable, walker: Walker) -> None:
        self._table, self._walker = table, walker
        self._lock, self._state, self._root, self._context = table.lock, table.state, table.root, table.context
        # What `file_of_link` said of files of the box's own tree, until a name of that tree changes.
        self._files: dict[tuple[bytes, int, int], tuple[Node, tuple[bytes, int, int]]] = {}
        table.subscribe(self._forget_files)

    def _forget_files(self, directory: Dir, structural: bool, removed: bool) -> None:
        if self._files and (structural or directory.tree is self._root.tree):
            self._files.clear()

    def node_of_link(self, link: bytes, dev: int, ino: int, via: bytes = b"") -> Node | None:
        """The node behind a descriptor; None for what is no file of a tree (pipes, sockets, memfds).

        `via` is a host path that leads to the open file itself (`/proc/TID/fd/N`). Give it where possible: it is the
        only way to a file whose last name is gone.
        """
        with self._lock:
            if not link.startswith(b"/"):
                return None
            link = _host_name(link)
            directory = self._state.dir_of(link)
            if directory is not None:
                return directory.tree.current(directory)
            named = self._state.named_by(link)
            if named is not None:
                return self._named(*named)
            node = self._state.node_of(link, ino) or self._state.mirror_node(link)
            if node is not None:
                if isinstance(node, Inode) and node.nlink == 0:
                    node.opened_through(via)
                return node
            # Links to the blobs of an image lie there too; their tree knows those.
            if link.startswith(self._state.path + b"/") and not link.startswith(self._state.path + b"/images/"):
                # It has had no name for so long that it was forgotten: content and size still show, and a default owner
                # and mode.
                creds = self._context.creds
                uids, gids = {os.geteuid(): creds.uid}, {os.getegid(): creds.gid}
                return Orphan(self._root.tree, via, (self._root, b""), uids, gids, key=(dev, ino))
            # One host directory may be mounted inside the mount of another: the nearer one counts, then the later one.
            # No directory shows a snapshot.
            for tree in self._table.newest_first() if is_snapshot(link, dev) else self._nearest_first(link):
                node = tree.node_of_host(link, dev, ino, via)
                if node is not None:
                    return node
            # Only now: a directory below /dev (/dev/shm) can be mounted, too.
            return self._device(link) if link.startswith(b"/dev/") else None

    def is_copied(self, node: Node, held: os.stat_result) -> bool:
        """Has the content of `node` been copied since `held`, a host file, was opened as it?"""
        with self._lock:
            return node.tree.is_copied(node, held.st_dev, held.st_ino)

    def is_writable_host_file(self, link: bytes, dev: int, ino: int, via: bytes) -> bool:
        """Does an `rw` mount show this file? It may lie below a read-only mount as well."""
        with self._lock:
            link = _host_name(link)
            return any(
                tree.writes_to_host and not tree.read_only and tree.node_of_host(link, dev, ino, via) is not None
                for tree in self._nearest_first(link)
            )

    def _nearest_first(self, link: bytes) -> Iterable[Tree]:
        """By the host's paths. The host may have renamed a mounted directory, or exchanged two of them: then the path
        where one was must not give its rights to files of the other."""
        trees = self._table.newest_first()
        depths = [tree.host_depth(link) for tree in trees]
        most = max(depths)
        nearest = trees[depths.index(most)]
        # The box's own tree gives no right to anything on the host, and its files are asked about most.
        if not most or (nearest is not self._root.tree and nearest.follow_moves(link)):
            moved = [tree.follow_moves(b"") for tree in trees]
            if most or True in moved:
                depths = [tree.host_depth(link) for tree in trees]
                most = max(depths)
        return trees if not most else sorted(trees, key=dict(zip(trees, depths, strict=True)).__getitem__, reverse=True)

    def _named(self, node: Node, o_path_fd: int) -> Node | None:
        """An O_PATH descriptor: husk's own one of the same file shows where the file is now."""
        if o_path_fd < 0:
            return node.tree.current(node)
        via = b"/proc/self/fd/%d" % o_path_fd
        found = os.fstat(o_path_fd)
        return self.node_of_link(os.readlink(via), found.st_dev, found.st_ino, via)

    def _device(self, link: bytes) -> Node | None:
        """A device is opened by its host name, and the dev tree shows it under the same name."""
        if link == b"/dev/pts/ptmx":  # where the host's /dev/ptmx is a link to it
            link = b"/dev/ptmx"
        try:
            trail = self._walker.trail(self._context, self._root)
            return self._walker.resolve(self._context, self._root, link, trail, False)
        except OSError:
            return None

    def path_of_link(self, link: bytes, dev: int, ino: int) -> bytes | None:
        """What readlink of /proc/self/fd/N shows the guest; never a host path."""
        with self._lock:
            node = self.node_of_link(link, dev, ino)
            return None if node is None else self.path_of_node(node)

    def file_of_link(self, link: bytes, dev: int, ino: int) -> tuple[bytes, int, int] | None:
        """Path, device and inode by which the guest knows the file, for /proc/PID/maps. Each program maps the same few
        libraries, and asks for all of them at once."""
        with self._lock:
            known = self._files.get((link, dev, ino))
            if known is not None and known[0].tree.is_unchanged(known[0]):
                return known[1]
            node = self.node_of_link(link, dev, ino)
            if node is None:
                return None
            path = self.path_of_node(node)
            try:
                found = node.tree.stat(self._context, node)
            except OSError:
                return path, node.tree.dev, ino  # its last name is gone, and only the mapping holds it
            shown = path, found.dev, found.ino
            if node.tree is self._root.tree and node.tree.is_unchanged(node):
                if len(self._files) >= FILES_KEPT:
                    self._files.clear()
                self._files[link, dev, ino] = node, shown
            return shown

    def path_of_node(self, node: Node) -> bytes:
        """The absolute guest path, with " (deleted)" where the name is gone."""
        with self._lock:
            if isinstance(node, Dir):
                try:
                    return self._table.path(node)
                except FileNotFoundError:
                    return self._table.last_path(node) + DELETED
            place = node.tree.name_of(node)
            if place is not None:
                return self._table.last_path(place[0]) + b"/" + place[1]
            place = node.tree.old_name_of(node) or (self._root, b"")
            return self._table.last_path(place[0]) + b"/" + place[1] + DELETED

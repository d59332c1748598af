"""vfs: from what a guest holds back to what it is called — the way from `/proc/PID/fd/N` to a node and its virtual
path."""

from __future__ import annotations

import os

from husk.vfs.layer.inodes import Inode, Orphan
from husk.vfs.node import Dir
from husk.vfs.walk import Walker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Node

DELETED = b" (deleted)"


class Handles(Walker):
    """`link` is what husk reads from /proc/PID/fd/N or /proc/PID/cwd; (dev, ino) is the open file's host identity."""

    def node_of_link(self, link: bytes, dev: int, ino: int, via: bytes = b"") -> Node | None:
        """The node behind a descriptor; None for what is no file of ours (pipes, sockets, anonymous ones).

        `via`, best given, is a host path that leads to the open file itself (`/proc/TID/fd/N`): the only way to a
        file whose last name is gone.
        """
        with self.lock:
            if not link.startswith(b"/"):
                return None
            directory = self.state.dir_of(link)
            if directory is not None:
                return directory.tree.current(directory)
            named = self.state.named_by(link)
            if named is not None:
                return self._named(*named)
            node = self.state.node_of(link, ino) or self.state.real_node(link)
            if node is not None:
                if isinstance(node, Inode) and node.nlink == 0:
                    node.via = via
                return node
            # What an image's files are opened through lies there too; those are their tree's to know.
            if link.startswith(self.state.path + b"/") and not link.startswith(self.state.path + b"/images/"):
                # Too long without a name to be remembered: content and size still show, mode and owner by default.
                creds = self.context.creds
                uids, gids = {os.geteuid(): creds.uid}, {os.getegid(): creds.gid}
                orphan = Orphan(self.root.tree, via, (self.root, b""), uids, gids)
                orphan.key = dev, ino
                return orphan
            # One host directory may be mounted inside another's mount: the nearer one, then the later one, is meant.
            trees = [tree for _, tree in reversed(self._mounts)]
            trees.sort(key=lambda tree: tree.host_depth(link), reverse=True)
            for tree in trees:
                node = tree.node_of_host(link, dev, ino, via)
                if node is not None:
                    return node
            # Only now: a directory below /dev (/dev/shm) can be mounted, too.
            return self._device(link) if link.startswith(b"/dev/") else None

    def _named(self, node: Node, real: int) -> Node | None:
        """An O_PATH descriptor: the host's own one of the same file knows best what became of it."""
        if real < 0:
            return node.tree.current(node)
        via = b"/proc/self/fd/%d" % real
        found = os.fstat(real)
        return self.node_of_link(os.readlink(via), found.st_dev, found.st_ino, via)

    def _device(self, link: bytes) -> Node | None:
        """A device is opened by its host name, which the dev tree shows under the same one."""
        if link == b"/dev/pts/ptmx":  # where the host's /dev/ptmx is a link to it
            link = b"/dev/ptmx"
        try:
            return self._walk(self.context, self.root, link, self._trail(self.root), False)
        except OSError:
            return None

    def path_of_link(self, link: bytes, dev: int, ino: int) -> bytes | None:
        """What readlink of /proc/self/fd/N shows the guest; never a host path."""
        with self.lock:
            node = self.node_of_link(link, dev, ino)
            return None if node is None else self.path_of_node(node)

    def file_of_link(self, link: bytes, dev: int, ino: int) -> tuple[bytes, int, int] | None:
        """The same with the device and inode the guest knows the file by, for /proc/PID/maps."""
        with self.lock:
            node = self.node_of_link(link, dev, ino)
            if node is None:
                return None
            path = self.path_of_node(node)
            try:
                found = node.tree.stat(self.context, node)
            except OSError:
                return path, node.tree.dev, ino  # its last name is gone, and nobody holds it but the mapping
            return path, found.dev, found.ino

    def path_of_node(self, node: Node) -> bytes:
        """The absolute guest path, with " (deleted)" where it is no more."""
        with self.lock:
            if isinstance(node, Dir):
                try:
                    return self._path(node)
                except FileNotFoundError:
                    return self._old_path(node) + DELETED
            place = node.tree.name_of(node)
            if place is not None:
                return self._old_path(place[0]) + b"/" + place[1]
            place = node.tree.old_name_of(node) or (self.root, b"")
            return self._old_path(place[0]) + b"/" + place[1] + DELETED

    def _old_path(self, directory: Dir) -> bytes:
        """The path of a directory, as it was if it was removed; empty for the root."""
        names: list[bytes] = []
        here: Dir | None = directory
        while here is not None:
            if here.parent is not None:
                names.append(here.name)
                here = here.parent
            else:
                here = here.covers
        return b"/" + b"/".join(reversed(names)) if names else b""

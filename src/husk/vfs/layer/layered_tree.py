"""vfs: the layered tree — memory over host directories, copied on the first write.

This file reads and opens; names change in `layer_names`, metadata in `layer_meta`, and `layer_copy` makes lower files
the guest's own. One tree can gather several host directories (an image does), so a rename anywhere inside it is a
plain rename.
"""

from __future__ import annotations

import errno
import os
import stat as st
from bisect import bisect_right

from husk.native._core import open_beneath, stat_beneath
from husk.vfs.host.host_file import HOST_FLAGS, open_top, orphan_stat
from husk.vfs.layer.changes import accept, changes, seal
from husk.vfs.layer.copy_up import now
from husk.vfs.layer.directory_ops import LayerNames
from husk.vfs.layer.inodes import WHITEOUT, Inode, LayerDir, LowerNode, Orphan, in_image, pinned
from husk.vfs.layer.lower import Lower
from husk.vfs.layer.metadata import LayerMeta
from husk.vfs.layer.reverse_lookup import LayerTrace
from husk.vfs.node import Dir, Entry, Stat, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.native._core import HostStat
    from husk.vfs.node import Context, Node
    from husk.vfs.state import State


class LayeredTree(LayerNames, LayerMeta, LayerTrace):
    """`fstype` overlay: programs that know it do not trust it to keep inode numbers across mounts, which suits us."""

    fstype = b"overlay"
    read_only = False
    stable_modes = True
    host_backed = True

    def __init__(self, state: State, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        super().__init__(state, state.new_device())
        self.lowers: list[Lower] = []
        self.lost: list[bytes] = []  # what a kept box still showed of its lower trees, and the host has removed since
        self.changes_left_out = 0  # of `changes`, when it was asked last
        self.sealed_root: Stat | None = None  # the root of a tree without a lower one, at the starting point
        self.root: LayerDir = LayerDir(self, None, b"", state.new_number())
        self._fill(self.root, st.S_IFDIR | mode, uid, gid)

    def _fill(self, directory: LayerDir, mode: int, uid: int, gid: int) -> None:
        directory.mode, directory.uid, directory.gid, directory.own = mode, uid, gid, True
        directory.atime = directory.mtime = directory.ctime = directory.btime = now()

    def show(
        self,
        directory: LayerDir,
        host_path: bytes,
        *,
        only: frozenset[bytes] | None = None,
        uids: dict[int, int] | None = None,
        gids: dict[int, int] | None = None,
    ) -> Lower:
        """Let the host directory `host_path`, a path without links, show through `directory` (all of it, or the names
        in `only`)."""
        return self.show_lower(directory, Lower(open_top(host_path), host_path, uids, gids), only=only)

    def show_lower(self, directory: LayerDir, lower: Lower, *, only: frozenset[bytes] | None = None) -> Lower:
        """The same for any tree; it is closed with this one."""
        lower.top = directory
        directory.lower, directory.rel, directory.only = lower, b"", only
        directory.own = False
        top = lower.stat(b"")
        directory.ino = self.number_of(top.dev, top.ino)
        self.lowers.append(lower)
        return lower

    def show_file(
        self,
        directory: LayerDir,
        name: bytes,
        host_path: bytes,
        *,
        writable: bool,
        uids: dict[int, int] | None = None,
        gids: dict[int, int] | None = None,
    ) -> HostStat:
        """Let one host file, by a path without links, show as `name`. Writing to it copies it; without `writable`
        nobody may to begin with. Which file that is."""
        folder, _, host_name = host_path.rpartition(b"/")
        fd = open_top(folder)
        content = Lower(fd, host_path, uids, gids)  # by its path an open descriptor is traced back to it
        info = stat_beneath(fd, host_name)
        inode = self._inherit(content, host_name, info)
        if not writable:
            inode.mode &= ~0o222
        inode.nlink = 1
        directory.names[name] = inode
        inode.add_name(directory, name)
        self.lowers.append(content)
        return info

    def seal(self) -> None:
        """What is here now is the starting point that `changes` compares with."""
        seal(self)

    def accept(self, directory: Dir, name: bytes) -> None:
        """A name made by husk itself since then (a mount point) is no change of the guest's."""
        accept(self, directory, name)

    def changes(self) -> list[tuple[str, bytes]]:
        """("added" | "changed" | "deleted", path) of everything the guest changed, sorted by path."""
        found, self.changes_left_out = changes(self)
        return found

    def close(self) -> None:
        for lower in self.lowers:
            lower.close()
        self.lowers.clear()

    # -- names -------------------------------------------------------------------------------------------------
    def lookup(self, ctx: Context | None, directory: Dir, name: bytes) -> Node:
        assert isinstance(directory, LayerDir)
        node = directory.names.get(name)
        if node is not None:
            if node is WHITEOUT:
                raise error(errno.ENOENT)
            return node
        lower = directory.lower
        if lower is None or (directory.only is not None and name not in directory.only):
            raise error(errno.ENOENT)
        rel = directory.rel + b"/" + name if directory.rel else name
        info = lower.stat(rel)
        if info.mode & 0o170000 == st.S_IFDIR:
            child = LayerDir(self, directory, name, self.number_of(info.dev, info.ino))
            child.lower, child.rel = lower, rel
            directory.names[name] = child
            return child
        if info.nlink > 1 and (info.dev, info.ino) in self.inodes:
            # Another name of this file was made the guest's own: this one leads to the same inode.
            inode = self.inodes[info.dev, info.ino]
            directory.names[name] = inode
            inode.add_name(directory, name)
            return inode
        return LowerNode(self, directory, name, lower, rel, info)

    def entries(self, ctx: Context, directory: Dir, after: int) -> Iterator[Entry]:
        assert isinstance(directory, LayerDir)
        # A read from the start takes a new snapshot; the following ones go on in it. POSIX leaves open whether names
        # that come or go meanwhile are seen, and a snapshot keeps the reading of a large directory linear.
        listing = directory.listing
        if directory.own:
            self.accessed(directory)
        if after <= 2 or not listing:
            listing = directory.listing = self.snapshot(directory)
        start = bisect_right(listing, after, key=_cookie)
        if start == len(listing):
            # Read to its end. Positions in an unchanged lower directory follow from the host's order: no need to keep
            # them for every directory that some `find` once walked through.
            directory.listing = []
            if not directory.own:
                directory.cookies = {}
                directory.next_cookie = 3
            return
        cookies = directory.cookies
        for place in range(start, len(listing)):
            entry = listing[place]
            if cookies.get(entry.name) == entry.cookie:
                yield entry

    def snapshot(self, directory: LayerDir) -> list[Entry]:
        found: dict[bytes, tuple[int, int] | None] = {}
        for name, ino, kind in self._lower_names(directory):
            found[name] = ino, kind
        for name, node in directory.names.items():
            if isinstance(node, LayerDir | Inode):
                found[name] = node.ino, node.kind
            elif name in found:
                found[name] = None  # a whiteout; it keeps its position, so that those behind it keep theirs
        cookies = directory.cookies
        for name in [name for name in cookies if name not in found]:
            del cookies[name]
        for name in found:
            if name not in cookies:
                cookies[name] = directory.next_cookie
                directory.next_cookie += 1
        return [Entry(name, *shown, cookie) for name, cookie in cookies.items() if (shown := found[name]) is not None]

    def _lower_names(self, directory: LayerDir) -> Iterator[tuple[bytes, int, int]]:
        lower = directory.lower
        if lower is None:
            return
        for name, identity, kind in lower.names(directory.rel):
            if directory.only is None or name in directory.only:
                yield name, self.number_of(*identity), kind

    # -- nodes -------------------------------------------------------------------------------------------------
    def stat(self, ctx: Context, node: Node) -> Stat:
        if isinstance(node, LowerNode):
            info, node.info = node.info, None
            return self.lower_stat(info or node.lower.stat(node.rel), node.lower)
        if isinstance(node, LayerDir):
            return self._dir_stat(node)
        if isinstance(node, Inode):
            return self._inode_stat(node)
        assert isinstance(node, Orphan)
        source = in_image(node)
        if source is not None and node.last is not None:
            found = self.lower_stat(node.last, source[0])
            found.nlink = max(found.nlink - node.hidden, 0)
            return found
        return orphan_stat(node, self.dev)

    def lower_stat(self, info: HostStat, lower: Lower) -> Stat:
        dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atime, mtime, ctime = info
        if lower.uids or lower.gids:
            uid, gid = lower.uids.get(uid, uid), lower.gids.get(gid, gid)
        ino = self.number_of(dev, ino)
        return Stat(self.dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atime, mtime, ctime)

    def _dir_stat(self, node: LayerDir) -> Stat:
        nlink, size, blocks = 2, 4096, 8
        if node.lower is not None:
            info = node.lower.stat(node.rel)
            if not node.own:
                found = self.lower_stat(info, node.lower)
                found.ino = node.ino
                return found
            nlink, size, blocks = info.nlink, info.size, info.blocks
        # File systems that do not count sub-directories say 1 for every directory.
        nlink = nlink + node.subdirs if nlink > 1 else 1
        if node.removed:
            nlink = 0
        return Stat(
            self.dev,
            node.ino,
            node.mode,
            nlink,
            node.uid,
            node.gid,
            0,
            size,
            4096,
            blocks,
            node.atime,
            node.mtime,
            node.ctime,
            node.btime,
        )

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        host_flags = flags & HOST_FLAGS | os.O_CLOEXEC | os.O_NOCTTY | (os.O_NOFOLLOW if flags & os.O_PATH else 0)
        writes = flags & os.O_TRUNC or flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
        if node.kind == st.S_IFIFO and not isinstance(node, Orphan):
            node = self.owned(node)
            self.own_content(node, empty=True)
        if writes and not isinstance(node, Inode):
            node = self.owned(node)
        if self.watched and not flags & os.O_PATH:
            node = self.shown_to_watchers(node)
        if isinstance(node, Orphan):
            if (source := in_image(node)) is not None:
                return source[0].open(source[1], host_flags, node.kind, node.key, ctx.creds)
            with pinned(node) as path:
                return os.open(path, host_flags & ~os.O_NOFOLLOW)
        if isinstance(node, LowerNode):
            return node.lower.open(node.rel, host_flags, node.kind, node.key, ctx.creds)
        assert isinstance(node, Inode)
        if writes and node.kind == st.S_IFREG:
            self.own_content(node, empty=bool(flags & os.O_TRUNC))
            if flags & os.O_TRUNC:
                self.drop_privilege(ctx, node)
        if node.source is not None:
            return node.source[0].open(node.source[1], host_flags, node.kind, node.key, ctx.creds)
        if node.nlink == 0 and node.via and not self.has_file(node):
            with self.held(node) as path:
                return os.open(path, host_flags & ~os.O_NOFOLLOW)
        if flags & os.O_PATH:
            host_flags = os.O_PATH | os.O_NOFOLLOW  # openat2 takes no more
        self.host_number(node)
        fd = open_beneath(self.state.fd, self.home(node), host_flags)
        if node.nlink == 0:
            # Copied from a lower file that had lost its name: other descriptors show the lower one, and must lead here.
            self.state.orphan(node.number, node, held_elsewhere=node.key is not None)
        return fd

    def shown_to_watchers(self, node: Node) -> Node:
        """Somebody may want to know who reads the files of a directory. The host tells of a file only under the
        directory it lies in, so a lower one is copied there first."""
        from husk.vfs.layer.watch_mirror import wants_a_copy

        if isinstance(node, LowerNode | Inode) and wants_a_copy(self, node):
            inode = self.owned(node)
            source = inode.source
            self.own_content(inode, empty=False)
            inode.origin = source
            return inode
        return node

    def readlink(self, ctx: Context, node: Node) -> bytes:
        if isinstance(node, Inode):
            self.accessed(node)
            return node.target
        if not isinstance(node, LowerNode):
            raise error(errno.ENOENT)
        return node.lower.read_link(node.rel)

    def statfs_path(self) -> bytes:
        return self.state.path


def _cookie(entry: Entry) -> int:
    return entry.cookie

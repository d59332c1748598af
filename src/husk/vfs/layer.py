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
from husk.vfs.layer_changes import changes, seal
from husk.vfs.layer_copy import now, read_link
from husk.vfs.layer_meta import LayerMeta
from husk.vfs.layer_names import LayerNames
from husk.vfs.layer_nodes import WHITEOUT, Inode, LayerDir, Lower, LowerNode, Orphan
from husk.vfs.node import Dir, Entry, Stat, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.native._core import HostStat
    from husk.vfs.node import Context, Node
    from husk.vfs.state import State

# Status flags that mean something to a host file; the rest is the vfs's own business, or only a wish (O_NOATIME).
HOST_FLAGS = (
    os.O_ACCMODE | os.O_APPEND | os.O_ASYNC | os.O_DIRECT | os.O_DSYNC | os.O_NONBLOCK | os.O_PATH | os.O_SYNC
    | os.O_TRUNC
)


class LayeredTree(LayerNames, LayerMeta):
    """`fstype` overlay: programs that know it do not trust it to keep inode numbers across mounts, which suits us."""

    fstype = b"overlay"
    read_only = False
    stable_modes = True

    def __init__(self, state: State, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        super().__init__(state, state.new_device())
        self.lowers: list[Lower] = []
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
        """Let the host directory `host_path` show through `directory` (all of it, or the names in `only`)."""
        host_path = os.path.realpath(host_path)
        fd = os.open(host_path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        lower = Lower(fd, host_path, uids, gids)
        lower.top = directory
        directory.lower, directory.rel, directory.only = lower, b"", only
        directory.own = False
        directory.ino = self.number_of(stat_beneath(fd, b""))
        self.lowers.append(lower)
        return lower

    def seal(self) -> None:
        """What is here now is the starting point that `changes` compares with."""
        seal(self)

    def changes(self) -> list[tuple[str, bytes]]:
        """("added" | "changed" | "deleted", path) of everything the guest changed, sorted by path."""
        return changes(self)

    def close(self) -> None:
        for lower in self.lowers:
            os.close(lower.fd)
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
        info = stat_beneath(lower.fd, rel)
        if info[2] & 0o170000 == st.S_IFDIR:
            child = LayerDir(self, directory, name, self.number_of(info))
            child.lower, child.rel = lower, rel
            directory.names[name] = child
            return child
        if info[3] > 1 and (info[0], info[1]) in self.inodes:
            # Another name of this file was made the guest's own: this one leads to the same inode.
            inode = self.inodes[info[0], info[1]]
            directory.names[name] = inode
            inode.add_name(directory, name)
            return inode
        return LowerNode(self, directory, name, lower, rel, info)

    def entries(self, ctx: Context, directory: Dir, after: int) -> Iterable[Entry]:
        assert isinstance(directory, LayerDir)
        # A read from the start takes a new snapshot; the following ones go on in it. POSIX leaves open whether names
        # that come or go meanwhile are seen, and a snapshot keeps the reading of a large directory linear.
        if after <= 2 or not directory.listing:
            directory.listing = self._snapshot(directory)
        start = bisect_right(directory.listing, after, key=_cookie)
        return directory.listing[start:]

    def _snapshot(self, directory: LayerDir) -> list[Entry]:
        found: dict[bytes, tuple[int, int]] = {}
        for name, ino, kind in self._lower_names(directory):
            found[name] = ino, kind
        for name, node in directory.names.items():
            if node is WHITEOUT:
                found.pop(name, None)
            elif isinstance(node, LayerDir | Inode):
                found[name] = node.ino, node.kind
        cookies = directory.cookies
        for name in [name for name in cookies if name not in found]:
            del cookies[name]
        for name in found:
            if name not in cookies:
                cookies[name] = directory.next_cookie
                directory.next_cookie += 1
        return [Entry(name, *found[name], cookie) for name, cookie in cookies.items()]

    def _lower_names(self, directory: LayerDir) -> Iterable[tuple[bytes, int, int]]:
        lower = directory.lower
        if lower is None:
            return
        try:
            fd = open_beneath(lower.fd, directory.rel, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return
        try:
            dev = stat_beneath(fd, b"")[0]
            with os.scandir(fd) as found:
                for entry in found:
                    name = os.fsencode(entry.name)
                    if directory.only is None or name in directory.only:
                        info = (dev, entry.inode(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
                        yield name, self.number_of(info), entry_kind(entry)
        finally:
            os.close(fd)

    # -- nodes -------------------------------------------------------------------------------------------------
    def stat(self, ctx: Context, node: Node) -> Stat:
        if isinstance(node, LowerNode):
            info, node.info = node.info, None
            return self._lower_stat(info or stat_beneath(node.lower.fd, node.rel), node.lower)
        if isinstance(node, LayerDir):
            return self._dir_stat(node)
        if isinstance(node, Inode):
            return self._inode_stat(node)
        assert isinstance(node, Orphan)
        return orphan_stat(node, self.dev)

    def _lower_stat(self, info: HostStat, lower: Lower) -> Stat:
        _, _, mode, nlink, uid, gid, rdev, size, blksize, blocks, atime, mtime, ctime = info
        if nlink > 1 and self.unlinked:
            nlink -= self.unlinked.get((info[0], info[1]), 0)
        if lower.uids or lower.gids:
            uid, gid = lower.uids.get(uid, uid), lower.gids.get(gid, gid)
        ino = self.number_of(info)
        return Stat(self.dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atime, mtime, ctime)

    def _dir_stat(self, node: LayerDir) -> Stat:
        nlink, size, blocks = 2, 4096, 8
        if node.lower is not None:
            info = stat_beneath(node.lower.fd, node.rel)
            if not node.own:
                found = self._lower_stat(info, node.lower)
                found.ino = node.ino
                return found
            nlink, size, blocks = info[3], info[7], info[9]
        # File systems that do not count sub-directories say 1 for every directory.
        nlink = nlink + node.subdirs if nlink > 1 else 1
        if node.removed:
            nlink = 0
        return Stat(self.dev, node.ino, node.mode, nlink, node.uid, node.gid, 0, size, 4096, blocks,
                    node.atime, node.mtime, node.ctime, node.btime)

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        host_flags = flags & HOST_FLAGS | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
        writes = flags & (os.O_ACCMODE | os.O_TRUNC) and not flags & os.O_PATH
        if writes and not isinstance(node, Inode):
            node = self.owned(node)
        if isinstance(node, Orphan):
            return os.open(node.via, host_flags & ~os.O_NOFOLLOW)
        if isinstance(node, LowerNode):
            return open_lower(node.lower.fd, node.rel, host_flags, node.kind)
        assert isinstance(node, Inode)
        if writes and node.kind == st.S_IFREG:
            self.own_content(node, empty=bool(flags & os.O_TRUNC))
            if flags & os.O_TRUNC:
                self.drop_privilege(ctx, node)
        if node.source is not None:
            return open_lower(node.source[0].fd, node.source[1], host_flags, node.kind)
        if node.nlink == 0 and node.via:
            return os.open(node.via, host_flags & ~os.O_NOFOLLOW)
        fd = os.open(b"%d" % self.host_number(node), host_flags, dir_fd=self.state.files_fd)
        if node.nlink == 0:
            self.state.orphan(node.number, node)
        return fd

    def readlink(self, ctx: Context, node: Node) -> bytes:
        if isinstance(node, Inode):
            return node.target
        assert isinstance(node, LowerNode)
        return read_link(node.lower.fd, node.rel)

    def statfs_path(self) -> bytes:
        return self.state.path

    # -- from the host back to a node --------------------------------------------------------------------------
    def node_of_host(self, path: bytes, dev: int, ino: int, via: bytes) -> Node | None:
        deleted = path.endswith(b" (deleted)")
        path = path.removesuffix(b" (deleted)")
        for lower in self.lowers:
            rel = beneath(lower.path, path)
            if rel is None:
                continue
            inode = self.inodes.get((dev, ino))
            if inode is not None:
                return inode
            if not deleted:
                head, _, name = rel.rpartition(b"/")
                directory = self._where(lower, head)
                if directory is not None and name not in directory.names and directory.shows_lower(name):
                    try:
                        info = stat_beneath(lower.fd, rel)
                    except OSError:
                        info = None
                    if info is not None and (info[0], info[1]) == (dev, ino) and info[2] & 0o170000 != st.S_IFDIR:
                        return LowerNode(self, directory, name, lower, rel, info)
            was = (lower.top.name if lower.top else b"") + b"/" + rel
            orphan = Orphan(self, via, was, lower.uids, lower.gids)
            orphan.hidden = self.unlinked.get((dev, ino), 1)
            orphan.source = lower, rel
            return orphan
        return None

    def _where(self, lower: Lower, rel: bytes) -> LayerDir | None:
        """The directory that shows lower directory `rel` now; None when none does any more."""
        names: list[bytes] = []
        here = lower.moved.get(rel) if rel else lower.top
        while rel and here is None:
            rel, _, name = rel.rpartition(b"/")
            names.append(name)
            here = lower.moved.get(rel) if rel else lower.top
        while names and here is not None:
            name = names.pop()
            child = here.names.get(name)
            if child is None:
                try:
                    child = self.lookup(None, here, name)
                except OSError:
                    return None
            if not isinstance(child, LayerDir) or child.lower is not lower or child.rel != here.below(name):
                return None
            here = child
        return here

    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        if isinstance(node, LowerNode):
            return node.parent, node.name
        if isinstance(node, Inode) and node.parent is not None:
            return node.parent, node.name
        return None


def _cookie(entry: Entry) -> int:
    return entry.cookie


def beneath(root: bytes, path: bytes) -> bytes | None:
    """`path` relative to `root`, None if it is not below it."""
    if root == b"/":
        return path[1:]
    if path.startswith(root) and path[len(root):len(root) + 1] == b"/":
        return path[len(root) + 1:]
    return None


def entry_kind(entry: os.DirEntry[str]) -> int:
    """S_IF* of a scandir entry, from its d_type where the host tells it."""
    if entry.is_symlink():
        return st.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return st.S_IFDIR
    if entry.is_file(follow_symlinks=False):
        return st.S_IFREG
    try:
        return st.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return 0


def open_lower(root: int, rel: bytes, flags: int, kind: int) -> int:
    """Open a host file that a look-up found to be of `kind`. Between look-up and open a host process may have put
    something else there: a FIFO must not block us, a device must not be touched."""
    if flags & os.O_PATH:
        return open_beneath(root, rel, flags & (os.O_PATH | os.O_NOFOLLOW))
    if kind not in (st.S_IFREG, st.S_IFIFO):
        raise error(errno.ENXIO if kind == st.S_IFSOCK else errno.EACCES)
    fd = open_beneath(root, rel, flags | os.O_NONBLOCK)
    try:
        if stat_kind(fd) != kind:
            raise error(errno.ESTALE)
        if not flags & os.O_NONBLOCK:
            os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def stat_kind(fd: int) -> int:
    return st.S_IFMT(os.fstat(fd).st_mode)


def orphan_stat(node: Orphan, dev: int) -> Stat:
    try:
        found = os.stat(node.via)
    except (OSError, ValueError):
        # Without a way to the file nothing is known; the caller, who holds it, may know better.
        return Stat(dev, 0, node.kind | 0o444, 0, 0, 0, 0, 0, 4096, 0, 0, 0, 0)
    uid, gid = node.uids.get(found.st_uid, found.st_uid), node.gids.get(found.st_gid, found.st_gid)
    nlink = max(found.st_nlink - node.hidden, 0)
    return Stat(dev, found.st_ino, found.st_mode, nlink, uid, gid, found.st_rdev, found.st_size, found.st_blksize,
                found.st_blocks, found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)

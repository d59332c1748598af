"""vfs: the layered tree — memory over host directories, copied on the first write.

This file looks up, lists and opens. The rest is the duty of objects the tree holds: `DirectoryOps` changes names,
`Metadata` changes metadata, `CopyUp` gives lower files an upper inode and a real file, `ReverseLookup` leads from
descriptors back to nodes. One tree can gather several host directories (an image does), so a rename anywhere inside it
is a plain rename.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import open_beneath, stat_beneath
from husk.vfs.clock import now
from husk.vfs.host.host_file import HOST_FLAGS, open_guarded, orphan_stat
from husk.vfs.layer.cacheable import Cacheable
from husk.vfs.layer.changes import accept, changes, seal
from husk.vfs.layer.copy_up import CopyUp
from husk.vfs.layer.directory_ops import DirectoryOps
from husk.vfs.layer.inode_numbers import InodeNumbers
from husk.vfs.layer.inodes import WHITEOUT, Inode, LayerDir, LowerNode
from husk.vfs.layer.lower import Lower
from husk.vfs.layer.metadata import Metadata
from husk.vfs.layer.reverse_lookup import ReverseLookup
from husk.vfs.layer.upper_files import UpperFiles
from husk.vfs.node import ACL_ACCESS, ACL_DEFAULT, ROOT_CONTEXT, Dir, Entry, Stat, Tree, error, place_names
from husk.vfs.pinned import Orphan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from husk.native._core import HostStat, Manifest
    from husk.vfs.host_view import HostView
    from husk.vfs.layer.watch_mirror import WatchMirror
    from husk.vfs.node import Context, Credentials, Node, OwnDirectory
    from husk.vfs.state import State


class LayeredTree(Tree):
    """The default `fstype` is overlay: programs that know it do not trust it to keep inode numbers across mounts.

    `boxed`: what the host does not keep of it is the box's own (`Stat.boxed`). Not so for a copy-on-write mount, whose
    files have owners and modes of the host.
    """

    read_only = False
    stable_modes = True
    host_backed = True
    keeps_acls = True
    cacheable_by_name = True
    moves_are_announced = True

    def __init__(
        self,
        state: State,
        *,
        mode: int = 0o755,
        uid: int = 0,
        gid: int = 0,
        fstype: bytes = b"overlay",
        boxed: bool = False,
    ) -> None:
        self.boxed = boxed
        self.state, self.dev, self.fstype = state, state.new_device(), fstype
        self.lowers: list[Lower] = []
        self.lost: list[bytes] = []  # what a kept box still showed of its lower trees, and the host has removed since
        self.changes_left_out = 0  # of `changes`, when it was asked last
        self.sealed_root: Stat | None = None  # the root of a tree without a lower one, at the starting point
        self._numbers = InodeNumbers()
        self.files = UpperFiles(state)
        self.copy_up = CopyUp(self, self.files, self._numbers)
        self._metadata = Metadata(self.dev, self.files, self.copy_up, boxed=boxed)
        self._ops = DirectoryOps(self, self.files, self.copy_up)
        self._reverse = ReverseLookup(self, self.copy_up)
        self._cacheable = Cacheable(self.dev, self.files, self._numbers)
        self._mirror: WatchMirror | None = None
        self.root: LayerDir = LayerDir(self, None, b"", state.new_number())
        self.root.describe(st.S_IFDIR | mode, uid, gid, now())

    def date_by(self, moment: int) -> None:
        """What is new gets this date, while the tree is made: to ask for seventy takes a third of a millisecond. With 0
        each new name has its own again."""
        self._ops.one_moment = moment

    # -- what it shows, and what changed -----------------------------------------------------------------------
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
        return self.show_lower(directory, Lower(open_guarded(host_path), host_path, uids, gids), only=only)

    def show_lower(self, directory: LayerDir, lower: Lower, *, only: frozenset[bytes] | None = None) -> Lower:
        """The same for any lower tree. This tree closes it."""
        self.lowers.append(lower)
        lower.top = directory
        directory.lower, directory.rel, directory.only = lower, b"", only
        directory.copied_up = False
        top = lower.stat(b"")
        directory.ino = self._numbers.shown(top.dev, top.ino)
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
        """Let one host file, by a path without links, show as `name`. Writing to it copies it up; without `writable`
        its mode forbids that. Returns what the host says of the file."""
        folder, _, host_name = host_path.rpartition(b"/")
        fd = open_guarded(folder)
        content = Lower(fd, host_path, uids, gids)  # by its path an open descriptor is traced back to it
        self.lowers.append(content)
        info = stat_beneath(fd, host_name)
        inode = self.copy_up.new_inode(content, host_name, info)
        if not writable and not st.S_ISSOCK(info.mode):  # a socket that was named may be connected to: that is W_OK
            inode.mode &= ~0o222
        inode.nlink = 1
        directory.names[name] = inode
        inode.add_name(directory, name)
        return info

    def seal(self, names: Iterable[bytes] | None = None) -> None:
        """What is here now is the starting point that `changes` compares with. `names`: those of the root below which
        anything has changed since it was sealed before."""
        seal(self, names)

    def accept(self, directory: Dir, name: bytes) -> None:
        accept(self, directory, name)

    def changes(self) -> list[tuple[str, bytes]]:
        """("added" | "changed" | "deleted", path) of everything the guest changed, sorted by path."""
        found, self.changes_left_out = changes(self)
        return found

    @property
    def hard_links_changed(self) -> bool:
        return self.copy_up.hard_links_changed

    def close(self) -> None:
        if self._mirror is not None:
            self._mirror.end()
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
            if self.files.mirrored and isinstance(node, Inode) and node.others:
                node.found = directory, name
            return node
        lower = directory.lower
        if lower is None or (directory.only is not None and name not in directory.only):
            raise error(errno.ENOENT)
        rel = directory.rel + b"/" + name if directory.rel else name
        info = lower.stat(rel)
        if info.mode & 0o170000 == st.S_IFDIR:
            child = LayerDir(self, directory, name, self._numbers.shown(info.dev, info.ino), lower, rel)
            directory.names[name] = child
            return child
        if info.nlink > 1 and (info.dev, info.ino) in self.copy_up.inodes:
            # Another name of this file was copied up: this one leads to the same inode.
            inode = self.copy_up.inodes[info.dev, info.ino]
            directory.names[name] = inode
            inode.add_name(directory, name)
            return inode
        return LowerNode(self, directory, name, lower, rel, info)

    def entries(self, ctx: Context, directory: Dir, after: int) -> Iterator[Entry]:
        assert isinstance(directory, LayerDir)
        # A read from the start takes a new snapshot; the following ones go on in it. POSIX leaves open whether names
        # that come or go meanwhile are seen, and a snapshot keeps the reading of a large directory linear.
        listing = directory.listing
        if directory.copied_up:
            self._metadata.accessed(directory)
        if after <= 2 or not listing:
            listing = directory.listing = self.snapshot(directory)
        from _bisect import bisect_right  # a library to be loaded: many programs list nothing

        start = bisect_right(listing, after, key=_cookie)
        if start == len(listing):
            # Read to its end. Positions in an unchanged lower directory follow from the host's order: no need to keep
            # them for every directory that some `find` once walked through.
            directory.listing = []
            if not directory.copied_up:
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
        directory.next_cookie = place_names(cookies, found, directory.next_cookie)
        return [Entry(name, *shown, cookie) for name, cookie in cookies.items() if (shown := found[name]) is not None]

    def _lower_names(self, directory: LayerDir) -> Iterator[tuple[bytes, int, int]]:
        lower = directory.lower
        if lower is None:
            return
        for name, identity, kind in lower.names(directory.rel):
            if directory.only is None or name in directory.only:
                yield name, self._numbers.shown(*identity), kind

    # -- rules: what is denied of a lower tree cannot be changed either. The host's files are safe here, and so a
    #    protected name may change in the box: `apply` leaves it out. ----------------------------------------------
    def may_use(self, node: Node) -> None:
        if isinstance(node, LowerNode) and node.lower.rules is not None:
            node.lower.rules.use(node.rel, node.kind, (node.key,))
        elif isinstance(node, LayerDir) and node.lower is not None and node.lower.rules is not None and node.rel:
            info = node.lower.stat(node.rel)
            node.lower.rules.use(node.rel, node.kind, ((info.dev, info.ino),))

    def may_change(self, node: Node) -> None:
        self.may_use(node)

    def may_remove(self, directory: Dir, name: bytes, node: Node, *, moving: bool = False) -> None:
        self.may_use(node)

    # -- nodes -------------------------------------------------------------------------------------------------
    def host_name(self, node: Node) -> bytes | None:
        if isinstance(node, LowerNode):
            return node.lower.host_name(node.rel)
        source = node.source if isinstance(node, Inode | Orphan) else None
        return None if source is None else source[0].host_name(source[1])

    def stat(self, ctx: Context | None, node: Node) -> Stat:
        if isinstance(node, LowerNode):
            info, node.info = node.info, None
            found = self.lower_stat(info or node.lower.stat(node.rel), node.lower)
            if not node.lower.is_host:
                found.acl = node.lower.xattrs(node.rel).get(ACL_ACCESS)
            return found
        if isinstance(node, LayerDir):
            return self._dir_stat(node)
        if isinstance(node, Inode):
            return self._metadata.inode_stat(node)
        assert isinstance(node, Orphan)
        source = node.in_image()
        if source is not None and node.last is not None:
            found = self.lower_stat(node.last, source[0])
            found.nlink = max(found.nlink - node.hidden, 0)
            return found
        return orphan_stat(node, self.dev)

    def number(self, ctx: Context, directory: Dir) -> int:
        assert isinstance(directory, LayerDir)
        return directory.ino

    def lower_stat(self, info: HostStat, lower: Lower) -> Stat:
        dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atime, mtime, ctime = info
        if lower.uids or lower.gids:
            uid, gid = lower.uids.get(uid, uid), lower.gids.get(gid, gid)
        ino = self._numbers.shown(dev, ino)
        boxed = self.boxed and not lower.is_host
        return Stat(self.dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atime, mtime, ctime, boxed=boxed)

    def _dir_stat(self, node: LayerDir) -> Stat:
        nlink, size, blocks = 2, 4096, 8
        if node.lower is not None:
            info = node.lower.stat(node.rel)
            if not node.copied_up:
                found = self.lower_stat(info, node.lower)
                found.ino = node.ino
                if not node.lower.is_host:
                    found.acl = node.lower.xattrs(node.rel).get(ACL_ACCESS)
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
            boxed=self.boxed and (node.lower is None or not node.lower.is_host),
            acl=node.xattrs.get(ACL_ACCESS) if node.xattrs else None,
        )

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        host_flags = flags & HOST_FLAGS | os.O_CLOEXEC | os.O_NOCTTY | (os.O_NOFOLLOW if flags & os.O_PATH else 0)
        writes = flags & os.O_TRUNC or flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
        if node.kind == st.S_IFIFO and not isinstance(node, Orphan):
            node = self.copy_up.inode(node)
            self.copy_up.content(node, empty=True)
        if writes and not isinstance(node, Inode):
            node = self.copy_up.inode(node)
        if self.files.mirrored and not flags & os.O_PATH:
            node = self._visible_to_watchers(node)
        if isinstance(node, Orphan):
            if (source := node.in_image()) is not None:
                return source[0].open(source[1], host_flags, node.kind, node.key, ctx.creds)
            with node.pinned() as path:
                return os.open(path, host_flags & ~os.O_NOFOLLOW)
        if isinstance(node, LowerNode):
            return node.lower.open(node.rel, host_flags, node.kind, node.key, ctx.creds)
        assert isinstance(node, Inode)
        return self._open_inode(ctx, node, flags, host_flags, writes=bool(writes))

    def _open_inode(self, ctx: Context, inode: Inode, flags: int, host_flags: int, *, writes: bool) -> int:
        if writes and inode.kind == st.S_IFREG:
            self.copy_up.content(inode, empty=bool(flags & os.O_TRUNC))
            if flags & os.O_TRUNC:
                self._metadata.drop_privilege(ctx, inode)
        if inode.source is not None and inode.source[0].in_memory:
            try:
                self.copy_up.content(inode, empty=False)
            except OSError as failure:
                if writes or failure.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise  # else it is read from memory, as long as the host's disk is full
        if inode.source is not None:
            return inode.source[0].open(inode.source[1], host_flags, inode.kind, inode.key, ctx.creds)
        if self.files.is_open_only(inode):
            with self.files.pinned(inode) as path:
                return os.open(path, host_flags & ~os.O_NOFOLLOW)
        if flags & os.O_PATH:
            host_flags = os.O_PATH | os.O_NOFOLLOW  # openat2 takes no more
        self.files.give_symlink_a_file(inode)
        fd = open_beneath(self.state.fd, self.files.path(inode), host_flags)
        if inode.nlink == 0:
            self.state.orphan(inode.number, inode, lingers=inode.is_copy)
        return fd

    def _visible_to_watchers(self, node: Node) -> Node:
        """Reads of a directory's files may be watched. The host tells of a file only under the directory it lies in, so
        a lower file is copied there first."""
        if isinstance(node, LowerNode | Inode) and self.watch_mirror().wants_copy(node):
            inode = self.copy_up.inode(node)
            self.copy_up.content_for_watchers(inode)
            return inode
        return node

    def readlink(self, ctx: Context, node: Node) -> bytes:
        if isinstance(node, Inode):
            if ctx is not ROOT_CONTEXT:
                self._metadata.accessed(node)
            return node.target
        if isinstance(node, Orphan):
            return node.link_target() if node.source is None else node.source[0].read_link(node.source[1])
        if not isinstance(node, LowerNode):
            raise error(errno.ENOENT)
        return node.lower.read_link(node.rel)

    def statfs_path(self) -> bytes:
        return self.state.path

    # -- changing names: DirectoryOps --------------------------------------------------------------------------
    def create(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> Inode:
        assert isinstance(directory, LayerDir)
        return self._ops.create(ctx, directory, name, mode)

    def generate(self, directory: Dir, name: bytes, mode: int, content: bytes) -> None:
        """A file of husk's own; most are never opened."""
        assert isinstance(directory, LayerDir)
        self._ops.generate(directory, name, mode, content)

    def create_open(self, ctx: Context, directory: Dir, name: bytes, mode: int, flags: int) -> tuple[Inode, int]:
        assert isinstance(directory, LayerDir)
        return self._ops.create_open(ctx, directory, name, mode, flags)

    def own_directory(self, ctx: Context, directory: Dir) -> OwnDirectory | None:
        assert isinstance(directory, LayerDir)
        beneath: HostView | None = None
        if directory.lower is not None and (beneath := self._cacheable.beneath(directory)) is None:
            return None
        return self._ops.own_directory(ctx, directory, beneath)

    def new_owner(self, creds: Credentials, directory: Dir) -> tuple[int, int, int] | None:
        assert isinstance(directory, LayerDir)
        return self._ops.new_owner(creds, directory)

    def begun_outside(self, directory: Dir, host: HostStat) -> None:
        assert isinstance(directory, LayerDir)
        self._ops.begun_outside(directory, host)

    def may_be_told(self, directory: Dir) -> bool:
        return isinstance(directory, LayerDir) and directory.copied_up

    def may_be_own(self, directory: Dir) -> bool:
        return isinstance(directory, LayerDir) and directory.lower is None

    def removed_outside(
        self, directory: Dir, name: bytes, number: int, when: int, host: HostStat | None
    ) -> Node | None:
        assert isinstance(directory, LayerDir)
        return self._ops.removed_outside(directory, name, number, when, host)

    def made_outside(
        self, directory: Dir, name: bytes, number: int, mode: int, uid: int, gid: int, when: int
    ) -> Inode:
        assert isinstance(directory, LayerDir)
        return self._ops.made_outside(directory, name, number, mode, uid, gid, when)

    def removed_directory_outside(
        self, directory: Dir, name: bytes, child: Dir | None, when: int, host: HostStat | None
    ) -> Node | None:
        assert isinstance(directory, LayerDir)
        assert child is None or isinstance(child, LayerDir)
        return self._ops.removed_directory_outside(directory, name, child, when, host)

    def made_directory_outside(
        self, directory: Dir, name: bytes, number: int, mode: int, uid: int, gid: int, when: int
    ) -> Dir:
        assert isinstance(directory, LayerDir)
        return self._ops.made_directory_outside(directory, name, number, mode, uid, gid, when)

    def mkdir(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> LayerDir:
        assert isinstance(directory, LayerDir)
        return self._ops.mkdir(ctx, directory, name, mode)

    def mknod(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> Inode:
        assert isinstance(directory, LayerDir)
        return self._ops.mknod(ctx, directory, name, mode)

    def bind(self, ctx: Context, directory: Dir, name: bytes, mode: int, make: Callable[[int, bytes], None]) -> Inode:
        assert isinstance(directory, LayerDir)
        return self._ops.bind(ctx, directory, name, mode, make)

    def tmpfile(self, ctx: Context, directory: Dir, mode: int, flags: int) -> tuple[Inode, int]:
        assert isinstance(directory, LayerDir)
        return self._ops.tmpfile(ctx, directory, mode, flags)

    def symlink(self, ctx: Context, directory: Dir, name: bytes, target: bytes) -> None:
        assert isinstance(directory, LayerDir)
        self._ops.symlink(ctx, directory, name, target)

    def link(self, ctx: Context, node: Node, directory: Dir, name: bytes) -> None:
        assert isinstance(directory, LayerDir)
        self._ops.link(node, directory, name)

    def unlink(self, ctx: Context, directory: Dir, name: bytes, found: Node | None = None) -> None:
        assert isinstance(directory, LayerDir)
        self._ops.unlink(directory, name, found)

    def rmdir(self, ctx: Context, directory: Dir, name: bytes) -> None:
        assert isinstance(directory, LayerDir)
        self._ops.rmdir(ctx, directory, name)

    def rename(self, ctx: Context, old: Dir, old_name: bytes, new: Dir, new_name: bytes, flags: int) -> None:
        assert isinstance(old, LayerDir)
        assert isinstance(new, LayerDir)
        self._ops.rename(ctx, old, old_name, new, new_name, flags)

    # -- changing metadata: Metadata ---------------------------------------------------------------------------
    def set_mode(self, ctx: Context, node: Node, mode: int) -> None:
        self._metadata.set_mode(node, mode)

    def set_owner(self, ctx: Context, node: Node, uid: int, gid: int) -> None:
        self._metadata.set_owner(node, uid, gid)

    def set_times(self, ctx: Context, node: Node, atime: int | None, mtime: int | None) -> None:
        self._metadata.set_times(node, atime, mtime)

    def truncate(self, ctx: Context, node: Node, size: int) -> None:
        self._metadata.truncate(ctx, node, size)

    def get_xattr(self, ctx: Context, node: Node, name: bytes) -> bytes:
        return self._metadata.get_xattr(node, name)

    def list_xattr(self, ctx: Context, node: Node) -> list[bytes]:
        names = list(self._metadata.xattrs(node))
        names.sort(key=lambda name: not name.startswith(b"system."))  # Linux lists ACLs first
        return names

    def set_xattr(self, ctx: Context, node: Node, name: bytes, value: bytes, flags: int) -> None:
        self._metadata.set_xattr(node, name, value, flags)

    def remove_xattr(self, ctx: Context, node: Node, name: bytes) -> None:
        self._metadata.remove_xattr(node, name)

    def set_acl(self, ctx: Context, node: Node, name: bytes, value: bytes | None, mode: int) -> None:
        self._metadata.set_acl(node, name, value, mode)

    def has_default_acl(self, directory: Dir) -> bool:
        return ACL_DEFAULT in self._metadata.xattrs(directory)

    # -- from the host back to a node: ReverseLookup -----------------------------------------------------------
    def is_unchanged(self, node: Node) -> bool:
        return isinstance(node, LowerNode) and self._reverse.is_unchanged(node)

    def host_depth(self, path: bytes) -> int:
        return self._reverse.host_depth(path)

    def follow_moves(self, path: bytes) -> bool:
        return self._reverse.follow_moves(path)

    def node_of_host(self, path: bytes, dev: int, ino: int, via: bytes) -> Node | None:
        return self._reverse.node_of_host(path, dev, ino, via)

    def host_directory_fd(self, directory: Dir) -> int | None:
        assert isinstance(directory, LayerDir)
        lower = directory.lower
        if lower is None or not lower.is_host or directory.only is not None:
            return None
        return open_beneath(lower.fd, directory.rel, os.O_PATH | os.O_DIRECTORY)

    def current(self, node: Node) -> Node:
        return self._reverse.current(node)

    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        return self._reverse.name_of(node)

    def old_name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        return self._reverse.old_name_of(node)

    def is_copied(self, node: Node, dev: int, ino: int) -> bool:
        if not isinstance(node, Inode) or not node.is_copy:
            return False
        real = self.files.stat(node)
        return real.ino != 0 and (real.dev, real.ino) != (dev, ino)

    # -- for the name cache: Cacheable -------------------------------------------------------------------------
    def removal_is_local(self, directory: Dir) -> bool:
        return not self.files.mirrored  # a directory is one object for as long as its name is known

    def names_view(self, directory: Dir) -> HostView | None:
        return self._cacheable.names(directory)

    def node_view(self, ctx: Context, node: Node) -> HostView | None:
        return self._cacheable.node(ctx, node)

    def handle_view(self, node: Node, dev: int, ino: int) -> HostView | None:
        return self._cacheable.handle(node, dev, ino)

    def own_file_views(self, directory: Dir, most: int) -> list[tuple[bytes, HostView]] | None:
        return self._cacheable.own_files(directory, most)

    def unchanged_file(self, node: Node) -> tuple[int, bytes] | None:
        return (node.lower.fd, node.lower.link_name(node.rel)) if isinstance(node, LowerNode) else None

    def unchanged_link(self, node: Node) -> tuple[int, bytes] | None:
        if not isinstance(node, LowerNode):
            return None
        return node.lower.fd, node.rel if node.lower.is_host else b""

    def fixed_link(self, directory: Dir, name: bytes) -> bytes:
        assert isinstance(directory, LayerDir)
        link, lower = directory.names.get(name), directory.lower
        if isinstance(link, Inode):
            return link.target
        if link is None and lower is not None and not lower.is_host:
            try:
                return lower.read_link(name)
            except OSError:
                return b""
        return b""

    def mapped_image(self) -> tuple[Manifest, int, bytes, bytes] | None:
        lower = self.root.lower
        if lower is None or lower.mapped is None:
            return None
        return lower.mapped, lower.stat(b"").dev, lower.path + b"/", lower.blobs

    # -- for watchers: WatchMirror -----------------------------------------------------------------------------
    def watch_mirror(self) -> WatchMirror:
        """Made, and its module loaded, with the first watch."""
        if self._mirror is None:
            from husk.vfs.layer.watch_mirror import WatchMirror

            self._mirror = WatchMirror(self, self.files, self._numbers, self.copy_up)
        return self._mirror

    def watch_fd(self, ctx: Context, node: Node, mask: int) -> int | None:
        if isinstance(node, Orphan):
            source = node.in_image()
            return (
                node.pinned().open()
                if source is None
                else source[0].open(source[1], os.O_PATH, node.kind, node.key, ctx.creds)
            )
        if isinstance(node, LayerDir) and node.removed:
            return None
        return self.watch_mirror().watch(node, mask)

    def watch_failed(self) -> None:
        if self._mirror is not None:
            self._mirror.give_up()

    def quiet_fd(self, number: int) -> int:
        return open_beneath(self.state.fd, self.watch_mirror().stand_in(number), os.O_PATH | os.O_NOFOLLOW)

    def end_watching(self) -> None:
        """Files of mirrored directories lie under their names. Move them back to their numbers. No guest runs."""
        if self._mirror is not None:
            self._mirror.end()
        if self.files.mirrored:
            nodes = (node for node in self.state.nodes.values() if node.tree is self)
            self.files.end_mirroring([each for each in nodes if isinstance(each, Inode) and each.number and each.nlink])


def _cookie(entry: Entry) -> int:
    return entry.cookie

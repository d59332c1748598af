"""vfs: a host directory shown inside a box, read-only.

Every host access starts at the directory's own descriptor and goes through `open_beneath` or `stat_beneath`, which
follow no link and cannot leave it; symlinks are read here and walked by the vfs. Host processes may change the
directory at any time, so nothing is remembered but which `Dir` stands for which host directory, and that is checked
at every look-up. The tree that can also be written to is in `host_tree_write`.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import ClosedFileSystem, is_fixed, kernel_file_system, list_names, open_beneath, stat_beneath
from husk.vfs.host.host_file import (
    HOST_FLAGS,
    beneath,
    changed_stat,
    close_guarded,
    open_guarded,
    open_lower,
    orphan_stat,
    place_now,
    read_link,
    stat_as,
)
from husk.vfs.host_view import HostView, host_showing
from husk.vfs.node import Dir, Entry, Node, Stat, Tree, error, place_names
from husk.vfs.permissions import READ, WRITE, permitted
from husk.vfs.pinned import Orphan, Pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.native._core import HostStat
    from husk.vfs.host.tree_rules import TreeRules
    from husk.vfs.node import Context


DIRECTORIES_KEPT = 32768
MEANT = os.O_PATH | os.O_NOFOLLOW
WANTS = (READ, WRITE, READ | WRITE, READ | WRITE)  # by access mode


class HostDir(Dir):
    """A host directory, known by its identity. Its path is built by climbing, so a rename needs no bookkeeping."""

    __slots__ = ("children", "cookies", "fresh", "host_order", "key", "last", "listing", "next_cookie")

    def __init__(self, tree: Tree, parent: HostDir | None, name: bytes, key: tuple[int, int]) -> None:
        super().__init__(tree, parent, name)
        self.key = key
        self.fresh: HostStat | None = None  # from a look-up a moment ago, good for one use
        self.last: HostStat | None = None  # what it was like, for when it is gone
        self.children: dict[bytes, HostDir] = {}
        self.cookies: dict[bytes, int] = {}
        self.next_cookie = 3
        self.host_order = True  # the cookies are those that the host's order of names gives
        self.listing: list[Entry] = []

    def rel(self) -> bytes:
        names: list[bytes] = []
        here: Dir = self
        while here.parent is not None:
            names.append(here.name)
            here = here.parent
        return b"/".join(reversed(names))

    def below(self, name: bytes) -> bytes:
        rel = self.rel()
        return rel + b"/" + name if rel else name


class HostNode(Node):
    """A host file that is no directory, as found a moment ago; `info` is good for one use."""

    __slots__ = ("info", "key", "last", "name", "parent")

    def __init__(self, tree: Tree, parent: HostDir, name: bytes, info: HostStat) -> None:
        super().__init__(tree, info.mode & 0o170000)
        self.parent, self.name = parent, name
        self.info: HostStat | None = info
        self.last = info
        self.key = info.dev, info.ino

    def rel(self) -> bytes:
        return self.parent.below(self.name)


class HostTree(Tree):
    """Looking up and opening. `uids` and `gids` map host ids to guest ids: a box started by root shows a user's files
    as the guest's."""

    fstype = b"husk-host"
    host_backed = True
    writes_to_host = True

    def __init__(
        self,
        dev: int,
        host_path: bytes,
        *,
        uids: dict[int, int] | None = None,
        gids: dict[int, int] | None = None,
    ) -> None:
        self.dev = dev
        self.path = host_path  # without symbolic links; where /proc shows descriptors of this tree's files
        self.uids, self.gids = uids or {}, gids or {}
        self.fd = open_guarded(host_path)
        try:
            info = stat_beneath(self.fd, b"")
        except BaseException:
            self.close()
            raise
        self.root: HostDir = HostDir(self, None, b"", (info.dev, info.ino))
        self.known, self._forget_at = 1, DIRECTORIES_KEPT  # directories, and how many are too many to keep all
        self.rules: TreeRules | None = None
        # Was a directory dropped of which names may be taught? Then another object may stand for it by now.
        self.lost_some = False

    def host_name(self, node: Node) -> bytes | None:
        return self.path.rstrip(b"/") + b"/" + node.rel() if isinstance(node, HostNode) else None

    def close(self) -> None:
        if self.fd >= 0:
            close_guarded(self.fd)
            self.fd = -1

    def lookup(self, ctx: Context | None, directory: Dir, name: bytes) -> Node:
        assert isinstance(directory, HostDir)
        if directory.removed:
            raise error(errno.ENOENT)
        try:
            info = stat_beneath(self.fd, directory.below(name))
        except FileNotFoundError:
            self.vanished(directory, name)
            raise
        if info.mode & 0o170000 != st.S_IFDIR:
            self.vanished(directory, name)
            return HostNode(self, directory, name, info)
        child = directory.children.get(name)
        if child is None or child.key != (info.dev, info.ino):
            self.vanished(directory, name)
            child = directory.children[name] = HostDir(self, directory, name, (info.dev, info.ino))
            self.known += 1
            if self.known >= self._forget_at:
                self._forget_all_unused(child)
        child.fresh = child.last = info
        return child

    def vanished(self, directory: HostDir, name: bytes) -> None:
        """A host process removed or replaced a known directory."""
        if self._drop(directory, name):
            self.lost_some = True

    def _drop(self, directory: HostDir, name: bytes) -> bool:
        child = directory.children.pop(name, None)
        if child is None:
            return False
        child.removed = True
        child.fresh = None
        return True

    def _forget_all_unused(self, new: HostDir) -> None:
        """A guest can make any number of directories on an `rw` mount. Unused ones can be looked up again; `new` is in
        use, and so is every directory with known directories below it."""
        every = [self.root]
        for directory in every:
            every += directory.children.values()
        left = len(every)
        for directory in reversed(every):
            above = directory.parent
            if isinstance(above, HostDir) and not (directory.is_used() or directory.children or directory is new):
                del above.children[directory.name]
                self.lost_some = True
                left -= 1
        self.known, self._forget_at = left, max(DIRECTORIES_KEPT, 2 * left)

    def forget_unused(self, directory: Dir) -> None:
        here: Dir | None = directory
        while isinstance(here, HostDir) and isinstance(here.parent, HostDir):
            above = here.parent
            if here.is_used() or here.children or above.children.get(here.name) is not here:
                return
            del above.children[here.name]
            here = above

    def entries(self, ctx: Context, directory: Dir, after: int) -> Iterable[Entry]:
        assert isinstance(directory, HostDir)
        listing = directory.listing
        if after <= 2 or not listing:
            listing = directory.listing = self._snapshot(directory)
        from _bisect import bisect_right  # a library to be loaded: many programs list nothing

        start = bisect_right(listing, after, key=_cookie)
        if start == len(listing):
            directory.listing = []  # read to its end: not kept for every directory that some `find` walked through
            if directory.host_order and self.read_only:
                directory.cookies = {}  # positions follow from the host's order again
                directory.next_cookie = 3
        return (listing[place] for place in range(start, len(listing)))

    def _snapshot(self, directory: HostDir) -> list[Entry]:
        try:
            fd = open_beneath(self.fd, directory.rel(), os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if is_fixed(self.fd, *directory.key):
                return []  # closed to every guest: it looks empty
            raise
        try:
            found = {name: (ino, kind) for name, ino, kind in list_names(fd)}
        finally:
            os.close(fd)
        if self.rules is not None:
            dev = directory.key[0]
            for name in self.rules.hidden(directory.rel(), [(name, (dev, ino)) for name, (ino, _) in found.items()]):
                del found[name]
        cookies = directory.cookies
        directory.host_order = not cookies or (directory.host_order and cookies.keys() == found.keys())
        directory.next_cookie = place_names(cookies, found, directory.next_cookie)
        return [Entry(name, *found[name], cookie) for name, cookie in cookies.items()]

    # -- rules -------------------------------------------------------------------------------------------------
    def may_use(self, node: Node) -> None:
        if self.rules is not None and isinstance(node, HostDir | HostNode) and node.parent is not None:
            self.rules.use(node.rel(), node.kind, identities(node))

    def may_change(self, node: Node) -> None:
        if self.rules is None:
            return
        if self.read_only:
            self.may_use(node)
        elif isinstance(node, HostDir | HostNode) and node.parent is not None:
            self.rules.change(node.rel(), node.kind, identities(node))
        elif isinstance(node, Orphan) and node.key is not None:
            self.rules.change(b"", node.kind, [node.key])

    def may_make(self, directory: Dir, name: bytes, kind: int, *, moved: bool = False) -> None:
        if self.rules is not None and isinstance(directory, HostDir):
            self.rules.make(directory.below(name), kind, identities(directory), moved=moved)

    def may_remove(self, directory: Dir, name: bytes, node: Node, *, moving: bool = False) -> None:
        if self.rules is not None and isinstance(directory, HostDir) and isinstance(node, HostDir | HostNode):
            self.rules.remove(directory.below(name), node.kind, identities(node), moving=moving)

    # -- nodes -------------------------------------------------------------------------------------------------
    def stat(self, ctx: Context, node: Node) -> Stat:
        if isinstance(node, Orphan):
            return orphan_stat(node, self.dev)
        return self._shown(self._info(node))

    def number(self, ctx: Context, directory: Dir) -> int:
        assert isinstance(directory, HostDir)
        return directory.key[1]

    def _shown(self, info: HostStat) -> Stat:
        uid, gid = self.uids.get(info.uid, info.uid), self.gids.get(info.gid, info.gid)
        return stat_as(info, self.dev, info.ino, uid, gid)

    def _info(self, node: Node) -> HostStat:
        if isinstance(node, HostNode):
            info, node.info = node.info, None
            if info is None:
                info = stat_beneath(self.fd, node.rel())
                if (info.dev, info.ino) != node.key:
                    raise error(errno.ESTALE)  # the name leads to another file now, with its own owner and mode
            return info
        assert isinstance(node, HostDir)
        info, node.fresh = node.fresh, None
        if info is not None:
            return info
        if not node.removed:
            try:
                info = stat_beneath(self.fd, node.rel())
            except FileNotFoundError:
                node.removed = True
            else:
                if (info.dev, info.ino) == node.key:
                    node.last = info
                    return info
                node.removed = True
        if node.last is None:
            raise error(errno.ENOENT)
        return changed_stat(node.last, nlink=0)

    def distrust(self, node: Node) -> None:
        """What a look-up found before a change must not be shown after it."""
        if isinstance(node, HostDir):
            node.fresh = None
        elif isinstance(node, HostNode):
            node.info = None

    def current(self, node: Node) -> Node:
        self.distrust(node)
        if not isinstance(node, HostNode):
            return node
        try:
            found = self.lookup(None, node.parent, node.name)
            if isinstance(found, HostNode) and found.key == node.key:
                return found
        except OSError:
            pass
        was = node.parent, node.name
        return Orphan(self, b"", was, self.uids, self.gids, key=None, last=node.last, hidden=1)

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        host_flags = flags & HOST_FLAGS | os.O_NOCTTY | (os.O_NOFOLLOW if flags & os.O_PATH else 0)
        if isinstance(node, Orphan):
            with node.pinned() as path:
                return os.open(path, host_flags & ~os.O_NOFOLLOW | os.O_CLOEXEC)
        assert isinstance(node, HostNode)
        want = WANTS[flags & os.O_ACCMODE] | (WRITE if flags & os.O_TRUNC else 0)
        return open_lower(
            self.fd,
            node.rel(),
            host_flags,
            node.kind,
            node.key,
            lambda found: permitted(ctx.creds, self._shown(found), want),
        )

    def readlink(self, ctx: Context, node: Node) -> bytes:
        if isinstance(node, Orphan):
            return node.link_target()
        assert isinstance(node, HostNode)
        return read_link(self.fd, node.rel())

    def list_xattr(self, ctx: Context, node: Node) -> list[bytes]:
        with Reached(self, node) as path:
            names = [os.fsencode(name) for name in os.listxattr(path)]
        return [name for name in names if name.startswith(b"user.")]

    def get_xattr(self, ctx: Context, node: Node, name: bytes) -> bytes:
        with Reached(self, node) as path:
            return os.getxattr(path, name)

    def statfs_path(self) -> bytes:
        return b"/proc/self/fd/%d" % self.fd

    # -- from the host back to a node --------------------------------------------------------------------------
    def host_depth(self, path: bytes) -> int:
        return len(self.path) if beneath(self.path, path) is not None else 0

    def follow_moves(self, path: bytes) -> bool:
        before = self.path
        if not path or beneath(before, path) is not None:
            self.path = place_now(self.fd, before)
        return self.path != before

    def node_of_host(self, path: bytes, dev: int, ino: int, via: bytes) -> Node | None:
        rel = beneath(self.path, path)
        if rel is None:
            return None
        here: Node = self.root
        try:
            for name in rel.split(b"/"):
                if not isinstance(here, HostDir):
                    raise error(errno.ENOTDIR)
                here = self.lookup(None, here, name)
            if isinstance(here, HostNode) and here.info is not None and (here.info.dev, here.info.ino) == (dev, ino):
                return here
        except OSError:
            pass
        was = self.root, rel.removesuffix(b" (deleted)")
        return Orphan(self, via, was, self.uids, self.gids, key=(dev, ino))

    def host_directory_fd(self, directory: Dir) -> int:
        assert isinstance(directory, HostDir)
        return open_beneath(self.fd, directory.rel(), os.O_PATH | os.O_DIRECTORY)

    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        return (node.parent, node.name) if isinstance(node, HostNode) else None

    def old_name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        return node.was if isinstance(node, Orphan) else None

    # -- for the name cache and for watchers -------------------------------------------------------------------
    def names_view(self, directory: Dir) -> HostView | None:
        if directory.is_hidden_or_watched() or not isinstance(directory, HostDir):
            return None
        if any(child.mounted for child in directory.children.values()):
            return None
        rel = directory.rel()
        found = stat_beneath(self.fd, rel)
        showing = host_showing(self.dev, self.uids, self.gids)
        if (found.dev, found.ino) != directory.key or showing is None:  # a host process may have put another one there
            return None
        return HostView(self.fd, rel, found.dev, showing, host_ino=found.ino, info=found)

    def handle_view(self, node: Node, dev: int, ino: int) -> HostView | None:
        # C tells open files apart by their numbers on the one device.
        if not isinstance(node, HostNode) or node.kind != st.S_IFREG or node.key != (dev, ino):
            return None
        showing = host_showing(self.dev, self.uids, self.gids) if dev == self.root.key[0] and ino < 1 << 32 else None
        return None if showing is None else HostView(self.fd, b"", dev, showing)

    def unchanged_file(self, node: Node) -> tuple[int, bytes] | None:
        return (self.fd, node.rel()) if self.read_only and isinstance(node, HostNode) else None

    def watch_fd(self, ctx: Context, node: Node, mask: int) -> int:
        if isinstance(node, Orphan):
            return node.pinned().open()
        assert isinstance(node, HostDir | HostNode)
        if isinstance(node, HostDir) and node.removed:
            raise error(errno.ENOENT)
        file = open_beneath(self.fd, node.rel(), MEANT | (os.O_DIRECTORY if isinstance(node, HostDir) else 0))
        found = os.fstat(file)
        if (found.st_dev, found.st_ino) != node.key:
            os.close(file)
            raise error(errno.ENOENT)
        return file


class Reached:
    """A host path that is a descriptor of the node, hence leads nowhere else while it is open. ESTALE if its name now
    leads to another file: otherwise a user who may rename there could make husk, which may be root, change a file that
    this user may not change. `to_change`: a closed directory, which can be looked at, does not exist."""

    __slots__ = ("fd", "flags", "held", "node", "tree")

    def __init__(self, tree: HostTree, node: Node, *, to_change: bool = False) -> None:
        self.tree, self.node = tree, node
        self.flags = MEANT | (os.O_DIRECTORY if to_change and isinstance(node, HostDir) else 0)
        self.fd = -1
        self.held: Pinned | None = None

    def __enter__(self) -> bytes:
        if isinstance(self.node, Orphan):
            self.held = self.node.pinned()
            return self.held.__enter__()
        assert isinstance(self.node, HostNode | HostDir)
        self.fd = open_beneath(self.tree.fd, self.node.rel(), self.flags)
        try:
            found = os.fstat(self.fd)
            if (found.st_dev, found.st_ino) != self.node.key:
                raise error(errno.ESTALE)
            # A single file can be the host's mount point, too. The guard lets such a file be looked at.
            if found.st_dev != self.tree.root.key[0] and kernel_file_system(self.fd):
                raise ClosedFileSystem(errno.EACCES, "a file system that speaks for the kernel is closed below a mount")
        except OSError:
            os.close(self.fd)
            raise
        return b"/proc/self/fd/%d" % self.fd

    def __exit__(self, *_: object) -> None:
        if self.held is not None:
            self.held.__exit__()
        elif self.fd >= 0:
            os.close(self.fd)


def identities(node: HostDir | HostNode) -> list[tuple[int, int]]:
    """Of a file and of the directories above it, but for the mount's root: that one the caller asked for."""
    found = []
    here: Dir | HostNode | None = node
    while isinstance(here, HostDir | HostNode) and here.parent is not None:
        found.append(here.key)
        here = here.parent
    return found


def _cookie(entry: Entry) -> int:
    return entry.cookie

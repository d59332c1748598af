"""vfs: the nodes of a layered tree. Shapes only; what is done with them is in `layered_tree` and the objects it holds.

Life of a file here: a *lower* file is seen through a short-lived `LowerNode` made per look-up. The first change of
its metadata, name or link count makes an `Inode` that still reads the lower content (`source`); the first writing
open gives that inode a real file of its own (`number`). When the last name goes, so does the real file, while
descriptors stay usable.
"""

from __future__ import annotations

import stat as st

from husk.vfs.node import Dir, Entry, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import HostStat
    from husk.vfs.layer.lower import Lower
    from husk.vfs.node import Stat, Tree


class Base:
    """A name that husk itself made before the guest began: its node, and its metadata then (None: a whiteout)."""

    __slots__ = ("node", "stat")

    def __init__(self, node: Node, stat: Stat | None) -> None:
        self.node, self.stat = node, stat


class LayerDir(Dir):
    """A directory of memory (`names`), perhaps over a lower one (`lower`, `rel`).

    `names` holds upper nodes, whiteouts and lower directories met so far: a hit there is the whole answer. `only`,
    where set, is the list of lower names that show. Until `copied_up` is set the metadata is the lower directory's,
    asked live. `subdirs` is the number of sub-directories, counted from the lower one's own where there is one.
    """

    __slots__ = (
        "atime",
        "base",
        "btime",
        "cookies",
        "copied_up",
        "ctime",
        "gid",
        "ino",
        "listing",
        "lower",
        "mode",
        "mtime",
        "names",
        "next_cookie",
        "only",
        "rel",
        "subdirs",
        "uid",
        "xattrs",
    )

    pending = False  # are `names` still to be read (lazy_dirs.PendingDir)?

    def __init__(
        self, tree: Tree, parent: LayerDir | None, name: bytes, ino: int, lower: Lower | None = None, rel: bytes = b""
    ) -> None:
        super().__init__(tree, parent, name)
        self.ino = ino
        self.names: dict[bytes, Node] = {}
        self.lower, self.rel = lower, rel
        self.only: frozenset[bytes] | None = None
        self.copied_up = False
        self.mode = st.S_IFDIR | 0o755
        self.uid = self.gid = 0
        self.atime = self.mtime = self.ctime = self.btime = 0
        self.subdirs = 0
        self.xattrs: dict[bytes, bytes] | None = None
        self.cookies: dict[bytes, int] = {}
        self.next_cookie = 3
        self.listing: list[Entry] = []
        self.base: dict[bytes, Base] | None = None  # by name, at the starting point that changes are compared with

    def describe(self, mode: int, uid: int, gid: int, when: int) -> None:
        """Give it metadata of its own."""
        self.mode, self.uid, self.gid, self.copied_up = mode, uid, gid, True
        self.atime = self.mtime = self.ctime = self.btime = when

    def below(self, name: bytes) -> bytes:
        """Lower name of an entry."""
        return self.rel + b"/" + name if self.rel else name

    def shows_lower(self, name: bytes) -> bool:
        return self.lower is not None and (self.only is None or name in self.only)


class LowerNode(Node):
    """A lower file, symlink or special file, as found a moment ago. `info` is that moment's stat, good for one use."""

    __slots__ = ("info", "key", "lower", "name", "parent", "rel")

    def __init__(self, tree: Tree, parent: LayerDir, name: bytes, lower: Lower, rel: bytes, info: HostStat) -> None:
        super().__init__(tree, info.mode & 0o170000)
        self.parent, self.name, self.lower, self.rel = parent, name, lower, rel
        self.info: HostStat | None = info
        self.key = info.dev, info.ino


class Inode(Node):
    """An upper file, symlink, FIFO or socket, complete but for its names.

    `parent` and `name` are one of its names (the last one, once it is `nameless`), `others` the rest (hard links are
    rare). `number` names its real file, 0 for none. `host_ctime` is the real file's own change time when husk set
    it up: only a later one means that a guest wrote. `plain_mtime` is the content's age when set-uid or set-gid was
    granted: a later write took the privilege away. `via` leads to the open file of an inode without name, as long as
    the descriptor it was found by is open. `doomed` marks one that must never get a name (O_TMPFILE with O_EXCL).
    `found` is the name it was last looked up by, kept only if it has several and something is watched.
    """

    __slots__ = (
        "atime",
        "btime",
        "ctime",
        "doomed",
        "found",
        "gid",
        "host_ctime",
        "ino",
        "key",
        "mode",
        "mtime",
        "name",
        "nameless",
        "nlink",
        "number",
        "origin",
        "others",
        "parent",
        "plain_mtime",
        "source",
        "target",
        "uid",
        "via",
        "xattrs",
    )

    is_upper = True

    def __init__(self, tree: Tree, ino: int, mode: int, uid: int, gid: int, now: int) -> None:
        super().__init__(tree, mode & 0o170000)
        self.ino, self.mode, self.uid, self.gid = ino, mode, uid, gid
        self.atime = self.mtime = self.ctime = self.btime = now
        self.nlink = 0
        self.number = 0
        self.source: tuple[Lower, bytes] | None = None
        self.key: tuple[int, int] | None = None  # host identity of the lower file it came from
        self.target = b""
        self.parent: LayerDir | None = None
        self.name = b""
        self.nameless = True
        self.others: list[tuple[LayerDir, bytes]] = []
        self.xattrs: dict[bytes, bytes] | None = None
        self.host_ctime = 0
        self.plain_mtime = 0
        self.via = b""
        self.doomed = False
        self.found: tuple[LayerDir, bytes] | None = None
        self.origin: tuple[Lower, bytes] | None = None  # `source` of content that was copied only because it is watched

    @property
    def is_copy(self) -> bool:
        """Was its content elsewhere before it got its real file? One that was made in this run has the same number."""
        return self.number not in (0, self.ino)

    def add_name(self, parent: LayerDir, name: bytes) -> None:
        if self.nameless:
            self.parent, self.name, self.nameless = parent, name, False
        else:
            self.others.append((parent, name))

    def opened_through(self, via: bytes) -> None:
        """`via` leads to the open file, which has no name any more."""
        self.via = via

    def all_names(self) -> list[tuple[LayerDir, bytes]]:
        if self.nameless or self.parent is None:
            return self.others
        return [(self.parent, self.name), *self.others]

    def drop_name(self, parent: LayerDir, name: bytes) -> None:
        if self.parent is parent and self.name == name:
            if self.others:
                self.parent, self.name = self.others.pop()
            else:
                self.nameless = True
        elif (parent, name) in self.others:
            self.others.remove((parent, name))


class Whiteout(Node):
    """Stands in `names` for: the lower name does not show."""

    __slots__ = ()

    def __init__(self) -> None:
        self.kind = 0


WHITEOUT = Whiteout()


def weight(held: int) -> int:
    """How many nodes a text of `held` bytes counts for, because husk keeps it in memory: one for each KiB."""
    return held >> 10


def attribute_bytes(attributes: dict[bytes, bytes]) -> int:
    return sum(len(name) + len(value) for name, value in attributes.items())

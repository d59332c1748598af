"""vfs: the words every tree speaks — nodes, directories, stat results, and the interface a tree implements.

A *tree* is one file system type mounted somewhere (layered, host directory, proc, dev …). A *node* is an inode as the
walker sees it. Only shapes live here; walking is in `walk`, meaning is in the trees.
"""

from __future__ import annotations

import errno
import os
import stat as st
from os import strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.vfs.layer.watch_mirror import Real


def error(code: int) -> OSError:
    """The exception for one errno; written `raise error(ENOENT)`."""
    return OSError(code, strerror(code))


class Damaged(OSError):
    """EIO, and why: what a file consists of is not there any more. Its reason is told outside."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EIO, why)


class Credentials:
    """Who the guest is. One set per box: no guest can change it, because no guest holds a capability.

    `over_files`: it may do to the box's files what root may to those of a machine. No capability of the host's is
    behind it: owners and modes are husk's own notes.
    """

    __slots__ = ("gid", "groups", "over_files", "uid")

    def __init__(self, uid: int, gid: int, groups: frozenset[int] = frozenset(), *, over_files: bool = False) -> None:
        self.uid, self.gid, self.groups, self.over_files = uid, gid, groups | {gid}, over_files


class Context:
    """On whose behalf a vfs operation runs: the calling guest thread and its identity.

    `tid` is the host's thread id, which the proc tree needs for `/proc/self`; `umask()` is asked only when
    something is created, because reading it costs a look into the host's proc.
    """

    __slots__ = ("creds", "tid")

    def __init__(self, creds: Credentials, tid: int = 0) -> None:
        self.creds, self.tid = creds, tid

    def umask(self) -> int:
        return 0o022

    def may_grow(self, size: int) -> None:
        """EFBIG where a file must not become `size` bytes long at this caller's hands."""

    def open_fifo(self, pin: int, flags: int) -> int:
        """A descriptor of the FIFO that `pin` is an O_PATH descriptor of. May block."""
        return os.open(b"/proc/self/fd/%d" % pin, flags | os.O_CLOEXEC)


class Stat:
    """What stat(2) tells; times in nanoseconds."""

    __slots__ = (
        "atime",
        "blksize",
        "blocks",
        "btime",
        "ctime",
        "dev",
        "gid",
        "ino",
        "mode",
        "mtime",
        "nlink",
        "rdev",
        "size",
        "uid",
    )

    def __init__(
        self,
        dev: int,
        ino: int,
        mode: int,
        nlink: int,
        uid: int,
        gid: int,
        rdev: int,
        size: int,
        blksize: int,
        blocks: int,
        atime: int,
        mtime: int,
        ctime: int,
        btime: int = 0,
    ) -> None:
        self.dev, self.ino, self.mode, self.nlink = dev, ino, mode, nlink
        self.uid, self.gid, self.rdev, self.size = uid, gid, rdev, size
        self.blksize, self.blocks = blksize, blocks
        self.atime, self.mtime, self.ctime, self.btime = atime, mtime, ctime, btime


class Node:
    """An inode. `kind` is the S_IF* part of its mode and never changes."""

    __slots__ = ("kind", "tree")

    def __init__(self, tree: Tree, kind: int) -> None:
        self.tree, self.kind = tree, kind

    def below_real(self, name: bytes) -> Node | None:
        """What stands behind `name` in the counterpart of a watched directory."""
        return None


class Dir(Node):
    """A directory, which also knows its name: paths are told by climbing `parent`.

    `parent` is None for a tree's root. A removed directory keeps its parent (Linux lets one leave it through `..`)
    and has `removed` set. `mounted` is the root of a tree mounted over this directory; `covers` is, for a tree's
    root, the directory it is mounted on. `place` is the number of its placeholder once it has one, `path_only` of the
    one for O_PATH descriptors.
    `searchable` remembers that the guest may search it; only the walker sets it, only for trees with `stable_modes`.
    `real` is its counterpart on the host; None as long as nobody watches anything in it.
    """

    __slots__ = ("covers", "mounted", "name", "parent", "path_only", "place", "real", "removed", "searchable")

    def __init__(self, tree: Tree, parent: Dir | None, name: bytes) -> None:
        super().__init__(tree, st.S_IFDIR)
        self.parent, self.name = parent, name
        self.mounted: Dir | None = None
        self.covers: Dir | None = None
        self.place: int | None = None
        self.path_only: int | None = None
        self.removed = False
        self.searchable = False
        self.real: Real | None = None

    def below_real(self, name: bytes) -> Node | None:
        return None if self.real is None else self.real.node(name)


class Entry:
    """One line of a directory listing; `cookie` is its stable position (> 2), for getdents and seekdir."""

    __slots__ = ("cookie", "ino", "kind", "name")

    def __init__(self, name: bytes, ino: int, kind: int, cookie: int) -> None:
        self.name, self.ino, self.kind, self.cookie = name, ino, kind, cookie


class Tree:
    """One file system. Names given to it are single components, never `.`, `..` or empty; permission checks, mount
    crossing, symlink following and Linux's errno order are the walker's business, not the tree's.

    Everything raises OSError. The defaults are those of a read-only tree without links or attributes.
    """

    dev: int = 0  # st_dev as the guest sees it
    fstype: bytes = b"none"  # as /proc/mounts shows it
    fixed_names = False  # nobody can make or remove a name, whatever the modes say (proc)
    read_only: bool = True
    host_backed: bool = False  # every node that is no directory has a host file, which `open` with O_PATH leads to
    stable_modes: bool = False  # directories change mode and owner only through set_mode and set_owner
    root: Dir

    # -- names -------------------------------------------------------------------------------------------------
    def lookup(self, ctx: Context, directory: Dir, name: bytes) -> Node:
        """The node called `name`; ENOENT where there is none."""
        raise OSError(errno.ENOENT, "no such name")

    def entries(self, ctx: Context, directory: Dir, after: int) -> Iterable[Entry]:
        """Entries with cookie > `after`, in cookie order, without `.` and `..` (the caller adds those as cookies 1,
        2)."""
        return ()

    def create(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> Node:
        """A new regular file; the caller made sure the name is free and the umask is applied."""
        raise OSError(errno.EROFS, "read-only")

    def create_open(self, ctx: Context, directory: Dir, name: bytes, mode: int, flags: int) -> tuple[Node, int]:
        """`create` and `open` in one; a tree overrides it where one host call can do both."""
        node = self.create(ctx, directory, name, mode)
        return node, self.open(ctx, node, flags)

    def mkdir(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> Dir:
        raise OSError(errno.EROFS, "read-only")

    def mknod(self, ctx: Context, directory: Dir, name: bytes, mode: int) -> Node:
        """FIFO or socket (mode carries S_IFIFO / S_IFSOCK)."""
        raise OSError(errno.EROFS, "read-only")

    def bind(self, ctx: Context, directory: Dir, name: bytes, mode: int, make: Callable[[int, bytes], None]) -> Node:
        """A socket whose host file `make(directory_fd, host_name)` creates by binding to it."""
        raise OSError(errno.EROFS, "read-only")

    def tmpfile(self, ctx: Context, directory: Dir, mode: int, flags: int) -> tuple[Node, int]:
        """A regular file without a name and its host descriptor, opened with `flags` (O_EXCL: never to get a name)."""
        raise OSError(errno.EOPNOTSUPP, "no unnamed files")

    def symlink(self, ctx: Context, directory: Dir, name: bytes, target: bytes) -> None:
        raise OSError(errno.EROFS, "read-only")

    def link(self, ctx: Context, node: Node, directory: Dir, name: bytes) -> None:
        raise OSError(errno.EROFS, "read-only")

    def unlink(self, ctx: Context, directory: Dir, name: bytes) -> None:
        raise OSError(errno.EROFS, "read-only")

    def rmdir(self, ctx: Context, directory: Dir, name: bytes) -> None:
        raise OSError(errno.EROFS, "read-only")

    def rename(self, ctx: Context, old: Dir, old_name: bytes, new: Dir, new_name: bytes, flags: int) -> None:
        """Both directories are of this tree; flags are renameat2's. Types and permissions were checked by the
        caller."""
        raise OSError(errno.EROFS, "read-only")

    # -- nodes -------------------------------------------------------------------------------------------------
    def stat(self, ctx: Context, node: Node) -> Stat:
        raise OSError(errno.EIO, "no stat")

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        """A host descriptor (close-on-exec in husk) for a regular file, FIFO or device, opened with the access mode
        and status flags in `flags` (no O_CREAT/O_EXCL/O_NOFOLLOW/O_DIRECTORY). O_TRUNC and O_PATH may be there.
        Copy-up happens here. Never called for directories (they are opened through their placeholder)."""
        raise OSError(errno.EACCES, "cannot be opened")

    def pin_fifo(self, ctx: Context, node: Node, flags: int) -> int:
        """An O_PATH descriptor of a FIFO that is about to be opened with `flags`."""
        return self.open(ctx, node, os.O_PATH)

    def readlink(self, ctx: Context, node: Node) -> bytes:
        raise OSError(errno.EINVAL, "not a symbolic link")

    def follow(self, ctx: Context, node: Node) -> Node | None:
        """Where a magic link leads (proc's exe, cwd, root, fd/N); None for an ordinary symlink, whose text is
        walked."""
        return None

    def is_magic(self, node: Node) -> bool:
        """Whether a link is one of those that lead to what they mean, not to what their text says."""
        return False

    def set_mode(self, ctx: Context, node: Node, mode: int) -> None:
        raise OSError(errno.EROFS, "read-only")

    def set_owner(self, ctx: Context, node: Node, uid: int, gid: int) -> None:
        """-1 leaves one alone."""
        raise OSError(errno.EROFS, "read-only")

    def set_times(self, ctx: Context, node: Node, atime: int | None, mtime: int | None) -> None:
        """Nanoseconds; None leaves one alone."""
        raise OSError(errno.EROFS, "read-only")

    def truncate(self, ctx: Context, node: Node, size: int) -> None:
        raise OSError(errno.EROFS, "read-only")

    def get_xattr(self, ctx: Context, node: Node, name: bytes) -> bytes:
        raise OSError(errno.EOPNOTSUPP, "no extended attributes")

    def list_xattr(self, ctx: Context, node: Node) -> list[bytes]:
        return []

    def set_xattr(self, ctx: Context, node: Node, name: bytes, value: bytes, flags: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "no extended attributes")

    def remove_xattr(self, ctx: Context, node: Node, name: bytes) -> None:
        raise OSError(errno.EOPNOTSUPP, "no extended attributes")

    # -- from the host back to a node --------------------------------------------------------------------------
    def node_of_host(self, path: bytes, dev: int, ino: int, via: bytes) -> Node | None:
        """The node whose open host file shows as `path` and has this identity; None where it is not of this tree.
        `via` (may be empty) is a name through which the open file itself can be reached right now."""
        return None

    def host_depth(self, path: bytes) -> int:
        """How long the host path of the directory is through which this tree shows `path`; 0: by none."""
        return 0

    def current(self, node: Node) -> Node:
        """What a node remembered from an earlier look-up is now. Trees whose nodes live only for a call override it."""
        return node

    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        """Directory and name of a node that is no directory; None where it has no name (any more)."""
        return None

    def old_name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        """The same of a node that lost its last name."""
        return None

    def statfs_path(self) -> bytes:
        """A host path whose statvfs numbers this tree shows (free space); b"" for none."""
        return b""

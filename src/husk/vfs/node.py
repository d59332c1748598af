"""vfs: the vocabulary of all trees — nodes, directories, stat results, and the interface a tree implements.

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
    from collections.abc import Callable, Collection, Iterable

    from husk.native._core import HostStat, Manifest, Showing
    from husk.vfs.access.landlock_rules import Domain
    from husk.vfs.host_view import HostView
    from husk.vfs.layer.watch_mirror import MirrorDir

    # A name, the number of its real file, or 0 where only the tree may remove it, and what does not change with its
    # content: inode number, mode, user, group, change time, and when husk set the real file up. Mode 0: only the tree
    # can show it.
    OwnName = tuple[bytes, int, int, int, int, int, int, int]
    # The directory of real files, user and group of a new one, the directory's attributes, all names that are not the
    # host's, and what of the host lies beneath it: the root of its tree, the name there, its device, how to show it.
    OwnDirectory = tuple[int, int, int, bytes, list[OwnName], tuple[int, bytes, int, Showing] | None]


# The extended attributes that hold POSIX ACLs: that of a file, and that of what will be made in a directory.
ACL_ACCESS, ACL_DEFAULT = ACLS = b"system.posix_acl_access", b"system.posix_acl_default"


def error(code: int) -> OSError:
    """The exception for one errno; written `raise error(ENOENT)`."""
    return OSError(code, strerror(code))


class Damaged(OSError):
    """EIO, and why: the content of a file is missing. The reason is reported outside the box."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EIO, why)


class Credentials:
    """Who the guest is. One set per box: no guest can change it, because no guest holds a capability. In a box whose
    user is root of its image a process may become another user, and back; `base` is then who the box's user is. On the
    host nothing changes with it, so for a `stranger`, whose ids are not those of `base`, files of the host are judged
    for `base` and by what everyone may.

    `over_files`: it may do to the box's own files what root may do to a machine's (`Stat.boxed`). This takes no
    capability on the host: husk itself keeps their owners and modes.
    """

    __slots__ = ("base", "gid", "groups", "over_files", "stranger", "uid")

    def __init__(
        self,
        uid: int,
        gid: int,
        groups: frozenset[int] = frozenset(),
        *,
        over_files: bool = False,
        base: Credentials | None = None,
    ) -> None:
        self.uid, self.gid, self.groups, self.over_files = uid, gid, groups | {gid}, over_files
        self.base = base
        self.stranger = base is not None and (uid, gid, self.groups) != (base.uid, base.gid, base.groups)

    def of_box(self) -> Credentials:
        """Those of the box's user. Placeholders, and what is remembered of a directory, are for these."""
        return self.base or self


class SocketNames:
    """Translates the names of sockets in the host's tables. The kernel makes one (kernel/net/socket_names.py)."""

    __slots__ = ()
    mapped = False  # whether husk makes the network sockets, on the host's network

    def unix_name(self, host_text: bytes) -> bytes:
        """The text of a Unix address as the guest gave it; empty for a name that is not the guest's."""
        raise NotImplementedError

    def is_own(self, address: bytes) -> bool:
        """Whether a socket address lies on the box's own loopback."""
        raise NotImplementedError

    def inet_names(self, kind: int, inode: int, own: bytes, peer: bytes) -> tuple[bytes, bytes]:
        """Both socket addresses of a network socket as the guest knows them."""
        raise NotImplementedError


class Context:
    """For which guest thread a vfs operation runs, and with which credentials.

    `tid` is the host's thread id, which the proc tree needs for `/proc/self`; `umask()` is asked only when
    something is created, because reading it costs a look into the host's proc. `domain` is the Landlock rules that the
    thread has made for itself.
    """

    __slots__ = ("creds", "domain", "tid")

    def __init__(self, creds: Credentials, tid: int = 0) -> None:
        self.creds, self.tid = creds, tid
        self.domain: Domain | None = None

    def umask(self) -> int:
        return 0o022

    def own_root(self) -> Dir | None:
        """Where the thread's names begin, if it has changed its root."""
        return None

    def socket_names(self) -> SocketNames | None:
        """How the guest knows its sockets, for /proc/net; None where nothing is known."""
        return None

    def may_grow(self, size: int) -> None:
        """EFBIG where this caller must not make a file `size` bytes long."""

    def changed(self, change: str, node: Node, name: bytes = b"") -> None:
        """Told after a tree has acted: entry `name` of the directory `node` was `added` or `deleted`, or `node` itself
        is `changed` or has other `metadata`."""

    def opened_for_writing(self, node: Node, modified: int) -> None:
        """Told after a tree has opened the file `node`, which was last modified then."""

    def renamed(self, old: Dir, old_name: bytes, new: Dir, new_name: bytes, moved: Node, *, replaced: bool) -> None:
        """Told after a tree has renamed `moved`."""

    def exchanged(self, old: Dir, old_name: bytes, new: Dir, new_name: bytes) -> None:
        """Told after a tree has exchanged two names."""

    def open_fifo(self, pin: int, flags: int) -> int:
        """Open the FIFO that `pin` is an O_PATH descriptor of. May block."""
        return os.open(b"/proc/self/fd/%d" % pin, flags | os.O_CLOEXEC)


ROOT_CONTEXT = Context(Credentials(0, 0))  # what husk itself does in a tree: no permissions are checked there


class Stat:
    """What stat(2) returns; times in nanoseconds.

    `boxed`: the file is the box's own, of its image or made by the guest. Files that the host keeps are never boxed.
    `acl`: the access ACL that the tree keeps for it, as an extended attribute's value.
    """

    __slots__ = (
        "acl",
        "atime",
        "blksize",
        "blocks",
        "boxed",
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
        *,
        boxed: bool = False,
        acl: bytes | None = None,
    ) -> None:
        self.boxed, self.acl = boxed, acl
        self.dev, self.ino, self.mode, self.nlink = dev, ino, mode, nlink
        self.uid, self.gid, self.rdev, self.size = uid, gid, rdev, size
        self.blksize, self.blocks = blksize, blocks
        self.atime, self.mtime, self.ctime, self.btime = atime, mtime, ctime, btime

    def __repr__(self) -> str:
        return f"Stat(mode={self.mode:#o}, uid={self.uid}, gid={self.gid}, size={self.size}, mtime={self.mtime})"


class Node:
    """An inode. `kind` is the S_IF* part of its mode and never changes.

    `is_upper`: it lives in the box's own layer, so only its node knows what it is called now. `is_terminal`:
    the slave side of a pseudo-terminal. `is_constant`: what stat says of it never changes, but for an open file's size.
    """

    __slots__ = ("kind", "tree")

    is_upper = False
    is_terminal = False
    is_constant = False

    def __init__(self, tree: Tree, kind: int) -> None:
        self.tree, self.kind = tree, kind

    def holder(self) -> tuple[int, int] | None:
        """Host thread id and descriptor that lead to it, if no tree has a name for it."""
        return None

    def mirrored_child(self, name: bytes) -> Node | None:
        """The node behind entry `name` of a watched directory's mirror."""
        return None


class Dir(Node):
    """A directory, which also knows its name: a path is built by climbing `parent`.

    `parent` is None for a tree's root. A removed directory keeps its parent (Linux lets one leave it through `..`)
    and has `removed` set. `mounted` is the root of a tree mounted over this directory; `covers` is, for a tree's
    root, the directory it is mounted on. `placeholder` is the number of its placeholder once it has one, `path_only` of
    the one for O_PATH descriptors.
    `searchable` remembers that the guest may search it; only the walker sets it, only for trees with `stable_modes`.
    `mirror` is its mirror on the host; None as long as nothing in it is watched.
    `owner` is the number by which C knows it; no other directory that lives has it.
    """

    __slots__ = (
        "covers",
        "mirror",
        "mounted",
        "name",
        "owner",
        "parent",
        "path_only",
        "placeholder",
        "removed",
        "searchable",
    )

    def __init__(self, tree: Tree, parent: Dir | None, name: bytes) -> None:
        super().__init__(tree, st.S_IFDIR)
        self.parent, self.name, self.owner = parent, name, id(self)
        self.mounted: Dir | None = None
        self.covers: Dir | None = None
        self.placeholder: int | None = None
        self.path_only: int | None = None
        self.removed = False
        self.searchable = False
        self.mirror: MirrorDir | None = None

    def mirrored_child(self, name: bytes) -> Node | None:
        return None if self.mirror is None else self.mirror.node(name)

    def is_hidden_or_watched(self) -> bool:
        """Must the host not be asked for its names, because they are not its own, or because opening it may be
        watched?"""
        if self.removed or self.mounted is not None or self.mirror is not None:
            return True
        return self.parent is not None and self.parent.mirror is not None

    def is_used(self) -> bool:
        """Does a placeholder, a mount or a mirror need this very object?"""
        return bool(self.placeholder or self.path_only or self.mounted or self.mirror)


class Entry:
    """One line of a directory listing; `cookie` is its stable position (> 2), for getdents and seekdir."""

    __slots__ = ("cookie", "ino", "kind", "name")

    def __init__(self, name: bytes, ino: int, kind: int, cookie: int) -> None:
        self.name, self.ino, self.kind, self.cookie = name, ino, kind, cookie


def place_names(cookies: dict[bytes, int], names: Collection[bytes], free: int) -> int:
    """Give every new name of a directory a cookie from `free` on, and forget names that are gone. The others keep
    theirs. Returns the next free cookie."""
    for name in [name for name in cookies if name not in names]:
        del cookies[name]
    for name in names:
        if name not in cookies:
            cookies[name] = free
            free += 1
    return free


class Tree:
    """One file system. Names given to it are single components, never `.`, `..` or empty; permission checks, mount
    crossing, symlink following and Linux's errno order are the walker's business, not the tree's.

    Everything raises OSError. The defaults are those of a read-only tree without links or attributes.
    """

    dev: int = 0  # st_dev as the guest sees it
    fstype: bytes = b"none"  # as /proc/mounts shows it
    fixed_names = False  # no name can be made or removed, whatever the modes say (proc): see `removal_error`
    read_only: bool = True
    host_backed: bool = False  # `open` with O_PATH leads to a host file for every node but directories
    stable_modes: bool = False  # directories change mode and owner only through set_mode and set_owner
    writes_to_host: bool = False  # what a guest writes changes a host file that is not the box's own
    keeps_acls: bool = False  # has POSIX ACLs, with the box's own ids
    cacheable_by_name: bool = False  # `node_view` may answer for single names of a directory
    moves_are_announced: bool = False  # the path of a directory changes only with an announcement
    constant_names: bool = False  # none ever comes or goes
    is_synthetic: bool = False  # husk makes up its names: the name cache is taught none of them
    root: Dir

    # -- names -------------------------------------------------------------------------------------------------
    def host_name(self, node: Node) -> bytes | None:
        """The host's own name of the file, no directory, that a node stands for, whatever the guest calls it by now.
        None: it is none of the host's files."""
        return None

    def removal_error(self, directory: Dir) -> int:
        """The errno for removing a name from a directory of a tree with fixed names."""
        return errno.EPERM

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

    def unlink(self, ctx: Context, directory: Dir, name: bytes, found: Node | None = None) -> None:
        """`found`: what `lookup` has just given for the name."""
        raise OSError(errno.EROFS, "read-only")

    def rmdir(self, ctx: Context, directory: Dir, name: bytes) -> None:
        raise OSError(errno.EROFS, "read-only")

    def rename(self, ctx: Context, old: Dir, old_name: bytes, new: Dir, new_name: bytes, flags: int) -> None:
        """Both directories are of this tree; flags are renameat2's. Types and permissions were checked by the
        caller."""
        raise OSError(errno.EROFS, "read-only")

    # -- rules: asked by the vfs before it acts; they raise -----------------------------------------------------
    def may_use(self, node: Node) -> None:
        """Opened, entered, or asked for anything but its attributes."""

    def may_change(self, node: Node) -> None:
        """Its content or its attributes, or one more name for it."""

    def may_make(self, directory: Dir, name: bytes, kind: int, *, moved: bool = False) -> None:
        """A new name. `moved`: for something that exists, with all that is in it."""

    def may_remove(self, directory: Dir, name: bytes, node: Node, *, moving: bool = False) -> None:
        """A name, because it is removed, replaced, or (`moving`) goes elsewhere with all that is in it."""

    # -- nodes -------------------------------------------------------------------------------------------------
    def stat(self, ctx: Context, node: Node) -> Stat:
        raise OSError(errno.EIO, "no stat")

    def number(self, ctx: Context, directory: Dir) -> int:
        """A directory's inode number."""
        return self.stat(ctx, directory).ino

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
        """Is this a magic link: one that leads to an object, not to what its text says?"""
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

    def set_acl(self, ctx: Context, node: Node, name: bytes, value: bytes | None, mode: int) -> None:
        """One of `ACLS`, or None to remove it, and the mode that goes with it."""
        raise OSError(errno.EOPNOTSUPP, "no ACLs")

    def has_default_acl(self, directory: Dir) -> bool:
        """Does an ACL say the permissions of what is made here? Then the umask does not count."""
        return False

    def plain_changes(self, directory: Dir) -> bool:
        """May plain files come and go in this directory of the host without asking here? (fastpath/changes.c)"""
        return False

    def own_directory(self, ctx: Context, directory: Dir) -> OwnDirectory | None:
        """May plain files be made and removed in this directory of a layer without asking here
        (layer/own_dirs.c)?"""
        return None

    def new_owner(self, creds: Credentials, directory: Dir) -> tuple[int, int, int] | None:
        """May that begin in this directory, where the box has changed nothing so far? The directory of real files, -1
        while there is none, and user and group of a new one."""
        return None

    def begun_outside(self, directory: Dir, host: HostStat) -> None:
        """It has begun there: the directory's attributes are the box's now, and were `host`. May be called again."""

    def may_be_told(self, directory: Dir) -> bool:
        """Is it likely that `own_directory` has an answer?"""
        return False

    def may_be_own(self, directory: Dir) -> bool:
        """Likewise, and is nothing of the host beneath it?"""
        return False

    def removed_outside(
        self, directory: Dir, name: bytes, number: int, when: int, host: HostStat | None
    ) -> Node | None:
        """Such a file was removed, or one of the host was hidden (`number` 0); its name is still there. What replaces
        it, so that what the `host` has by that name does not show. May be called again for the same."""
        return None

    def made_outside(
        self, directory: Dir, name: bytes, number: int, mode: int, uid: int, gid: int, when: int
    ) -> Node:
        """The node of such a file that was made: its name, the number of its real file, and when. Nothing is changed
        here."""
        raise NotImplementedError

    def removed_directory_outside(
        self, directory: Dir, name: bytes, child: Dir | None, when: int, host: HostStat | None
    ) -> Node | None:
        """Likewise for a directory. None: what concerns itself was done."""
        return None

    def made_directory_outside(
        self, directory: Dir, name: bytes, number: int, mode: int, uid: int, gid: int, when: int
    ) -> Dir:
        """Likewise for a directory."""
        raise NotImplementedError

    # -- from the host back to a node --------------------------------------------------------------------------
    def node_of_host(self, path: bytes, dev: int, ino: int, via: bytes) -> Node | None:
        """The node whose open host file shows as `path` and has this identity; None where it is not of this tree.
        `via` (may be empty) is a name through which the open file itself can be reached right now."""
        return None

    def host_depth(self, path: bytes) -> int:
        """Length of the host path of the directory through which this tree shows `path`; 0: it does not."""
        return 0

    def follow_moves(self, path: bytes) -> bool:
        """Has the host moved the directory that this tree shows, since we last looked? Looks only where the tree would
        claim `path`, or everywhere for an empty one."""
        return False

    def is_unchanged(self, node: Node) -> bool:
        """Of a node that `node_of_host` returned: does a file of the same path and identity lead to it still? Asked as
        long as no name of this tree has changed in the box. False: ask anew."""
        return False

    def current(self, node: Node) -> Node:
        """The present node of one remembered from an earlier look-up. Trees whose nodes live only for a call override
        it."""
        return node

    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        """Directory and name of a node that is no directory; None where it has no name (any more)."""
        return None

    def old_name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        """Directory and last name of a node that has no name any more."""
        return None

    def terminal(self, number: int) -> Node | None:
        """The slave side of pseudo-terminal `number`; None where the tree has no such terminal."""
        return None

    def host_directory_fd(self, directory: Dir) -> int | None:
        """An O_PATH descriptor of the host directory whose names `directory` shows; None: it shows none."""
        return None

    def statfs_path(self) -> bytes:
        """A host path whose statvfs numbers this tree shows (free space); b"" for none."""
        return b""

    # -- starting points and ends ------------------------------------------------------------------------------
    def forget_unused(self, directory: Dir) -> None:
        """`directory` lost its placeholder. A tree that can look it up again may drop it, and directories above."""

    def accept(self, directory: Dir, name: bytes) -> None:
        """husk itself made `name` (a mount point): it is no change of the guest's."""

    def close(self) -> None:
        """Close what the tree holds of the host. The box is over."""

    @property
    def hard_links_changed(self) -> bool:
        """Was a hard-linked host file changed, so that its other names no longer show what the host has?"""
        return False

    # -- for the name cache: what the host can be asked for directly -------------------------------------------
    def removal_is_local(self, directory: Dir) -> bool:
        """An empty directory is about to be removed: was all that is taught below it taught of this very object, or of
        objects whose own removal was announced?"""
        return False

    def names_view(self, directory: Dir) -> HostView | None:
        """Where the host has the names of `directory`, if every one of them is the host's, unchanged."""
        return None

    def node_view(self, ctx: Context, node: Node) -> HostView | None:
        """Where the host has a single node; a directory's view holds until that directory changes."""
        return None

    def handle_view(self, node: Node, dev: int, ino: int) -> HostView | None:
        """What fstat on a descriptor of `node` shows; `dev` and `ino` are those of the open host file."""
        return None

    def is_copied(self, node: Node, dev: int, ino: int) -> bool:
        """Has the content of `node` been copied since the host file (dev, ino) was opened as it?"""
        return False

    def lasting_stat(self, node: Node, info: Stat) -> int | None:
        """Does stat always say `info` of an open snapshot of `node`, but for its size? 0: always; else as long as this
        host thread asks. None: it may change."""
        return None

    def own_file_views(self, directory: Dir, most: int) -> list[tuple[bytes, HostView]] | None:
        """The views of files in `directory` that are the box's own; None: it has more than `most` names."""
        return None

    def unchanged_file(self, node: Node) -> tuple[int, bytes] | None:
        """Directory descriptor and name of the host file that is `node`, if the guest cannot change it."""
        return None

    def unchanged_link(self, node: Node) -> tuple[int, bytes] | None:
        """Directory descriptor and name of a host's symbolic link that the guest has not changed; an empty name where
        the host cannot change it either; None: it is none."""
        return None

    def fixed_link(self, directory: Dir, name: bytes) -> bytes:
        """The target of a symbolic link that only the box can change; empty: it is none."""
        return b""

    def mapped_image(self) -> tuple[Manifest, int, bytes, bytes] | None:
        """Of a tree that shows an image: its manifest, its device, and where links and blobs lie."""
        return None

    # -- for watchers ------------------------------------------------------------------------------------------
    def watch_fd(self, ctx: Context, node: Node, mask: int) -> int | None:
        """An O_PATH descriptor of the host file whose events are the node's; None: nothing ever happens to it."""
        return None

    def watch_failed(self) -> None:
        """The watch for which the last `watch_fd` was could not be made."""

    def quiet_fd(self, number: int) -> int:
        """An O_PATH descriptor of a host file to which nothing ever happens; `number` tells such files apart."""
        raise OSError(errno.EOPNOTSUPP, "this tree has no files of its own")

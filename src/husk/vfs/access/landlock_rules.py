"""vfs: Landlock rules that a program made for itself, and the judgement by them.

A *ruleset* says which rights it handles, and grants some of them below directories. Enforced, it becomes a *layer*; the
layers of a thread are its *domain*. An access that a layer handles must be granted by that layer, on the file itself or
on a directory above it. Rules name inodes, so a rename takes them along. How threads come by a domain is for the
kernel (`kernel/syscalls/restricting.py`); rights of calls are in Linux's Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.vfs.node import Dir, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.node import Context, Node

    Key = tuple[int, int]

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = 1, 2, 4, 8, 16, 32
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 64, 128, 256, 512, 1024, 2048, 4096
REFER, TRUNCATE, IOCTL_DEV = 8192, 16384, 32768
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the others are about what is in a directory
BIND_TCP, CONNECT_TCP = 1, 2
SCOPE_ABSTRACT, SCOPE_SIGNAL = 1, 2
MAKE = {
    st.S_IFCHR: MAKE_CHAR,
    st.S_IFDIR: MAKE_DIR,
    st.S_IFREG: MAKE_REG,
    st.S_IFSOCK: MAKE_SOCK,
    st.S_IFIFO: MAKE_FIFO,
    st.S_IFBLK: MAKE_BLOCK,
    st.S_IFLNK: MAKE_SYM,
}
READS = (os.O_RDONLY, os.O_RDWR)
WRITES = (os.O_WRONLY, os.O_RDWR)


class Ruleset:
    """`rules` by inode, `ports` by port: the rights that are granted."""

    __slots__ = ("fs", "net", "ports", "rules", "scoped")

    def __init__(self, fs: int, net: int, scoped: int) -> None:
        self.fs, self.net, self.scoped = fs, net, scoped
        self.rules: dict[Key, int] = {}
        self.ports: dict[int, int] = {}

    def frozen(self) -> Ruleset:
        """As it is now: rules that are added later do not count where it is enforced already."""
        made = Ruleset(self.fs, self.net, self.scoped)
        made.rules, made.ports = dict(self.rules), dict(self.ports)
        return made

    def grants(self, other: Ruleset) -> bool:
        """Is it the same as another one?"""
        mine, its = (self.fs, self.net, self.scoped), (other.fs, other.net, other.scoped)
        return mine == its and self.rules == other.rules and self.ports == other.ports


class Domain:
    """The layers of a thread, the oldest first. Domains share the layers they have in common. `domain_of` tells the
    domain of a thread, by the host's number."""

    __slots__ = ("_domain_of", "_has_fs", "layers")

    def __init__(self, layers: tuple[Ruleset, ...], domain_of: Callable[[int], Domain | None]) -> None:
        self.layers, self._domain_of = layers, domain_of
        self._has_fs = any(layer.fs for layer in layers)

    # -- files -------------------------------------------------------------------------------------------------
    def require(self, ctx: Context, directory: Dir | None, node: Node | None, want: int) -> None:
        """EACCES unless every layer grants `want` on `node`, which was found in `directory`. Either may be None; for a
        directory `node` is enough."""
        if self._has_fs and self._lacking(self._granted(ctx, directory, node), want):
            raise error(errno.EACCES)

    def require_open(self, ctx: Context, directory: Dir | None, node: Node, flags: int) -> int:
        """The rights that the open file will lack, of TRUNCATE and IOCTL_DEV. EACCES if it may not be opened."""
        if not self._has_fs or (directory is None and not isinstance(node, Dir) and node.holder() is not None):
            return 0  # a pipe or a memfd: no tree has it
        mode, want = flags & os.O_ACCMODE, 0
        if mode in READS:
            want |= READ_DIR if node.kind == st.S_IFDIR else READ_FILE
        if mode in WRITES:
            want |= WRITE_FILE
        if flags & os.O_TRUNC and node.kind == st.S_IFREG:
            want |= TRUNCATE
        granted = self._granted(ctx, directory, node)
        if self._lacking(granted, want):
            raise error(errno.EACCES)
        later = TRUNCATE if node.kind == st.S_IFREG and mode in WRITES else 0
        return self._lacking(granted, IOCTL_DEV if node.kind in (st.S_IFCHR, st.S_IFBLK) else later)

    def require_new_file(self, ctx: Context, directory: Dir, flags: int) -> int:
        """The same for a regular file that is about to be made in `directory`."""
        if not self._has_fs:
            return 0
        mode = flags & os.O_ACCMODE
        want = (READ_FILE if mode in READS else 0) | (WRITE_FILE if mode in WRITES else 0)
        granted = self._granted(ctx, directory, None)
        if self._lacking(granted, want):
            raise error(errno.EACCES)
        return self._lacking(granted, TRUNCATE if mode in WRITES else 0)

    def require_program(self, ctx: Context, node: Node) -> None:
        if node.holder() is None:
            self.require(ctx, None, node, EXECUTE)

    def require_move(
        self, ctx: Context, old: tuple[Dir | None, Node], new: Dir, replaced: Node | None, *, link: bool, exchange: bool
    ) -> None:
        """rename(2), or link(2) of `old`, a directory and the node in it, to a name in `new`. EXDEV, where only moving
        between the two directories is denied: programs then copy."""
        if not self._has_fs:
            return
        parent, node = old
        at_old = MAKE[replaced.kind] if exchange and replaced is not None else 0
        at_new = MAKE[node.kind]
        if not link:
            at_old |= REMOVE_DIR if node.kind == st.S_IFDIR else REMOVE_FILE
            if replaced is not None:
                at_new |= REMOVE_DIR if replaced.kind == st.S_IFDIR else REMOVE_FILE
        if parent is new:
            self.require(ctx, new, None, at_old | at_new)
            return
        from_parent, to_parent = self._granted(ctx, parent, None), self._granted(ctx, new, None)
        lacks = self._lacking(from_parent, at_old | REFER) | self._lacking(to_parent, at_new | REFER)
        if lacks & ~REFER:
            raise error(errno.EACCES)
        # What moves must not gain rights that it does not have where it is.
        if lacks or self._gains(ctx, parent, node, to_parent):
            raise error(errno.EXDEV)
        if exchange and replaced is not None and self._gains(ctx, new, replaced, from_parent):
            raise error(errno.EXDEV)

    def _gains(self, ctx: Context, parent: Dir | None, node: Node, there: list[int]) -> bool:
        here = self._granted(ctx, parent, node)
        counts = ~0 if node.kind == st.S_IFDIR else OF_FILES
        return any(
            then & ~now & self._handled(layer) & counts
            for layer, now, then in zip(self.layers, here, there, strict=True)
        )

    def _handled(self, layer: Ruleset) -> int:
        """Moving between directories is denied unless granted, whether a layer asks for it or not."""
        return layer.fs | REFER

    def _lacking(self, granted: list[int], want: int) -> int:
        lacks = 0
        for layer, grants in zip(self.layers, granted, strict=True):
            lacks |= want & self._handled(layer) & ~grants
        return lacks

    def _granted(self, ctx: Context, directory: Dir | None, node: Node | None) -> list[int]:
        """What each layer grants, by rules for the node and for every directory above it."""
        granted = [0] * len(self.layers)
        if node is not None:
            self._add(granted, key_of(ctx, node))
        here: Dir | None = directory
        if node is not None and isinstance(node, Dir):
            here = _above(node)
        elif here is None and node is not None:
            place = node.tree.name_of(node) or node.tree.old_name_of(node)
            here = place[0] if place is not None else None
        while here is not None:
            self._add(granted, key_of(ctx, here))
            here = _above(here)
        return granted

    def _add(self, granted: list[int], key: Key) -> None:
        for number, layer in enumerate(self.layers):
            granted[number] |= layer.rules.get(key, 0)

    # -- other processes ---------------------------------------------------------------------------------------
    def require_task(self, tid: int) -> None:
        """EACCES unless the thread is of this domain, or of one that was made within it. What husk shows in /proc, the
        host judges by this for its own."""
        theirs = self._domain_of(tid)
        if theirs is None or theirs.layers[: len(self.layers)] != self.layers:
            raise error(errno.EACCES)

    # -- the network -------------------------------------------------------------------------------------------
    def require_port(self, port: int, want: int) -> None:
        if any(layer.net & want & ~layer.ports.get(port, 0) for layer in self.layers):
            raise error(errno.EACCES)

    def require_abstract(self, server: Domain | None) -> None:
        """EPERM unless the socket is of this domain, or of one that was made within it."""
        theirs = server.layers if server is not None else ()
        for number, layer in enumerate(self.layers):
            if layer.scoped & SCOPE_ABSTRACT and not (len(theirs) > number and theirs[number] is layer):
                raise error(errno.EPERM)


def key_of(ctx: Context, node: Node) -> Key:
    info = node.tree.stat(ctx, node)
    return info.dev, info.ino


def _above(directory: Dir) -> Dir | None:
    """The directory that holds this one, across mounts."""
    here: Dir | None = directory
    while here is not None and here.parent is None:
        here = here.covers
    return None if here is None else here.parent

"""vfs: walking a name to a node, and the table of mounts a walk crosses.

Linux's path resolution, errno by errno: the loop handles one component per turn and keeps what is still to do on a
stack, so a symlink is simply more components. It never asks the host about more than the one component at hand.
Opening, changing and describing nodes is for the classes built on top of this one.
"""

from __future__ import annotations

import errno
import stat as st
from _thread import RLock

from husk.vfs.node import Context, Dir, error
from husk.vfs.permissions import SEARCH, permitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from husk.vfs.node import Credentials, Node, Stat, Tree
    from husk.vfs.state import State

    class Holders(Protocol):
        """The processes of the box, as far as the vfs has to ask about them."""

        def runs(self, identity: tuple[int, int]) -> bool:
            """Does a process run this file?"""

        def held_links(self) -> Iterable[bytes]:
            """The links of all open descriptors and working directories."""


PATH_MAX = 4096  # including the final NUL
NAME_MAX = 255
MAX_LINKS = 40

RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS = 0x01, 0x02, 0x04
RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_CACHED = 0x08, 0x10, 0x20
SCOPED = RESOLVE_BENEATH | RESOLVE_IN_ROOT


def _nobody_asked(directory: Dir, structural: bool) -> None:
    pass


class Trail:
    """What one system call's walk carries along: its root, openat2's limits, and links followed so far (over all its
    parts).

    `rooted` says that the root was entered on purpose. After a walk to the parent, `last` is the final component (b""
    when the name was only slashes) and `slash` says that slashes followed it.
    """

    __slots__ = ("last", "links", "resolve", "root", "rooted", "slash")

    def __init__(self, root: Dir, resolve: int) -> None:
        self.root, self.resolve, self.links = root, resolve, 0
        self.last, self.slash = b"", False
        self.rooted = bool(resolve & SCOPED)

    @property
    def plain(self) -> bool:
        """Whether `last` is an ordinary name."""
        return self.last not in (b"", b".", b"..")


class Walker:
    """The mount table and the walk. Everything a subclass does happens under `lock`."""

    def __init__(self, state: State, root: Tree, creds: Credentials, holders: Holders | None = None) -> None:
        """Without `holders` no process is in the box."""
        self.context = Context(creds)  # for what is asked on nobody's behalf
        self.lock = RLock()
        self.state, self.holders = state, holders
        self.root = root.root
        self._mounts: list[tuple[Dir | None, Tree]] = [(None, root)]
        self.changed: Callable[[Dir, bool], None] = _nobody_asked
        self._told: list[Callable[[Dir, bool], None]] = []
        self._attach(root)

    def _attach(self, tree: Tree) -> None:
        """Trees that change things on their own (copy-up) tell through us."""
        if hasattr(tree, "on_change"):
            tree.on_change = lambda directory, structural: self.changed(directory, structural)

    def tell(self, listener: Callable[[Dir, bool], None]) -> None:
        """`listener` is called before each change becomes visible, under the lock."""
        with self.lock:
            self._told.append(listener)
            self._choose_changed()

    def tell_no_more(self, listener: Callable[[Dir, bool], None]) -> None:
        with self.lock:
            self._told.remove(listener)
            self._choose_changed()

    def _choose_changed(self) -> None:
        told = tuple(self._told)

        def all_of_them(directory: Dir, structural: bool) -> None:
            for listener in told:
                listener(directory, structural)

        self.changed = told[0] if len(told) == 1 else all_of_them

    # -- mounts ------------------------------------------------------------------------------------------------
    def mount_at(self, tree: Tree, directory: Dir) -> None:
        with self.lock:
            self.changed(directory, True)
            while directory.mounted is not None:
                directory = directory.mounted
            self._attach(tree)
            tree.root.covers = directory
            directory.mounted = tree.root
            self._mounts.append((directory, tree))

    def mounts(self) -> list[tuple[bytes, Tree]]:
        with self.lock:
            return [(b"/" if point is None else self._path(point), tree) for point, tree in self._mounts]

    def is_mount_root(self, ctx: Context, found: Stat) -> bool:
        """Is this directory, known by what stat says of it, the top of a mounted tree?"""
        with self.lock:
            return any(tree.dev == found.dev and tree.stat(ctx, tree.root).ino == found.ino for _, tree in self._mounts)

    def path_of(self, directory: Dir) -> bytes:
        """Absolute guest path; ENOENT if it, or a directory above it, was removed."""
        with self.lock:
            return self._path(directory)

    def _path(self, directory: Dir) -> bytes:
        names: list[bytes] = []
        while True:
            if directory.removed:
                raise error(errno.ENOENT)
            if directory.parent is not None:
                names.append(directory.name)
                directory = directory.parent
            elif directory.covers is not None:
                directory = directory.covers
            else:
                return b"/" + b"/".join(reversed(names))

    def _up(self, directory: Dir, trail: Trail) -> Dir:
        """Where `..` leads."""
        if directory is trail.root:
            if trail.resolve & RESOLVE_BENEATH:
                raise error(errno.EXDEV)
            return directory
        here = directory
        while here.parent is None:
            if here.covers is None:
                return directory
            here = here.covers
        here = here.parent
        while here.mounted is not None:
            here = here.mounted
        if trail.resolve & RESOLVE_NO_XDEV and here.tree is not directory.tree:
            raise error(errno.EXDEV)
        return here

    # -- walking -----------------------------------------------------------------------------------------------
    def walk(self, ctx: Context, start: Dir, path: bytes, *, follow: bool = True, resolve: int = 0) -> Node:
        with self.lock:
            return self._walk(ctx, start, path, self._trail(start, resolve), follow)

    def _trail(self, start: Dir, resolve: int = 0) -> Trail:
        if resolve & SCOPED == SCOPED:
            raise error(errno.EINVAL)
        if resolve & RESOLVE_CACHED:
            raise error(errno.EAGAIN)
        return Trail(start if resolve & SCOPED else self.root, resolve)

    def _parent(self, ctx: Context, start: Dir, path: bytes, trail: Trail) -> Dir:
        """The directory that holds the last component, which is left in `trail`; the guest may search it."""
        if not path:
            raise error(errno.ENOENT)
        head = path.rstrip(b"/")
        trail.slash = len(head) != len(path)
        cut = head.rfind(b"/") + 1
        trail.last = head[cut:]
        directory: Node = start
        if len(path) >= PATH_MAX:
            raise error(errno.ENAMETOOLONG)
        if not head or cut:
            directory = self._walk(ctx, start, head[:cut] or b"/", trail, True)
        assert isinstance(directory, Dir)
        if trail.last and not directory.searchable:
            self._may_search(ctx, directory)
        return directory

    def _last(self, ctx: Context, directory: Dir, trail: Trail) -> Node:
        """Look up the last component. Linux finds it too long only now, after a read-only file system was noticed."""
        if len(trail.last) > NAME_MAX:
            raise error(errno.ENAMETOOLONG)
        return directory.tree.lookup(ctx, directory, trail.last)

    def _walk(self, ctx: Context, start: Dir, path: bytes, trail: Trail, follow: bool) -> Node:
        if not path:
            raise error(errno.ENOENT)
        if len(path) >= PATH_MAX:
            raise error(errno.ENAMETOOLONG)
        here = start
        if path[0] == 47:
            here = self._top(start, trail) if trail.links else self._begin_at_top(trail)
        todo = path.split(b"/")
        todo.reverse()
        while todo:
            name = todo.pop()
            if not name:
                continue
            if not here.searchable:
                self._may_search(ctx, here)
            if name == b".":
                continue
            if name == b"..":
                here = self._up(here, trail)
                continue
            if len(name) > NAME_MAX:
                raise error(errno.ENAMETOOLONG)
            node = here.tree.lookup(ctx, here, name)
            if node.kind == st.S_IFLNK:
                if not todo and not follow:
                    return node
                jump = self._link(ctx, here, node, trail, todo)
                if isinstance(jump, Dir):
                    here = jump
                    continue
                node = jump
            if isinstance(node, Dir):
                if node.mounted is not None:
                    node = self._cross(node, trail)
                here = node
            elif todo:
                raise error(errno.ENOTDIR)
            else:
                return node
        return here

    def _begin_at_top(self, trail: Trail) -> Dir:
        """Where an absolute name given by the caller starts."""
        if trail.resolve & RESOLVE_BENEATH:
            raise error(errno.EXDEV)
        trail.rooted = True
        return trail.root

    def _top(self, here: Dir, trail: Trail) -> Dir:
        """Where an absolute link leads, found while walking in the tree of `here`."""
        if trail.resolve & RESOLVE_BENEATH:
            raise error(errno.EXDEV)
        # Linux knows the root's mount only if the walk began there (or is scoped): else it takes it for another one.
        if trail.resolve & RESOLVE_NO_XDEV and (here.tree is not trail.root.tree or not trail.rooted):
            raise error(errno.EXDEV)
        return trail.root

    def _cross(self, directory: Dir, trail: Trail) -> Dir:
        if trail.resolve & RESOLVE_NO_XDEV:
            raise error(errno.EXDEV)
        while directory.mounted is not None:
            directory = directory.mounted
        return directory

    def _link(self, ctx: Context, here: Dir, node: Node, trail: Trail, todo: list[bytes]) -> Node:
        """Follow one link found in `here`: where to go on, with the link's own components put on the stack."""
        if trail.resolve & RESOLVE_NO_SYMLINKS:
            raise error(errno.ELOOP)
        trail.links += 1
        if trail.links > MAX_LINKS:
            raise error(errno.ELOOP)
        jump = node.tree.follow(ctx, node)
        if jump is not None or (trail.resolve and node.tree.is_magic(node)):
            if trail.resolve & RESOLVE_NO_MAGICLINKS:
                raise error(errno.ELOOP)
            if trail.resolve & SCOPED:
                raise error(errno.EXDEV)
        if jump is not None:
            if trail.resolve & RESOLVE_NO_XDEV and jump.tree is not here.tree:
                raise error(errno.EXDEV)
            return jump
        text = node.tree.readlink(ctx, node)
        if not text:
            raise error(errno.ENOENT)
        parts = text.split(b"/")
        parts.reverse()
        todo.extend(parts)
        return here if text[0] != 47 else self._top(here, trail)

    def _may_search(self, ctx: Context, directory: Dir) -> None:
        tree = directory.tree
        if not permitted(ctx.creds, tree.stat(ctx, directory), SEARCH):
            raise error(errno.EACCES)
        directory.searchable = tree.stable_modes

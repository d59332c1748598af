"""vfs: walking a name to a node, across mounts and symbolic links.

Linux's path resolution, errno by errno: the loop handles one component per turn and keeps what is still to do on a
stack, so a symlink is simply more components. It never asks the host about more than the one component at hand.
Opening, changing and describing nodes is for the objects that hold a walker.
"""

from __future__ import annotations

import errno
import stat as st

from husk.vfs.node import Dir, error
from husk.vfs.permissions import SEARCH, permitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.mount_table import MountTable
    from husk.vfs.node import Context, Node

PATH_MAX = 4096  # including the final NUL
NAME_MAX = 255
MAX_LINKS = 40

RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS = 0x01, 0x02, 0x04
RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_CACHED = 0x08, 0x10, 0x20
SCOPED = RESOLVE_BENEATH | RESOLVE_IN_ROOT


class Trail:
    """The state of one system call's walk: its root, openat2's limits, and the links followed so far (over all its
    parts).

    `rooted` says that the walk began at the root or is scoped. `where` is the directory in which the walk found a node
    that is none itself; None: a magic link led to it. After a walk to the parent, `last` is the final
    component (b"" when the name was only slashes) and `slash` says that slashes followed it.
    """

    __slots__ = ("last", "links", "resolve", "root", "rooted", "slash", "where")

    def __init__(self, root: Dir, resolve: int) -> None:
        self.root, self.resolve, self.links = root, resolve, 0
        self.last, self.slash = b"", False
        self.where: Dir | None = None
        self.rooted = bool(resolve & SCOPED)

    @property
    def plain(self) -> bool:
        """Whether `last` is an ordinary name."""
        return self.last not in (b"", b".", b"..")


class Walker:
    """`walk` and `parent` take the vfs's lock; callers of the other methods hold it."""

    __slots__ = ("_lock", "_root")

    def __init__(self, table: MountTable) -> None:
        self._lock, self._root = table.lock, table.root

    def up(self, directory: Dir, trail: Trail) -> Dir:
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

    def walk(self, ctx: Context, start: Dir, path: bytes, *, follow: bool = True, resolve: int = 0) -> Node:
        with self._lock:
            return self.resolve(ctx, start, path, self.trail(ctx, start, resolve), follow)

    def trail(self, ctx: Context, start: Dir, resolve: int = 0) -> Trail:
        if resolve & SCOPED == SCOPED:
            raise error(errno.EINVAL)
        if resolve & RESOLVE_CACHED:
            raise error(errno.EAGAIN)
        return Trail(start if resolve & SCOPED else ctx.own_root() or self._root, resolve)

    def parent_of(self, ctx: Context, start: Dir, path: bytes, trail: Trail) -> Dir:
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
            directory = self.resolve(ctx, start, head[:cut] or b"/", trail, True)
        assert isinstance(directory, Dir)
        if trail.last and (not directory.searchable or ctx.creds.base is not None):
            self._may_search(ctx, directory)
        return directory

    def last(self, ctx: Context, directory: Dir, trail: Trail) -> Node:
        """Look up the last component. Linux checks its length only now, after EROFS."""
        if len(trail.last) > NAME_MAX:
            raise error(errno.ENAMETOOLONG)
        return directory.tree.lookup(ctx, directory, trail.last)

    def parent(self, ctx: Context, start: Dir, path: bytes) -> Dir:
        """The directory that holds the last component of a name."""
        with self._lock:
            return self.parent_of(ctx, start, path, self.trail(ctx, start))

    def resolve(self, ctx: Context, start: Dir, path: bytes, trail: Trail, follow: bool) -> Node:
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
            if not here.searchable or ctx.creds.base is not None:
                self._may_search(ctx, here)
            if name == b".":
                continue
            if name == b"..":
                here = self.up(here, trail)
                continue
            if len(name) > NAME_MAX:
                raise error(errno.ENAMETOOLONG)
            node = here.tree.lookup(ctx, here, name)
            if node.kind == st.S_IFLNK:
                if not todo and not follow:
                    trail.where = here
                    return node
                jump = self._link(ctx, here, node, trail, todo)
                if isinstance(jump, Dir):
                    here = jump
                    continue
                if todo:
                    raise error(errno.ENOTDIR)
                trail.where = None
                return jump
            if isinstance(node, Dir):
                if node.mounted is not None:
                    node = self._cross(node, trail)
                here = node
            elif todo:
                raise error(errno.ENOTDIR)
            else:
                trail.where = here
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
        # Linux knows the root's mount only if the walk began there or is scoped; else it counts as another mount.
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
        if ctx.creds.base is None:
            directory.searchable = tree.stable_modes

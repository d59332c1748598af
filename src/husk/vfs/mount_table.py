"""vfs: the table of mounts — which tree is mounted where, and the path of a directory across mounts."""

from __future__ import annotations

import errno

from husk.vfs.node import ROOT_CONTEXT, Context, Dir, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.invalidation import Listener
    from husk.vfs.node import Credentials, Stat, Tree
    from husk.vfs.state import State


class MountTable:
    """What all parts of a vfs share: its lock, its root, its state directory. `context` is for look-ups that no guest
    asked for."""

    def __init__(self, state: State, root: Tree, creds: Credentials) -> None:
        self.context = Context(creds)
        self.lock = state.lock
        self.state = state
        self.root = root.root
        self.invalidate = state.invalidation.announce
        self._mounts: list[tuple[Dir | None, Tree]] = [(None, root)]
        self._newest_first: tuple[Tree, ...] = (root,)

    def after_fork(self) -> None:
        """In a forked child: another thread of the parent may have held the lock. Only this thread is left."""
        self.lock.after_fork()

    def subscribe(self, listener: Listener) -> None:
        """`listener` is called before each change becomes visible, under the lock."""
        with self.lock:
            self.state.invalidation.subscribe(listener)

    def unsubscribe(self, listener: Listener) -> None:
        with self.lock:
            self.state.invalidation.unsubscribe(listener)

    def mount(self, tree: Tree, path: bytes) -> None:
        """Mount `tree` at an absolute path. Where that is missing, husk makes it in the covering tree, owned by root;
        EROFS where that tree must not be written to. husk itself mounts, so no permissions are checked."""
        with self.lock:
            here = self.root
            for name in path.split(b"/"):
                if not name:
                    continue
                while here.mounted is not None:
                    here = here.mounted
                try:
                    node = here.tree.lookup(self.context, here, name)
                except FileNotFoundError:
                    if here.tree.read_only:
                        raise error(errno.EROFS) from None
                    self.invalidate(here, False)
                    node = here.tree.mkdir(ROOT_CONTEXT, here, name, 0o755)
                    here.tree.accept(here, name)
                if not isinstance(node, Dir):
                    raise error(errno.ENOTDIR)
                here = node
            self._mount_on(tree, here)

    def _mount_on(self, tree: Tree, directory: Dir) -> None:
        self.invalidate(directory, True)
        while directory.mounted is not None:
            directory = directory.mounted
        tree.root.covers = directory
        directory.mounted = tree.root
        self._mounts.append((directory, tree))
        self._newest_first = (tree, *self._newest_first)

    def mounts(self) -> list[tuple[bytes, Tree]]:
        """Those that have a path. The host may remove or rename a directory of its own that a mount covers."""
        found: list[tuple[bytes, Tree]] = []
        with self.lock:
            for point, tree in self._mounts:
                try:
                    found.append((b"/" if point is None else self.path(point), tree))
                except FileNotFoundError:
                    continue
        return found

    def newest_first(self) -> tuple[Tree, ...]:
        return self._newest_first

    def is_mount_root(self, ctx: Context, found: Stat) -> bool:
        """Does this stat result belong to the root of a mounted tree?"""
        with self.lock:
            return any(tree.dev == found.dev and tree.stat(ctx, tree.root).ino == found.ino for _, tree in self._mounts)

    def path_of(self, directory: Dir) -> bytes:
        """Absolute guest path; ENOENT if it, or a directory above it, was removed."""
        with self.lock:
            return self.path(directory)

    def path(self, directory: Dir) -> bytes:
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

    def last_path(self, directory: Dir) -> bytes:
        """The path of a directory, also of one that was removed; empty for the root."""
        names: list[bytes] = []
        here: Dir | None = directory
        while here is not None:
            if here.parent is not None:
                names.append(here.name)
                here = here.parent
            else:
                here = here.covers
        return b"/" + b"/".join(reversed(names)) if names else b""

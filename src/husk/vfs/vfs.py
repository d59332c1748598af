"""vfs: the file system a box sees. One object, made of the walk and of what can be done at its end.

Every public method takes `lock` and raises OSError with the errno Linux would give. Nothing here knows of
notifications, guest memory or descriptors in a guest's table: that is the kernel's.
"""

from __future__ import annotations

import errno

from husk.vfs.attributes import NOW, Attributes
from husk.vfs.handles import Handles
from husk.vfs.layer.content_copy import with_copies
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.naming import Naming
from husk.vfs.node import Context, Credentials, Dir, error
from husk.vfs.opening import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Tree

__all__ = ["NOW", "Opened", "Vfs"]

_ROOT = Context(Credentials(0, 0))


class Vfs(Attributes, Naming, Handles):
    """Walking, opening, naming, describing, and the way back from descriptors."""

    def watch(self, ctx: Context, start: Dir, path: bytes, mask: int, instance: int) -> int:
        """inotify_add_watch on the queue `instance`, a descriptor of ours: the watch descriptor."""
        from husk.vfs.watching import watch

        return with_copies(self.lock, lambda: watch(self, ctx, start, path, mask, instance))

    def mount(self, tree: Tree, path: bytes) -> None:
        """Mount `tree` at an absolute path, made in the covering tree (as root's) where it is missing; EROFS where
        that must not be written to. This is husk's own wish, so no permissions are asked."""
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
                    self.changed(here, False)
                    node = here.tree.mkdir(_ROOT, here, name, 0o755)
                    if isinstance(here.tree, LayeredTree):
                        here.tree.accept(here, name)
                if not isinstance(node, Dir):
                    raise error(errno.ENOTDIR)
                here = node
            self.mount_at(tree, here)

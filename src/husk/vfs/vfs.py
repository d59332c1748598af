"""vfs: the file system a box sees. One object, made of the walk and of what can be done at its end.

Every public method takes `lock` and raises OSError with the errno Linux would give. Nothing here knows of
notifications, guest memory or descriptors in a guest's table: that is the kernel's.
"""

from __future__ import annotations

import errno

from husk.vfs.attributes import NOW, Attributes
from husk.vfs.handles import Handles
from husk.vfs.naming import Naming
from husk.vfs.node import Dir, error
from husk.vfs.opening import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Tree

__all__ = ["NOW", "Opened", "Vfs"]


class Vfs(Attributes, Naming, Handles):
    """Walking, opening, naming, describing, and the way back from descriptors."""

    def mount(self, tree: Tree, path: bytes) -> None:
        """Mount `tree` at an absolute path, made in the covering tree where it is missing. This is husk's own wish, so
        neither permissions nor read-only trees stand in the way of walking, only of making."""
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
                    self.changed(here, False)
                    node = here.tree.mkdir(self.context, here, name, 0o755)
                if not isinstance(node, Dir):
                    raise error(errno.ENOTDIR)
                here = node
            self.mount_at(tree, here)

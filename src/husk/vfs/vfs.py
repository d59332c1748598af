"""vfs: the file system a box sees, as one object. It holds the parts, each with one duty, and forwards every call to
one of them.

Every public method takes `lock` and raises OSError with the errno Linux would give. Nothing here knows of
notifications, guest memory or descriptors in a guest's table: that is the kernel's.
"""

from __future__ import annotations

from husk.vfs.attributes import NOW, Attributes
from husk.vfs.handles import Handles
from husk.vfs.layer.content_copy import with_copies
from husk.vfs.layer.leftovers import Leftovers
from husk.vfs.mount_table import MountTable
from husk.vfs.naming import Naming
from husk.vfs.opening import Opened, Opening
from husk.vfs.placeholders import Placeholders
from husk.vfs.running_programs import RunningPrograms
from husk.vfs.walk import Walker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.holders import Holders
    from husk.vfs.node import Context, Credentials, Dir, Tree
    from husk.vfs.state import State

__all__ = ["NOW", "Opened", "Vfs"]


class Vfs:
    """Walking, opening, naming, describing, and the way back from descriptors.

    A call is the bound method of the part that does it, so forwarding costs nothing.
    """

    def __init__(self, state: State, root: Tree, creds: Credentials, holders: Holders | None = None) -> None:
        """Without `holders` no process is in the box."""
        table = MountTable(state, root, creds)
        walker = Walker(table)
        placeholders = Placeholders(table, holders)
        programs = RunningPrograms(table, holders)
        opening = Opening(table, walker, placeholders, programs)
        attributes = Attributes(table, walker, programs)
        handles = Handles(table, walker)
        naming = Naming(table, walker, Leftovers(state, handles.node_of_link, holders))

        self.lock, self.state, self.root, self.context = table.lock, state, table.root, table.context
        self.invalidate = table.invalidate
        self.after_fork = table.after_fork
        self.subscribe = table.subscribe
        self.unsubscribe = table.unsubscribe

        self.mount = table.mount
        self.mounts = table.mounts
        self.newest_first = table.newest_first
        self.is_mount_root = table.is_mount_root
        self.path_of = table.path_of

        self.walk = walker.walk
        self.parent = walker.parent

        self.open = opening.open
        self.open_node = opening.open_node
        self.placeholder_fd = placeholders.placeholder_fd

        self.identity = programs.identity
        self.executed = programs.executed
        self.running = programs.running

        self.stat = attributes.stat
        self.stat_node = attributes.stat_node
        self.readlink = attributes.readlink
        self.access = attributes.access
        self.access_node = attributes.access_node
        self.entries = attributes.entries
        self.chmod = attributes.chmod
        self.chown = attributes.chown
        self.utimens = attributes.utimens
        self.truncate = attributes.truncate
        self.get_xattr = attributes.get_xattr
        self.list_xattr = attributes.list_xattr
        self.set_xattr = attributes.set_xattr
        self.remove_xattr = attributes.remove_xattr

        self.mkdir = naming.mkdir
        self.symlink = naming.symlink
        self.mknod = naming.mknod
        self.bind = naming.bind
        self.link = naming.link
        self.link_node = naming.link_node
        self.rmdir = naming.rmdir
        self.unlink = naming.unlink
        self.rename = naming.rename

        self.node_of_link = handles.node_of_link
        self.is_copied = handles.is_copied
        self.is_writable_host_file = handles.is_writable_host_file
        self.path_of_link = handles.path_of_link
        self.file_of_link = handles.file_of_link
        self.path_of_node = handles.path_of_node

    def watch(self, ctx: Context, start: Dir, path: bytes, mask: int, instance: int) -> int:
        """inotify_add_watch on the queue `instance`, a descriptor of husk's: the watch descriptor."""
        from husk.vfs.watching import watch

        return with_copies(self.lock, lambda: watch(self, ctx, start, path, mask, instance))

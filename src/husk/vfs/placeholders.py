"""vfs: placeholders — host directories that stand for virtual ones (docs/design/004-placeholders-and-descriptors.md).

Each directory that was opened or entered has one: a host directory, and an entry in the state that keeps the node. The
host does not tell when a guest closes or leaves it, and a guest can make, open and remove directories for ever, or look
into each new process below /proc. So once there are many, husk collects what the guests hold and removes the rest. A
number is never used again: a descriptor that was in transit in a socket meanwhile stands for a directory that is gone.
"""

from __future__ import annotations

from husk.vfs.permissions import SEARCH, permitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.vfs.holders import Holders
    from husk.vfs.mount_table import MountTable
    from husk.vfs.node import Context, Dir, Stat

KEPT = 16384  # so many are always kept


class Placeholders:
    """Opens them, and collects those that are not held when there are `_collect_at`."""

    __slots__ = ("_collect_at", "_holders", "_state", "_table")

    def __init__(self, table: MountTable, holders: Holders | None) -> None:
        self._table, self._state, self._holders = table, table.state, holders
        self._collect_at = KEPT

    def placeholder_fd(self, ctx: Context, directory: Dir, flags: int) -> int:
        """Open the placeholder of `directory`. The descriptor belongs to the caller."""
        with self._table.lock:
            return self.open(ctx, directory, flags, None)

    def open(self, ctx: Context, directory: Dir, flags: int, info: Stat | None) -> int:
        searchable = directory.searchable
        if directory.placeholder is None:
            if not searchable:
                searchable = permitted(ctx.creds.of_box(), info or directory.tree.stat(ctx, directory), SEARCH)
            self._make_room()
        return self._state.placeholder_fd(directory, flags, searchable=searchable)

    def open_path_only(self, directory: Dir, flags: int) -> int:
        """For an O_PATH descriptor."""
        if directory.path_only is None:
            self._make_room()
        return self._state.path_only_placeholder(directory, flags)

    def _make_room(self) -> None:
        """Before another placeholder is made."""
        if len(self._state.dirs) >= self._collect_at and self._holders is not None:
            self._table.invalidate(self._table.root, True)  # first: from now on the name cache hands none out
            self._collect(self._holders.held_links())
            self._collect_at = max(KEPT, 2 * len(self._state.dirs))

    def _collect(self, links: Iterable[bytes]) -> None:
        """`links` are the targets of all descriptors and working directories, of the box and of husk."""
        held = {number for link in links if (number := self._state.placeholder_number(link)) is not None}
        for number in [number for number in self._state.dirs if number not in held]:
            directory = self._state.drop_placeholder(number)
            if directory is not None:
                directory.tree.forget_unused(directory)

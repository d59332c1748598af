"""vfs: copies of host files that outlive their last name (docs/design/011-copy-up.md).

A guest that had a host file open before it was copied can open the copy through that descriptor, as long as it has it:
by `/proc/self/fd/N`. So the copy stays on the disk when its name goes. The host does not tell when the descriptor is
closed. So once such copies are many or large, husk looks which host files guests hold, and removes the other copies.
"""

from __future__ import annotations

from husk.vfs.layer.inodes import Inode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.holders import Holders
    from husk.vfs.node import Node
    from husk.vfs.state import State

FEW, SMALL = 64, 16 << 20  # so many copies, and so many bytes of them, always stay


class Leftovers:
    """`tidy` is called, with the vfs's lock, whenever a name has gone. `node_of_link` says which node the link, device
    and inode number of an open file belong to."""

    __slots__ = ("_bytes_at", "_count_at", "_holders", "_node_of_link", "_state")

    def __init__(
        self, state: State, node_of_link: Callable[[bytes, int, int], Node | None], holders: Holders | None
    ) -> None:
        self._state, self._node_of_link, self._holders = state, node_of_link, holders
        self._count_at, self._bytes_at = FEW, SMALL

    def tidy(self) -> None:
        copies = self._state.lingering
        if not copies or (len(copies) < self._count_at and sum(copies.values()) < self._bytes_at):
            return
        try:
            held = self._held()
            for number in [number for number in copies if number not in held]:
                self._state.end_lingering(number)
        except OSError:
            return  # the call that removed the name has succeeded all the same; the next one looks again
        # What is held takes as long to find the next time, so wait until there is as much again.
        self._count_at = max(FEW, 2 * len(copies))
        self._bytes_at = max(SMALL, 2 * sum(copies.values()))

    def _held(self) -> set[int]:
        """The numbers of copies whose host file is held. A descriptor of the copy itself does not need its number."""
        copies = self._state.path + b"/files/"
        found: set[int] = set()
        for link, dev, ino in self._holders.held_files() if self._holders is not None else ():
            node = None if link.startswith(copies) else self._node_of_link(link, dev, ino)
            if isinstance(node, Inode):
                found.add(node.number)
        return found

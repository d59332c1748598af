"""vfs: placeholders that nobody holds any more (docs/design/004-placeholders-and-descriptors.md).

Each directory that was opened or entered has one: a directory of the host's, and an entry of ours that keeps the node.
Nobody tells us when a guest closes or leaves it, and a guest can make, open and remove directories for ever, or look
into each new process below /proc. So once there are many, whoever knows the guests is asked what they hold, and the
rest goes. A number is never used again: a descriptor that was under way in a socket meanwhile stands for a directory
that is gone.
"""

from __future__ import annotations

import os

from husk.vfs.host.host_tree import HostDir
from husk.vfs.state import MANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.vfs.node import Dir
    from husk.vfs.state import State


def forget_unheld(state: State, links: Iterable[bytes]) -> None:
    """`links` are what descriptors and working directories of the box, and ours, show."""
    held = {number for link in links if (number := state.number_of_place(link)) is not None} | state.watched
    for number, directory in list(state.dirs.items()):
        # Counterparts of watched directories have numbers, too, and stay.
        if number in held or number not in (directory.place, directory.path_only):
            continue
        os.rmdir(b"%d" % number, dir_fd=state.places_fd)
        del state.dirs[number]
        state.path_only.discard(number)
        if directory.place == number:
            directory.place = None
        else:
            directory.path_only = None
        _forget_node(directory)
    state.many = max(MANY, 2 * len(state.dirs))


def _forget_node(directory: Dir | None) -> None:
    """What is known of a host directory can be looked up again."""
    while isinstance(directory, HostDir) and isinstance(directory.parent, HostDir):
        used = directory.place or directory.path_only or directory.mounted or directory.real
        above = directory.parent
        if used or directory.children or above.children.get(directory.name) is not directory:
            return
        del above.children[directory.name]
        directory = above

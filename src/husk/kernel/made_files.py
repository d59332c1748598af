"""kernel: files that C changes in a layer (native/fastpath/own_dirs.c), and how the vfs comes to know of it.

C knows all names that the box has made or hidden in some directories, and changes them while no thread of Python has
the vfs's lock. Whoever takes the lock enters first what C did. What the lock is held for is therefore never behind.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import HostStat, Listener
    from husk.vfs.node import Context, Dir, Node
    from husk.vfs.state import State

NUMBERS = 4096  # for real files, set aside at once
FEW = 256
NAMES_EACH = 32  # taught again for each call that Python served: the price of teaching stays in proportion
DIRECTORIES_MAX = 4096


class MadeFiles:
    """Everything here is called under the vfs's lock. An exception may end each of its methods at any step, and the
    next call finds what it needs."""

    __slots__ = ("_asked", "_listener", "_own", "_state")

    def __init__(self, listener: Listener, state: State) -> None:
        self._listener, self._state = listener, state
        # Where C changes files, by owner. What it makes there is entered with this user and group.
        self._own: dict[int, tuple[Dir, int, int]] = {}
        self._asked: dict[int, int] = {}  # names that were taught or may be, by directory

    def teach(self, ctx: Context, number: int, key: bytes, directory: Dir, path: bytes) -> None:
        """Let C change files in `directory`, whose guest path is `path`, if the rules are plain there."""
        own = directory.tree.own_directory(ctx, directory)
        if own is None:
            return
        files_fd, uid, gid, stat, names, beneath = own
        owner, state = id(directory), self._state
        credit = self._asked.get(owner, 0) + NAMES_EACH
        if len(self._asked) >= DIRECTORIES_MAX:
            self._asked.clear()
        self._asked[owner] = credit
        if len(names) > credit:
            return
        self._asked[owner] -= len(names)
        if state.lock.numbers_left < FEW:
            state.lock.entering(self.describe, self._own, state.nodes)
            state.lock.set_aside(*state.new_numbers(NUMBERS))
        self._own[owner] = directory, uid, gid
        self._listener.cache_own(number, key, owner, path, files_fd, uid, gid, stat, names, beneath, state.lock)

    def forget(self, directory: Dir | None) -> None:
        """C was told to change nothing there, or anywhere. What it did has been entered."""
        if directory is None:
            self._own.clear()
        else:
            self._own.pop(id(directory), None)

    def describe(
        self, owner: int, number: int, when: int, mode: int, name: bytes, host: HostStat | None
    ) -> tuple[Dir, Node | None] | None:
        """The directory in which C made a file, and its node; or that in which it removed one (`mode` 0), and what now
        hides what the host has there. The vfs's lock enters that. None: a signal handler has taken the lock since,
        which entered it, and then changed the directory."""
        own = self._own.get(owner)
        if own is None:
            return None
        directory, uid, gid = own
        if not mode:
            return directory, directory.tree.removed_outside(directory, name, number, when, host)
        return directory, directory.tree.made_outside(directory, name, number, mode, uid, gid, when)

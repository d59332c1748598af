"""kernel: names that C changes in a layer (native/layer/own_dirs.c), and how the vfs comes to know of it.

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
MADE_HERE = 1 << 63  # in the owner of a directory that C has made: no address has it
# As in native/layer/vfs_lock.h. What is not named here C enters alone.
MADE, REMOVED, DIRECTORY_MADE, DIRECTORY_REMOVED, DIRECTORY_BEGUN = 0, 1, 4, 5, 7


class MadeFiles:
    """Everything here is called under the vfs's lock. An exception may end each of its methods at any step, and the
    next call finds what it needs."""

    __slots__ = ("_asked", "_listener", "_own", "_state", "_taught")

    def __init__(self, listener: Listener, state: State, taught: set[int]) -> None:
        self._listener, self._state, self._taught = listener, state, taught
        # Where C changes files, by owner. What it makes there is entered with this user and group.
        self._own: dict[int, tuple[Dir, int, int]] = {}
        self._asked: dict[int, int] = {}  # names that were taught or may be, by directory

    def teach(
        self, ctx: Context, number: int, key: bytes, directory: Dir, path: bytes, *, removable: bool
    ) -> None:
        """Let C change files in `directory`, whose guest path is `path`, if the rules are plain there. `removable`: its
        removal concerns nothing but itself."""
        own = directory.tree.own_directory(ctx, directory)
        if own is None:
            return
        files_fd, uid, gid, stat, names, beneath = own
        owner = directory.owner
        credit = self._asked.get(owner, 0) + NAMES_EACH
        if len(self._asked) >= DIRECTORIES_MAX:
            self._asked.clear()
        self._asked[owner] = credit
        if len(names) > credit:
            return
        self._asked[owner] -= len(names)
        self._set_aside()
        self._own[owner] = directory, uid, gid
        above = 0 if directory.parent is None else directory.parent.owner
        self._listener.cache_own(
            number,
            key,
            owner,
            path,
            files_fd,
            uid,
            gid,
            stat,
            names,
            beneath,
            above,
            directory.name,
            removable,
            self._state.lock,
        )

    def teach_later(
        self, number: int, key: bytes, directory: Dir, path: bytes, new: tuple[int, int, int], *, removable: bool
    ) -> None:
        """Likewise, for a directory of the host that was taught: with the first change there. `new`: the directory of
        real files, user and group."""
        files_fd, uid, gid = new
        self._set_aside()
        self._own[directory.owner] = directory, uid, gid
        self._listener.cache_later(number, key, path, files_fd, uid, gid, removable, self._state.lock)

    def _set_aside(self) -> None:
        """Numbers for what C makes."""
        lock = self._state.lock
        if lock.numbers_left < FEW:
            lock.entering(self.describe, self._own, self._state.nodes)
            lock.set_aside(*self._state.new_numbers(NUMBERS))

    def forget(self, directory: Dir | None) -> None:
        """C was told to change nothing there, or anywhere. What it did has been entered."""
        if directory is None:
            self._own.clear()
        else:
            self._own.pop(directory.owner, None)

    def describe(
        self, deed: int, owner: int, number: int, when: int, mode: int, name: bytes, host: HostStat | None
    ) -> tuple[Dir, Node | None] | None:
        """The directory in which C made or removed something, and the node of what it made, or what now hides what the
        host has there. The vfs's lock enters that. None: there is nothing to enter, or a signal handler has taken the
        lock since, which entered it, and then changed the directory."""
        own = self._own.get(owner)
        if own is None:
            return None
        directory, uid, gid = own
        tree = directory.tree
        if deed == DIRECTORY_BEGUN:
            if host is not None:
                tree.begun_outside(directory, host)
            return None
        if deed == MADE:
            return directory, tree.made_outside(directory, name, number, mode, uid, gid, when)
        if deed == REMOVED:
            return directory, tree.removed_outside(directory, name, number, when, host)
        if deed == DIRECTORY_MADE:
            made = tree.made_directory_outside(directory, name, number, mode, uid, gid, when)
            made.owner = number | MADE_HERE
            self._own[made.owner] = made, uid, gid
            self._taught.add(made.owner)
            return directory, made
        return directory, self._removed_directory(directory, name, number, when, host)

    def _removed_directory(
        self, directory: Dir, name: bytes, owner: int, when: int, host: HostStat | None
    ) -> Node | None:
        child = self._own[owner][0] if owner in self._own else None  # None: an exception came behind the last step here
        instead = directory.tree.removed_directory_outside(directory, name, child, when, host)
        if child is not None:
            self._state.invalidation.announce(child, False, True)
        return instead

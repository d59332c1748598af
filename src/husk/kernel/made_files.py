"""kernel: files that C makes in a layer (native/fastpath/own_dirs.c), and how the vfs comes to know of them.

C knows all names of some directories that are the box's own, and makes files there while no thread holds the vfs's
lock. Whoever takes the lock reads first what C made. What the lock is held for is therefore never behind.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import Listener
    from husk.vfs.node import Context, Dir
    from husk.vfs.state import State

NUMBERS = 4096  # for real files, set aside at once
FEW = 256
NAMES_EACH = 8  # taught again for each call that Python served: the price of teaching stays in proportion
DIRECTORIES_MAX = 4096


class MadeFiles:
    """The vfs's lock calls `begin` and `end`; everything else is called under it."""

    __slots__ = ("_asked", "_end", "_listener", "_next", "_own", "_state")

    def __init__(self, listener: Listener, state: State) -> None:
        self._listener, self._state = listener, state
        self._own: dict[int, tuple[Dir, int, int]] = {}  # what C makes there is entered with this user and group
        self._asked: dict[int, int] = {}  # names that were taught or may be, by directory
        self._next = self._end = 0

    def teach(self, ctx: Context, number: int, key: bytes, directory: Dir, path: bytes) -> bool:
        """Let C make files in `directory`, whose guest path is `path`, if it is one where the rules are plain."""
        own = directory.tree.own_directory(ctx, directory)
        if own is None:
            return False
        files_fd, uid, gid, stat, names = own
        owner = id(directory)
        credit = self._asked.get(owner, 0) + NAMES_EACH
        if len(self._asked) >= DIRECTORIES_MAX:
            self._asked.clear()
        self._asked[owner] = credit
        if len(names) > credit:
            return False
        self._asked[owner] -= len(names)
        if self._state.lock.partner is not self:
            self._listener.layer_hold()  # until the lock is given back
            self._state.lock.partner = self
        if self._end - self._next < FEW:
            self._next, self._end = self._state.new_numbers(NUMBERS)
            self._listener.layer_numbers(self._next, self._end)
        self._own[owner] = directory, uid, gid
        self._listener.cache_own(number, key, owner, path, files_fd, uid, gid, stat, names)
        return True

    def forget(self, directory: Dir | None) -> None:
        """C no longer makes anything there, or anywhere. What it made has been read."""
        if directory is None:
            self._own.clear()
        else:
            self._own.pop(id(directory), None)

    def begin(self) -> None:
        made = self._listener.layer_hold()
        if made is None:
            return
        try:
            for owner, number, when, mode, name in made:
                directory, uid, gid = self._own[owner]
                directory.tree.adopt(directory, name, number, mode, uid, gid, when)
            self._next = max(self._next, made[-1][1] + 1)
        except BaseException:
            self._listener.layer_release(0)
            raise

    def end(self) -> None:
        self._listener.layer_release(min(self._state.nodes_left, NUMBERS))

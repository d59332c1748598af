"""kernel: which names a run changed, in every mode and whether or not anybody watches. The vfs tells of each change
after a tree has made it (`Context.changed`); here the changes of one name become one.

Nothing here decides anything. It is bounded, and what had no room is counted: a guest chooses the names.
"""

from __future__ import annotations

import _thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOM, NAME_COSTS = 32 << 20, 300  # bytes for all names together
# By the letter of C's record, and whether the host has it.
MADE_BY_C = {
    "a": ("added", True), "c": ("changed", True), "d": ("deleted", True), "m": ("metadata", True),
    "A": ("added", False), "C": ("changed", False), "D": ("deleted", False), "M": ("metadata", False),
}


NOTHING: dict[bytes, Name] = {}  # below most names; never written to


class Name:
    """One name and what is below it. `change` is "" where only something below it changed.

    `opened` is the time of the last modification when the file was first opened for writing: whether the guest then
    wrote anything is seen at the end. `moved`: a directory that came here with all that was in it."""

    __slots__ = ("below", "change", "moved", "on_host", "opened")

    def __init__(self) -> None:
        self.change, self.on_host, self.moved = "", False, False
        self.opened: int | None = None
        self.below = NOTHING


class ChangedNames:
    """A tree of names, so that a directory is renamed together with all that changed in it, at no cost.

    The words are those of a box's diff: `added`, `changed`, `deleted`, `metadata`."""

    __slots__ = ("_lock", "_room", "_root", "lost")

    def __init__(self, room: int = ROOM) -> None:
        self._root = Name()
        self._room = room
        self.lost = 0  # changes whose name was not kept
        self._lock = _thread.allocate_lock()  # several threads of husk serve the guest

    def note(self, change: str, path: bytes, on_host: bool) -> None:
        with self._lock:
            name = self._name(path)
            if name is None:
                self.lost += 1
            else:
                self._set(name, change, on_host)

    def opened(self, path: bytes, on_host: bool, modified: int) -> None:
        """For writing; `modified` is when the file was last modified before."""
        with self._lock:
            name = self._name(path)
            if name is None:
                self.lost += 1
            elif name.opened is None:
                name.opened, name.on_host = modified, on_host

    def renamed(self, old: bytes, new: bytes, on_host: bool, *, replaced: bool, directory: bool) -> None:
        with self._lock:
            self._rename(self._name(old), self._name(new), on_host, replaced=replaced, directory=directory)

    def _rename(
        self, source: Name | None, target: Name | None, on_host: bool, *, replaced: bool, directory: bool
    ) -> None:
        if source is None or target is None:
            self.lost += 1
            return
        if replaced:
            self._set(target, "deleted", on_host)
        target.below, source.below = source.below, NOTHING
        target.moved = directory and not (source.change == "added" and not source.moved)
        self._set(source, "deleted", on_host)
        self._set(target, "added", on_host)

    def made_on_host(self, records: Sequence[tuple[str, bytes, bytes]]) -> None:
        """What C changed on `rw` mounts and in layers (native/fastpath/changes.c): files only, mostly many of one
        directory in a row."""
        with self._lock:
            above = b"/"
            directory: Name | None = self._root
            for kind, path, other in records:
                cut = path.rfind(b"/") + 1
                if path[:cut] != above:
                    above = path[:cut]
                    directory = self._name(above)
                part = path[cut:]
                name = None if directory is None else directory.below.get(part) or self._below(directory, part)
                made = MADE_BY_C.get(kind)
                if made is None:
                    self._rename(name, self._name(other), kind in "rR", replaced=kind in "RN", directory=False)
                elif name is None:
                    self.lost += 1
                elif made[0] == "added" and not name.change:
                    name.change, name.on_host = made  # most of them, and as `_set` would
                else:
                    self._set(name, *made)

    def exchanged(self, one: bytes, other: bytes, on_host: bool) -> None:
        with self._lock:
            first, second = self._name(one), self._name(other)
            if first is None or second is None:
                self.lost += 1
                return
            first.below, second.below = second.below, first.below
            for name in (first, second):
                name.moved = True
                self._set(name, "changed", on_host)

    def _set(self, name: Name, change: str, on_host: bool) -> None:
        was = name.change
        if change == "deleted":
            change = "" if was == "added" else change
            name.moved, name.opened = False, None
            name.below = NOTHING  # all that was in it is gone, too
        elif change == "added":
            change = "changed" if was == "deleted" else change
        elif was and not (change == "changed" and was == "metadata"):
            change = was
        name.change, name.on_host = change, on_host

    def _name(self, path: bytes) -> Name | None:
        found: Name | None = self._root
        for part in _parts(path):
            if found is not None:
                found = self._below(found, part)
        return found

    def _below(self, name: Name, part: bytes) -> Name | None:
        below = name.below.get(part)
        if below is None:
            cost = len(part) + NAME_COSTS
            if cost > self._room:
                return None
            self._room -= cost
            if name.below is NOTHING:
                name.below = {}
            below = name.below[part] = Name()
        return below

    @property
    def nothing(self) -> bool:
        """Was no name changed, nor opened for writing?"""
        root = self._root
        return not (root.below or root.change or root.moved or root.opened is not None or self.lost)

    # -- when the run is over ------------------------------------------------------------------------------------------
    def of_run(
        self, differing: dict[bytes, str], modified: Callable[[bytes], int | None]
    ) -> tuple[dict[bytes, str], dict[bytes, str]]:
        """What this run changed in the box, and on the host. `differing` is all that the box's layers differ in: a box
        keeps the changes of earlier runs, too. `modified` gives the time of a file's last modification."""
        # What a directory brought along when it was renamed is known to the layer alone. And where names were lost,
        # rather an earlier run's change is told than none of this one's.
        in_box = {path: word for path, word in differing.items() if self.lost or self._concerns(path)}
        on_host: dict[bytes, str] = {}
        for path, name in self._all():
            change = name.change
            if name.opened is not None and change in ("", "metadata") and modified(path) != name.opened:
                change = "changed"
            if not change:
                in_box.pop(path, None)
            elif name.on_host:
                on_host[path] = change
            elif change == "deleted" or path in differing:
                in_box[path] = "changed" if change == "metadata" else change
        return in_box, on_host

    def _all(self) -> Iterator[tuple[bytes, Name]]:
        """Every name that was changed or opened, with its path. No recursion: a guest can make directories deeper than
        Python's stack."""
        waiting = [(b"", self._root)]
        while waiting:
            path, name = waiting.pop()
            if name.change or name.opened is not None:
                yield path, name
            waiting += [(path + b"/" + part, below) for part, below in name.below.items()]

    def _concerns(self, path: bytes) -> bool:
        """Did this run change the name, or bring it along with a directory above it?"""
        found = self._root
        for part in _parts(path):
            below = found.below.get(part)
            if below is None:
                return found.moved or found.change == "added"
            found = below
            if found.moved:
                return True
        return bool(found.change) or found.opened is not None


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part]

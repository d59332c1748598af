"""kernel: System V semaphores and queues, and POSIX queues, of a box without an ipc namespace.

Their keys, ids and names are shared by the whole host, so they are names that husk keeps; the objects themselves are
the host's. A guest's key leads to an object that husk made under a random key. A call on an id of this box is
continued: the id stands in a register, so it cannot change after the look, and the host has its own way to wait, wake
and undo. A removed id does not come back soon: the host counts them up, and it takes millions to wrap. A POSIX queue
has no name on the host, only descriptors.

A System V object outlives its processes. `<state>/ipc` has a file for each, made before the object, so that what a
killed husk leaves can be removed (`remove_left`).
"""

from __future__ import annotations

import _thread
import errno
import os

from husk.native._core import ipc_find, ipc_give, ipc_make, ipc_remove, ipc_tell

SEMAPHORES, QUEUE = 0, 1  # as in native/host/ipc.c
IPC_PRIVATE = 0
MOST_SETS, MOST_QUEUES, MOST_NAMES = 64, 32, 32  # of a box: the host has 32,000 for all users, and 256 names


class IpcObject:
    __slots__ = ("host_key", "id", "key", "kind")

    def __init__(self, kind: int, key: int, host_key: int, number: int) -> None:
        self.kind, self.key, self.host_key, self.id = kind, key, host_key, number

    def describe(self) -> bytes | None:
        """The host's struct; None if the object is gone, which no call of husk's removed."""
        try:
            return ipc_tell(self.kind, self.id)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise


class IpcObjects:
    """Those of one box. The callers of everything below hold `lock`."""

    __slots__ = ("_by_id", "_owner", "_place", "lock", "names")

    def __init__(self, place: bytes, owner: tuple[int, int]) -> None:
        self._place, self._owner = place, owner
        self._by_id: dict[tuple[int, int], IpcObject] = {}
        self.names: dict[bytes, NamedQueue] = {}
        self.lock = _thread.allocate_lock()

    def find(self, kind: int, number: int) -> IpcObject:
        found = self._by_id.get((kind, number))
        if found is None:
            raise OSError(errno.EINVAL, "no such id")
        return found

    def with_key(self, kind: int, key: int) -> IpcObject | None:
        if key == IPC_PRIVATE:
            return None
        for one in self.all(kind):
            if one.key == key:
                return one
        return None

    def all(self, kind: int) -> list[IpcObject]:
        """In the order in which they were made. Those that a guest has removed since are forgotten here."""
        for one in [one for one in self._by_id.values() if one.kind == kind and one.describe() is None]:
            self._forget(one)
        return [one for one in self._by_id.values() if one.kind == kind]

    def make(self, kind: int, key: int, count: int, mode: int) -> IpcObject:
        if len(self.all(kind)) >= (MOST_SETS if kind == SEMAPHORES else MOST_QUEUES):
            raise OSError(errno.ENOSPC, "the box has as many as it may have")
        os.makedirs(self._place, 0o700, exist_ok=True)
        while True:
            host_key = int.from_bytes(os.urandom(4), "little") | 1
            note = _note(self._place, kind, host_key)
            os.close(os.open(note, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            try:
                made = IpcObject(kind, key, host_key, ipc_make(kind, _signed(host_key), count, mode))
                break
            except OSError as error:
                os.unlink(note)
                if error.errno != errno.EEXIST:
                    raise
        self._by_id[kind, made.id] = made
        if self._owner[0] != os.geteuid():
            ipc_give(kind, made.id, *self._owner)
        return made

    def _forget(self, one: IpcObject) -> None:
        del self._by_id[one.kind, one.id]
        os.unlink(_note(self._place, one.kind, one.host_key))

    def close(self) -> None:
        for one in list(self._by_id.values()):
            try:
                ipc_remove(one.kind, one.id)
            except OSError:
                pass  # a guest has removed it
        self._by_id.clear()
        for queue in self.names.values():
            os.close(queue.fd)
        self.names.clear()


class NamedQueue:
    """A POSIX queue with a name in the box. Guests get descriptors of their own of it."""

    __slots__ = ("fd", "mode")

    def __init__(self, fd: int, mode: int) -> None:
        self.fd, self.mode = fd, mode

    def open(self, flags: int) -> int:
        return os.open(f"/proc/self/fd/{self.fd}", flags | os.O_CLOEXEC)


def remove_left(state: str) -> None:
    """Remove the objects whose notes a killed husk left in its state directory."""
    place = os.path.join(state, "ipc")
    try:
        notes = os.listdir(place)
    except FileNotFoundError:
        return
    for note in notes:
        kind, _, key = note.partition("-")
        try:
            number = ipc_find(int(kind), _signed(int(key, 16)))
            ipc_remove(int(kind), number)
        except OSError:
            pass  # it was not made, is removed already, or is another user's by now


def _note(place: bytes, kind: int, host_key: int) -> bytes:
    return place + b"/%d-%08x" % (kind, host_key)


def _signed(key: int) -> int:
    return key - (1 << 32) if key >> 31 else key

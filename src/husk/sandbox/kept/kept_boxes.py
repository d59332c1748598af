"""sandbox: kept boxes on disk — their records, their layers, who may touch them when, and the collection of leftovers.

Below the state directory (docs/formats/box.md):

kept/NAME/record   one box: what it was started from, and which layer holds its names; replaced as a whole
kept/NAME/running  what runs in it now; worth reading only while kept/NAME is locked
layers/ID/         what one run left: `files/`, `names-N`, `seen-N`. Never changed; shared by boxes that grew from it
kept.lock          held shared by whoever may add a reference to a layer, exclusively by the collection

A layer that no record names and nobody locks is a leftover. There is no count of references to get wrong. Boxes that
are open in some process, and snapshots of them, lock theirs (`Holding`).
"""

from __future__ import annotations

import fcntl
import os
import time

from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.kept.record import Record
from husk.sandbox.state_dir import base, is_there, lock_directory, remove_tree
from husk.store.layout import sync_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
ALLOWED = FIRST | frozenset("._-")
GONE = ".gone-"
TRIES = 10


def check_name(name: str) -> str:
    if not name or len(name) > 100 or name[0] not in FIRST or not set(name) <= ALLOWED:
        raise UsageError(
            f"{name!r} cannot name a box; use letters, digits and . _ -, beginning with a letter or digit."
        )
    return name


class Kept:
    """The place of all kept boxes of this user."""

    __slots__ = ("boxes", "layers", "place")

    def __init__(self, place: str = "") -> None:
        self.place = place or base()
        self.boxes = os.path.join(self.place, "kept")
        self.layers = os.path.join(self.place, "layers")

    def create(self) -> None:
        for path in (self.boxes, self.layers):
            os.makedirs(path, 0o700, exist_ok=True)

    def names(self) -> list[str]:
        try:
            found = os.listdir(self.boxes)
        except FileNotFoundError:
            return []
        return sorted(name for name in found if not name.startswith("."))

    def path(self, name: str) -> str:
        return os.path.join(self.boxes, check_name(name))

    def find(self, name: str) -> Record | None:
        """None: nothing was kept under that name yet."""
        try:
            with open(os.path.join(self.path(name), "record"), "rb") as file:
                return Record.parse(name, file.read())
        except FileNotFoundError:
            return None

    def get(self, name: str) -> Record:
        record = self.find(name)
        if record is None:
            if self.is_running(name):
                raise UsageError(
                    f"the box {name!r} runs for the first time; there is nothing kept until that run ends."
                )
            raise UsageError(f"there is no box {name!r}; `husk ps -a` lists them, `husk run --keep {name}` makes one.")
        return record

    def is_running(self, name: str) -> bool:
        path = self.path(name)
        if not os.path.isdir(path):
            return False
        fd = lock_directory(path, wait=False)
        if fd >= 0:
            os.close(fd)
        return fd < 0

    def lock(self, name: str) -> int:
        """Whoever changes a box holds this; a run does to its end."""
        for _ in range(TRIES):
            fd = lock_directory(self.path(name), wait=False)
            if fd >= 0:
                return fd
            time.sleep(0.02)  # somebody may only be looking whether it runs
        raise UsageError(f"the box {name!r} is in use; wait until what runs in it ends (`husk ps`).")

    def claim(self, name: str) -> int:
        """The same for one that may not exist yet."""
        self.create()
        path = self.path(name)
        for _ in range(100):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                pass
            fd = lock_directory(path, wait=False)
            if fd >= 0:
                return fd
            if os.path.isdir(path):
                break  # else a collection took the new one for a leftover
        return self.lock(name)

    def give_up(self, name: str) -> None:
        """It was claimed, and there is nothing to keep; the caller holds it."""
        try:
            if not is_there(os.path.join(self.path(name), "record")):
                self._forget_root(self.path(name))
                remove_tree(self.path(name))
        except OSError:
            pass  # the next collection takes it away

    def write(self, record: Record, *, durable: bool) -> None:
        """Replace the record; the caller holds the box. Without `durable` it survives any death of ours, but perhaps
        not that of the machine."""
        path = os.path.join(self.path(record.name), "record")
        temporary = f"{path}.new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            data = memoryview(record.dump())
            while data:  # a disk that is nearly full takes a part, and says so only when asked again
                data = data[os.write(fd, data) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
        if durable:
            sync_directory(os.path.dirname(path))

    def sharing(self) -> Sharing:
        return Sharing(self.place)

    def layer_path(self, layer: str) -> str:
        return os.path.join(self.layers, layer)

    def drop(self, name: str) -> Record | None:
        """Forget a box. What it shared with others stays theirs. None: its record could not be read."""
        if not os.path.isdir(self.path(name)):
            self.get(name)
        fd = self.lock(name)
        try:
            try:
                record = self.find(name)
            except HuskError:
                record = None  # damaged, which is a reason to drop it
            if is_there(os.path.join(self.path(name), "apply")):
                from husk.sandbox.apply.apply import recover

                recover(self, name)
            os.rename(self.path(name), os.path.join(self.boxes, GONE + os.urandom(8).hex()))
        finally:
            os.close(fd)
        self.collect()
        return record

    def collect(self, mine: Record | None = None, used: dict[str, set[int]] | None = None) -> int:
        """Remove what nobody needs any more, unless somebody is about to need something: then the next one does.
        `used` are the files that the box `mine` needs: of layers that are its alone, others go, too."""
        try:
            lock = os.open(os.path.join(self.place, "kept.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return 0
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._collect(mine, used or {})
        except OSError:  # somebody holds the lock; or the host fails, which is no reason not to run
            return 0
        finally:
            os.close(lock)

    def _collect(self, mine: Record | None, used: dict[str, set[int]]) -> int:
        removed = self._collect_boxes()
        needed: set[str] = set()
        shared: set[str] = set()
        for name in self.names():
            try:
                record = self.find(name)
            except HuskError:
                return removed  # what it needs is unknown
            if record is not None:
                needed.update(record.layers, [record.layer])
                if mine is None or record.id != mine.id:
                    shared.update(record.layers)
        for layer in used.keys() - shared:
            _remove_files(self.layer_path(layer), used[layer])
        for layer in os.listdir(self.layers) if os.path.isdir(self.layers) else ():
            if layer not in needed:
                removed += _remove_unlocked(self.layer_path(layer))
        return removed

    def _collect_boxes(self) -> int:
        removed = 0
        for name in os.listdir(self.boxes) if os.path.isdir(self.boxes) else ():
            path = os.path.join(self.boxes, name)
            if name.startswith(GONE) or not is_there(os.path.join(path, "record")):
                fd = lock_directory(path, wait=False)
                if fd < 0:
                    continue
                try:
                    self._forget_root(path)
                    remove_tree(path)
                    removed += 1
                except OSError:
                    pass  # its store cannot be written now; the next one tries again, and nobody else is held up
                finally:
                    os.close(fd)
            else:
                removed += self._clean(path)
        return removed

    def _clean(self, path: str) -> int:
        """What somebody who was killed left in the directory of a box that goes on."""
        left = [name for name in ("record.new", "running") if os.path.exists(os.path.join(path, name))]
        fd = lock_directory(path, wait=False) if left else -1
        if fd < 0:
            return 0
        for name in left:
            os.unlink(os.path.join(path, name))
        os.close(fd)
        return len(left)

    def _forget_root(self, path: str) -> None:
        """The store need not keep an image for a box that is gone."""
        from husk.sandbox.kept.image_hold import forget

        forget(path)


class Sharing:
    """While this is open, no layer is collected."""

    __slots__ = ("_fd",)

    def __init__(self, place: str) -> None:
        self._fd = os.open(os.path.join(place, "kept.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Sharing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Holding:
    """While this is open, these layers stay as they are, all files of them. Whoever makes one keeps them from being
    collected meanwhile (`sharing`, or another holding)."""

    __slots__ = ("_fds",)

    def __init__(self, kept: Kept, layers: list[str]) -> None:
        self._fds: list[int] = []
        try:
            for layer in layers:
                fd = os.open(kept.layer_path(layer), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                self._fds.append(fd)
                fcntl.flock(fd, fcntl.LOCK_SH)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())


def _remove_files(layer: str, used: set[int]) -> None:
    fd = lock_directory(layer, wait=False)
    if fd < 0:
        return  # a snapshot may need all of it
    try:
        path = os.path.join(layer, "files")
        for name in os.listdir(path):
            if name.isdigit() and int(name) not in used:
                os.unlink(os.path.join(path, name))
    finally:
        os.close(fd)


def _remove_unlocked(path: str) -> int:
    fd = lock_directory(path, wait=False)
    if fd < 0:
        return 0
    try:
        remove_tree(path)
        return 1
    finally:
        os.close(fd)

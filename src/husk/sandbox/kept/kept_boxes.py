"""sandbox: kept boxes on disk: their records, their layers, their locks, and the collection of leftovers.

Below the state directory (docs/formats/box.md):

kept/NAME/record   one box: what it was started from, and which layer holds its names; replaced as a whole
kept/NAME/doctor-N where a husk that runs it is asked what it waits for
kept/NAME/running  what runs in it now; valid only while kept/NAME is locked
layers/ID/         what one run left: `files/`, `names-N`, `seen-N`, `base-N`. Never changed; boxes share it
kept.lock          held shared by a process that may add a reference to a layer, exclusively by the collection

A layer that no record names and no process locks is a leftover. There is no count of references to get wrong. Boxes
that are open in some process, and snapshots of them, lock their layers (`LayerLocks`).

Not here: what people do with kept boxes (`operations`, `apply_box`, `diff`), and running one (`keeping`).
"""

from __future__ import annotations

import fcntl
import os
import time

from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.kept.image_hold import forget_image
from husk.sandbox.kept.record import Record
from husk.sandbox.locked_dir import is_there, lock_directory, remove_own_tree
from husk.sandbox.state_dir import state_parent
from husk.store.layout import sync_directory
from husk.store.locks import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.apply.baseline import Baseline
    from husk.sandbox.apply.originals import Originals

FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
ALLOWED = FIRST | frozenset("._-")
GONE = ".gone-"
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES = 10
OF_A_RUN = ("record.new", "running", "control")  # files of a box that only a run under way needs


def check_name(name: str) -> str:
    if not name or len(name) > 100 or name[0] not in FIRST or not set(name) <= ALLOWED:
        raise UsageError(
            f"{name!r} cannot name a box; use letters, digits and . _ -, beginning with a letter or digit."
        )
    return name


class KeptBoxes:
    """All kept boxes of this user. `parent`: the directory that has them and the state directories of boxes."""

    __slots__ = ("boxes", "layers", "parent")

    def __init__(self, parent: str = "") -> None:
        self.parent = parent or state_parent()
        self.boxes = os.path.join(self.parent, "kept")
        self.layers = os.path.join(self.parent, "layers")

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
            ways = f"`husk ps -a` lists them, `husk run --keep {name}` makes one"
            raise UsageError(f"there is no box {name!r}{self._near(name)}; {ways}.")
        return record

    def _near(self, name: str) -> str:
        from difflib import get_close_matches

        found = get_close_matches(name, self.names(), 1)
        return f" (did you mean {found[0]}?)" if found else ""

    def is_running(self, name: str) -> bool:
        path = self.path(name)
        if not os.path.isdir(path):
            return False
        fd = lock_directory(path, wait=False)
        if fd >= 0:
            os.close(fd)
        return fd < 0

    def lock(self, name: str) -> int:
        """Held by a process that changes the box; a run holds it to its end."""
        for _ in range(TRIES):
            fd = lock_directory(self.path(name), wait=False)
            if fd >= 0:
                return fd
            time.sleep(0.02)  # another husk may only be looking whether it runs
        raise UsageError(f"the box {name!r} is in use; wait until what runs in it ends (`husk ps`).")

    def claim(self, name: str) -> int:
        """The same for a box that may not exist yet."""
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
        """The box was claimed, and there is nothing to keep. The caller holds its lock."""
        try:
            if not is_there(os.path.join(self.path(name), "record")):
                forget_image(self.path(name))
                remove_own_tree(self.path(name))
        except OSError:
            pass  # the next collection removes it

    def write(self, record: Record, *, durable: bool) -> None:
        """Replace the record; the caller holds the box's lock. Without `durable` it survives if husk is killed, but
        perhaps not a crash of the host."""
        path = os.path.join(self.path(record.name), "record")
        temporary = f"{path}.new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            data = memoryview(record.dump())
            while data:  # a nearly full disk takes a part, and fails only at the next write
                data = data[os.write(fd, data) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
        if durable:
            sync_directory(os.path.dirname(path))

    def without_collection(self) -> NoCollection:
        return NoCollection(self.parent)

    def layer_path(self, layer: str) -> str:
        return os.path.join(self.layers, layer)

    def baseline_path(self, record: Record, target: str) -> str:
        """Where the baseline of the mount at `target` is; empty: the box has no changes there."""
        return self._path_of(record, target, "seen")

    def names_path(self, record: Record, target: str) -> str:
        return self._path_of(record, target, "names")

    def _path_of(self, record: Record, target: str, what: str) -> str:
        if target not in record.trees:
            return ""
        return os.path.join(self.layer_path(record.layer), f"{what}-{record.trees.index(target)}")

    def originals(self, record: Record, target: str) -> Originals:
        from husk.sandbox.apply.originals import unpack

        try:
            with open(self._path_of(record, target, "base"), "rb") as file:
                return unpack(file.read())
        except FileNotFoundError:
            return {}

    def baseline(self, record: Record, target: str) -> Baseline:
        from husk.sandbox.apply.baseline import unpack

        path = self.baseline_path(record, target)
        try:
            with open(path, "rb") as file:
                return unpack(file.read())
        except FileNotFoundError:
            return {}

    def retire(self, name: str) -> None:
        """The box is gone with this; the next collection removes its files. The caller holds its lock."""
        os.rename(self.path(name), os.path.join(self.boxes, GONE + os.urandom(8).hex()))

    def collect(self, mine: Record | None = None, used: dict[str, set[int]] | None = None) -> int:
        """Remove what no box needs, unless another husk is adding a reference: then the next collection does it.
        `used` are the files that the box `mine` needs: in layers that only it uses, all others are removed too."""
        try:
            lock = os.open(os.path.join(self.parent, "kept.lock"), LOCK_FLAGS, 0o600)
        except OSError:
            return 0
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._collect(mine, used or {})
        except OSError:  # another husk holds the lock; or the host fails, which is no reason not to run
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
                    forget_image(path)
                    remove_own_tree(path)
                    removed += 1
                except OSError:
                    pass  # its store cannot be written now; the next collection tries again
                finally:
                    os.close(fd)
            else:
                removed += self._clean(path)
        return removed

    def _clean(self, path: str) -> int:
        """Remove what a killed husk left in the directory of a box that stays."""
        left = [name for name in os.listdir(path) if name in OF_A_RUN or name.startswith("doctor-")]
        fd = lock_directory(path, wait=False) if left else -1
        if fd < 0:
            return 0
        for name in left:
            os.unlink(os.path.join(path, name))
        os.close(fd)
        return len(left)


class NoCollection(Closing):
    """While this is open, no layer is collected."""

    __slots__ = ("_fd",)

    def __init__(self, parent: str) -> None:
        self._fd = os.open(os.path.join(parent, "kept.lock"), LOCK_FLAGS, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def close(self) -> None:
        os.close(self._fd)


class LayerLocks:
    """While this is open, these layers stay as they are, with all their files. The caller prevents their collection
    until this is made (`without_collection`, or other locks on them)."""

    __slots__ = ("_fds",)

    def __init__(self, kept: KeptBoxes, layers: list[str]) -> None:
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
        remove_own_tree(path)
        return 1
    finally:
        os.close(fd)

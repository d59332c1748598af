"""store: locks and leases. Both are flock: a lock ends with its process, however it dies.

A writer holds `lock` shared from its first look at the blobs until its image names them. Collection and verify hold it
exclusively. So no blob that a writer has seen can vanish before an image names it. A running box holds no such lock, or
it would block every collection: it holds a lease, a locked file that names its manifests.
"""

from __future__ import annotations

import fcntl
import os
import time

from husk.store.layout import write_all
from husk.store.store_errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

PATIENCE = 10.0  # seconds a collection waits for writers


class Closing:
    """Can be closed, and is at the end of a `with` block."""

    __slots__ = ()

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StoreLock(Closing):
    """The store's lock, held as long as this object is open."""

    __slots__ = ("_fd",)

    def __init__(self, place: str, *, exclusive: bool, patience: float = PATIENCE) -> None:
        # Read-only is enough for flock, so that a store on a read-only mount can be locked too.
        self._fd = os.open(os.path.join(place, "lock"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not exclusive:
                fcntl.flock(self._fd, fcntl.LOCK_SH)
            elif not _wait_for(self._fd, patience):
                raise StoreError(f"another process writes to the store at {place}; wait until it ends and try again.")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

def _wait_for(fd: int, patience: float) -> bool:
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)


class Lease(Closing):
    """Keeps manifests, and every blob they name, until it is closed or its process is gone."""

    __slots__ = ("_fd", "_lock", "_path")

    def __init__(self, place: str, manifests: Iterable[str]) -> None:
        """The caller holds the store's lock shared, so that no collection is under way."""
        self._lock: StoreLock | None = None
        self._path = ""
        self._fd = -1
        text = "".join(f"{manifest}\n" for manifest in manifests).encode() + b"end\n"
        try:
            self._write(os.path.join(place, "leases", f"{os.getpid()}-{os.urandom(8).hex()}"), text)
        except OSError:
            # The store is full or cannot be written: hold the lock itself, so that nothing is removed meanwhile.
            self.close()
            self._lock = StoreLock(place, exclusive=False)
        except BaseException:
            self.close()
            raise

    def _write(self, path: str, text: bytes) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._path = path
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        write_all(self._fd, text)

    def close(self) -> None:
        if self._path:
            try:
                os.unlink(self._path)
            except OSError:
                pass  # the next collection removes a lease without a lock
            self._path = ""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._lock:
            self._lock.close()
            self._lock = None

def leased(place: str) -> tuple[set[str], list[str]]:
    """Manifests in use, and lease files without a lock. The caller holds the store's lock exclusively."""
    used: set[str] = set()
    stale = []
    folder = os.path.join(place, "leases")
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # closed just now
        try:
            if is_free(fd):
                stale.append(path)
                continue
            words = os.read(fd, 1 << 20).decode("ascii", "replace").split()
            if not words or words[-1] != "end":  # being written without the lock: not by this husk
                raise StoreError(f"{path} is in use and cannot be understood; end the process that has it open.")
            used.update(words[:-1])
        finally:
            os.close(fd)
    return used, stale


def is_free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False

"""store: staging: blobs are written to a locked directory below tmp/, as ab/<hash>, and published together.

Durability: all files are written, then one syncfs, then all are renamed into blake3/, then a second syncfs. So a name
in blake3/ never has content that a crash could lose, and an image record, written after that, never names a blob whose
name a crash could lose. One sync serves all files, because one fsync for each would make the store slow.
"""

from __future__ import annotations

import fcntl
import os
import threading

from blake3 import blake3

from husk.native import _core
from husk.store.layout import blob_place, write_all
from husk.store.locks import is_free
from husk.store.store_errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CHUNK = 1 << 20
MOST_PARTS = 16  # threads that publish: they share one journal


class Stage:
    """One writer's staging directory. `put` and `put_fd` may be called from several threads."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._next = 0
        self._next_lock = threading.Lock()
        try:
            sweep(place)
            self.path, self.fd = _new_directory(os.path.join(place, "tmp"))
        except OSError as error:
            raise StoreError(
                f"the store at {place} cannot be written ({error.strerror}); name another with --store."
            ) from None
        self.blobs_fd = os.open(os.path.join(place, "blake3"), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.change_mode = bool(_umask() & 0o444)
        self.new_blobs = 0
        self.new_bytes = 0
        self.dirty = False  # something was staged, or found that another writer may not have synced yet

    def is_known(self, hash_: str, size: int) -> bool:
        """Is it in the store already? StoreError for a blob of the wrong size: it is damaged."""
        try:
            found = os.stat(blob_place(hash_), dir_fd=self.blobs_fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if found.st_size != size:
            raise StoreError(f"the blob {hash_} is damaged; `husk store verify` sets it aside, then try again.")
        return True

    def put(self, content: bytes | bytearray) -> str:
        hash_ = blake3(content, max_threads=blake3.AUTO).hexdigest()
        if self.is_known(hash_, len(content)):
            self._sync_name(hash_)
            return hash_
        return self._stage(hash_, content)

    def put_one_of_many(self, content: bytes) -> str:
        """As `put`, but a blob that is known already is synced by `publish`, which is then sure to sync."""
        hash_ = blake3(content).hexdigest()
        if self.is_known(hash_, len(content)):
            self.dirty = True
            return hash_
        return self._stage(hash_, content)

    def _stage(self, hash_: str, content: bytes | bytearray) -> str:
        self.dirty = True
        try:
            fd = self._create(hash_)
        except FileExistsError:
            return hash_
        try:
            write_all(fd, content)
            self._close_new(fd)
        except BaseException:
            # Half a blob under its final name must not be published if the caller goes on.
            os.unlink(blob_place(hash_), dir_fd=self.fd)
            raise
        finally:
            os.close(fd)
        self._count(len(content))
        return hash_

    def _create(self, hash_: str) -> int:
        self._make_folder(hash_)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.open(blob_place(hash_), flags, 0o444, dir_fd=self.fd)

    def _make_folder(self, hash_: str) -> None:
        try:
            os.mkdir(hash_[:2], 0o755, dir_fd=self.fd)
        except FileExistsError:
            pass

    def open_staged(self, hash_: str) -> int:
        """A read-only descriptor of what is not published yet; FileNotFoundError: nothing of this hash is staged."""
        return os.open(blob_place(hash_), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)

    def _sync_name(self, hash_: str) -> None:
        """The content of a published blob is durable, but another writer may have made its name just now."""
        for folder in (hash_[:2], "."):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.blobs_fd)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def put_fd(self, source: int) -> str:
        return self.copy(source)[0]

    def copy(self, source: int) -> tuple[str, int]:
        """(hash, size) of everything that can be read from a descriptor, of any size."""
        buffer = memoryview(bytearray(CHUNK))

        def pieces() -> Iterator[memoryview]:
            size = 0
            while got := os.preadv(source, [buffer], size):
                yield buffer[:got]
                size += got

        return self.copy_pieces(pieces())

    def copy_pieces(self, pieces: Iterable[bytes | memoryview]) -> tuple[str, int]:
        """(hash, size) of all pieces together."""
        with self._next_lock:
            self._next += 1
            name = f"copy-{self._next}"
        self.dirty = True
        hasher = blake3(max_threads=blake3.AUTO)
        size = 0
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444, dir_fd=self.fd)
        try:
            for piece in pieces:
                hasher.update(piece)
                write_all(fd, piece)
                size += len(piece)
            self._close_new(fd)
            hash_ = hasher.hexdigest()
            if self.is_known(hash_, size) or _exists(blob_place(hash_), self.fd):
                os.unlink(name, dir_fd=self.fd)
            else:
                self._make_folder(hash_)
                # Two threads with the same content: either file may win.
                os.rename(name, blob_place(hash_), src_dir_fd=self.fd, dst_dir_fd=self.fd)
                self._count(size)
        except BaseException:
            try:
                os.unlink(name, dir_fd=self.fd)
            except OSError:
                pass
            raise
        finally:
            os.close(fd)
        return hash_, size

    def _count(self, size: int) -> None:
        with self._next_lock:
            self.new_blobs += 1
            self.new_bytes += size

    def _close_new(self, fd: int) -> None:
        if self.change_mode:
            os.fchmod(fd, 0o444)

    def publish(self, jobs: int = 1) -> None:
        """When this returns, every staged blob is in the store and survives a crash."""
        if not self.dirty:
            return
        _core.syncfs(self.fd)
        parts = min(max(jobs, 1), MOST_PARTS)
        run_threads(parts, lambda part: _core.publish_blobs(self.fd, self.blobs_fd, part, parts))
        _core.syncfs(self.fd)
        self.dirty = False

    def remove(self) -> None:
        try:
            remove_staging(self.path)
        except OSError:
            pass  # what was published stays so, and the next writer's sweep removes the rest
        os.close(self.blobs_fd)
        os.close(self.fd)


def run_threads(jobs: int, work: Callable[[int], object]) -> None:
    """`work` in several threads, each with its number; the first exception is raised when all have ended."""
    failures: list[BaseException] = []

    def run(part: int) -> None:
        try:
            work(part)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(part,)) for part in range(1, jobs)]
    for thread in threads:
        thread.start()
    run(0)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _new_directory(folder: str) -> tuple[str, int]:
    while True:
        path = os.path.join(folder, f"{os.getpid()}-{os.urandom(8).hex()}")
        os.mkdir(path, 0o700)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # another writer took it for a leftover before we had locked it
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return path, fd
        os.close(fd)


def sweep(place: str) -> list[str]:
    """Remove what killed writers left in tmp/: directories without a lock."""
    removed = []
    folder = os.path.join(place, "tmp")
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if is_free(fd):
                remove_staging(path)
                removed.append(path)
        finally:
            os.close(fd)
    return removed


def remove_staging(path: str) -> None:
    """Plain files, and one level of directories with plain files. Another process may be removing it too."""
    try:
        for name in os.listdir(path):
            try:
                os.unlink(os.path.join(path, name))
            except IsADirectoryError:
                remove_staging(os.path.join(path, name))
            except FileNotFoundError:
                pass
        os.rmdir(path)
    except FileNotFoundError:
        pass


def _umask() -> int:
    """Reading it by setting it would race with other threads."""
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    return 0o777


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    except FileNotFoundError:
        return False

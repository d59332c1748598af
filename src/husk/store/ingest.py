"""store: ingest: from a host directory to blobs, a manifest and an image.

The C core walks, reads and writes (native/store), many files per call and without the GIL; the blake3 package hashes.
Python itself makes one slice and one hash object per file.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time

from blake3 import blake3

from husk.abi.text import decoded
from husk.native import _core
from husk.store import exclude
from husk.store.ingest_index import TOO_YOUNG_NS, Index
from husk.store.manifests.manifest import NO_BLOB
from husk.store.manifests.manifest_writer import finish_tree
from husk.store.staging import Stage, run_threads
from husk.store.store_errors import StoreError, cannot_open, no_room, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.store.images import ImageConfig
    from husk.store.store import Store

    Progress = Callable[[int, int], None]  # files and bytes done

SMALL = 1 << 20  # larger files are copied piece by piece
BUFFER = 4 << 20
NOT_READ = 0xFFFFFFFF
# How much is staged before it is published and synced: a killed ingest loses that, and the page cache must hold it.
MOST_STAGED = 4 << 30


class Report:
    """What an ingest did."""

    def __init__(self) -> None:
        self.manifest = ""
        self.image = ""
        self.files = self.directories = self.links = self.others = 0
        self.bytes = 0  # of all files
        self.unchanged = 0  # files that were not read
        self.unstable = 0  # files that changed while they were read
        self.blobs = self.blob_bytes = 0  # distinct contents of the tree's files
        self.new_blobs = self.new_bytes = 0  # those that the store did not have
        self.excluded: list[tuple[bytes, bool]] = []  # (path, whether as a secret)
        self.seconds = 0.0

    @property
    def dedup_ratio(self) -> float:
        return self.bytes / self.blob_bytes if self.blob_bytes else 1.0

    def as_json(self) -> dict[str, object]:
        return {
            **{name: value for name, value in vars(self).items() if name != "excluded"},
            "dedup_ratio": round(self.dedup_ratio, 3),
            "excluded": [{"path": decoded(path), "secret": secret} for path, secret in self.excluded],
        }


class Options:
    """How to ingest."""

    def __init__(
        self,
        exclude: Iterable[str] = (),
        *,
        include_secrets: bool = False,
        cross_mounts: bool = False,
        jobs: int = 0,
        config: ImageConfig | None = None,
    ) -> None:
        self.exclude = list(exclude)
        self.include_secrets = include_secrets
        self.cross_mounts = cross_mounts
        self.jobs = jobs or len(os.sched_getaffinity(0))
        self.config = config


def ingest(
    store: Store, directory: str, name: str = "", options: Options | None = None, progress: Progress | None = None
) -> Report:
    """Bring a directory into the store; with a name, as an image of one layer."""
    started = time.monotonic()
    options = options or Options()
    try:
        root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise cannot_open(error, f"{directory} cannot be ingested", "name a directory.") from None
    try:
        with store.writing() as writing:
            work = _Ingest(store, root, writing.stage, options, progress)
            report = work.run()
            writing.publish(options.jobs)
            if name:
                writing.set_image(name, [report.manifest], options.config)
                report.image = name
            # Last: a lost index only costs time, but one that names blobs which were never published costs an image.
            try:
                work.save_index()
            except OSError:
                pass  # the image is recorded: a disk that fills up only now must not make it look undone
    except OSError as error:
        raise StoreError(failure(store, error)) from error
    finally:
        os.close(root)
    report.seconds = time.monotonic() - started
    return report


def failure(store: Store, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_room(store.place)
    if error.errno == errno.EUCLEAN:
        return f"the blob {error.filename} is damaged; `husk store verify` sets it aside, then try again."
    return f"the store at {store.place} cannot be written: {error.strerror}; look at the file system it is on."


class _Ingest:
    """One ingest, from the walk to a staged manifest."""

    def __init__(self, store: Store, root: int, stage: Stage, options: Options, progress: Progress | None) -> None:
        self.store, self.root, self.stage, self.options, self.progress = store, root, stage, options, progress
        self.tree = _core.Tree()
        self.report = Report()
        self.began_ns = time.time_ns()
        self.index = Index(store.place, os.fstat(root))
        self.generation = store.generation()
        self.large: list[int] = []
        self.lock = threading.Lock()  # of all below
        self.small_left = True
        self.failed = False
        self.round_bytes = 0
        self.done = [0, 0]

    def run(self) -> Report:
        self.scan()
        self.report.unchanged = self.tree.match(self.root, self.index.records)
        if self.index.generation != self.generation:  # something was removed since
            self.report.unchanged -= self.tree.missing(self.stage.blobs_fd)
        self.read()
        self.raise_errors()
        self.tree.share_links()
        self.report.manifest = self.stage.put(finish_tree(self.tree))
        self.count()
        return self.report

    def save_index(self) -> None:
        self.index.save(self.generation, self.tree.index(self.began_ns - TOO_YOUNG_NS))

    def scan(self) -> None:
        wanted = exclude.patterns(self.options.exclude, include_secrets=self.options.include_secrets)
        here = os.readlink(f"/proc/self/fd/{self.root}").rstrip("/")
        if self.store.place.startswith(f"{here}/"):  # the store itself is never ingested
            wanted.append(exclude.literal(os.fsencode(self.store.place[len(here) + 1 :])))
        self.tree.scan(self.root, wanted, self.options.cross_mounts)
        self.raise_errors()
        exclude.drop_keys(self.tree, self.root)

    def raise_errors(self) -> None:
        """A file that cannot be read stops the ingest: an image with silent holes is worse than none."""
        troubles = self.tree.troubles
        if not troubles:
            return
        path, error = troubles[0]
        more = f", and {len(troubles) - 1} more" if len(troubles) > 1 else ""
        raise StoreError(
            f"{shown(path)} cannot be read ({os.strerror(error)}){more}; make it readable, or --exclude it."
        )

    def read(self) -> None:
        """In rounds: what one round staged is published before the next begins."""
        files, _, self.large = self.tree.plan(SMALL)
        self.small_left = files > 0
        self.stage.dirty |= self.small_left
        while self.small_left or self.large:
            if self.round_bytes:
                self.stage.publish(self.options.jobs)
                self.round_bytes = 0
            jobs = max(1, min(self.options.jobs, (files + 255) // 256 + len(self.large)))
            run_threads(jobs, self.work)

    def work(self, _: int) -> None:
        """One thread: small files in batches, then large files one by one."""
        buffer = bytearray(BUFFER)
        view = memoryview(buffer)
        try:
            while self.may_go_on():
                run = self.tree.read(self.root, buffer) if self.small_left else None
                if run is not None:
                    self.stage_batch(run, view)
                    continue
                self.small_left = False
                with self.lock:
                    number = self.large.pop() if self.large else None
                if number is None:
                    break
                self.stage_large(number)
        except BaseException:
            self.failed = True
            raise

    def may_go_on(self) -> bool:
        return not self.failed and self.round_bytes < MOST_STAGED

    def stage_batch(self, run: tuple[int, bytes, list[int]], view: memoryview) -> None:
        first, sizes, again = run
        hashes = []
        at = files = 0
        for size in memoryview(sizes).cast("I"):
            if size == NOT_READ:
                hashes.append(NO_BLOB)
                continue
            hashes.append(blake3(view[at : at + size]).digest())
            at += size
            files += 1
        blobs, new_bytes = self.tree.stage(
            first, sizes, b"".join(hashes), view, self.stage.fd, self.stage.blobs_fd, self.stage.change_mode
        )
        with self.lock:
            self.large += again
        self.advance(files, at, blobs, new_bytes)

    def stage_large(self, number: int) -> None:
        """Also for small files that changed since they were scanned."""
        try:
            fd = _core.open_beneath(self.root, self.tree.path(number), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            self.tree.drop(number)  # deleted meanwhile
            return
        except OSError as error:
            raise StoreError(
                f"{shown(self.tree.path(number))} cannot be read ({error.strerror}); try again when nothing changes it."
            ) from None
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise StoreError(f"{shown(self.tree.path(number))} was replaced meanwhile; try again.")
            new = self.stage.new_bytes
            hash_, size = self.stage.copy(fd)
            after = os.fstat(fd)
            stable = size == after.st_size and _stamp(before) == _stamp(after)
            self.tree.hashed(number, fd, bytes.fromhex(hash_), size, stable)
        finally:
            os.close(fd)
        self.advance(1, size, 0, self.stage.new_bytes - new)

    def advance(self, files: int, size: int, new_blobs: int, new_bytes: int) -> None:
        with self.lock:
            self.round_bytes += new_bytes
            self.report.new_blobs += new_blobs
            self.report.new_bytes += new_bytes if new_blobs else 0
            self.done[0] += files
            self.done[1] += size
            done = tuple(self.done)
        if self.progress:
            self.progress(*done)

    def count(self) -> None:
        report = self.report
        report.files, report.directories, report.links, report.others, report.unstable, report.bytes = (
            self.tree.summary()
        )
        report.blobs, report.blob_bytes = self.tree.distinct()
        report.new_blobs += self.stage.new_blobs
        report.new_bytes += self.stage.new_bytes
        report.excluded = self.tree.dropped()


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns

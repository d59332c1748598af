"""store: the layout of a store on disk, and the check that a directory is a store that can be trusted.

version      the format; a husk that does not know it touches nothing
lock         held shared by writers, exclusively by collection and verify
generation   a number that grows before anything is removed, so that an index knows when to look again
blake3/      ab/<hash>: the blobs, manifests among them
images/      one small record per image
roots/       manifests that kept boxes need (`roots`)
leases/      one locked file per process that uses a manifest
index/       what the last ingest of a directory saw; a cache, may be deleted at any time
tmp/         one locked directory per writer; one without a lock is a leftover
quarantine/  blobs that were found damaged
"""

from __future__ import annotations

import os
import stat as st

from husk.store.store_errors import StoreError, StoreUsageError

VERSION = b"husk store 2\n"  # 1 had blake3/ab/cd/<hash>
FOLDERS = ("blake3", "images", "leases", "index", "tmp", "quarantine", "roots")


def default_place() -> str:
    """HUSK_STORE, else the user's data directory."""
    given = os.environ.get("HUSK_STORE")
    if given:
        return os.path.abspath(given)
    data = os.environ.get("XDG_DATA_HOME", "")
    if not data.startswith("/"):  # the XDG specification: a relative one is to be ignored
        data = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, "husk", "store")


def create(place: str) -> None:
    """Make it a store. Two processes may do so at once; existing files stay."""
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        names = set(os.listdir(place))
        if "version" not in names:
            if names - {*FOLDERS, "lock"} - {name for name in names if name.startswith(".version-")}:
                raise StoreUsageError(f"{place} is not empty and no store; name another directory with --store.")
            for folder in FOLDERS:
                os.makedirs(os.path.join(place, folder), 0o700, exist_ok=True)
            os.close(os.open(os.path.join(place, "lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
            # Last, and whole or not at all: its presence says that the rest is there.
            write_whole(os.path.join(place, "version"), VERSION)
    except OSError as error:
        raise StoreError(
            f"a store cannot be made at {place} ({error.strerror}); set HUSK_STORE to a directory of yours."
        ) from None


def check(place: str) -> None:
    try:
        with open(os.path.join(place, "version"), "rb") as file:
            version = file.read(100)
        found = os.stat(place)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreUsageError(
            f"there is no store at {place}; `husk image import` and `husk store ingest` make one;"
            " --store names another."
        ) from None
    except OSError as error:
        raise StoreError(f"the store at {place} cannot be read: {error.strerror}.") from None
    if version != VERSION:
        raise StoreError(
            f"the store at {place} was made by another version of husk; remove it, or name another with --store."
        )
    # A user who can write here chooses what every image holds.
    if found.st_uid not in (os.geteuid(), 0) or (st.S_IMODE(found.st_mode) & 0o022):
        raise StoreError(
            f"the store at {place} can be written by others; `chmod go-w` it, or name another with --store."
        )


def write_whole(path: str, data: bytes) -> None:
    """Replace a small file: a reader sees the old content or the new, also after a crash."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}-{os.getpid()}-{os.urandom(4).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write_and_close(fd, data, durable=True)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_directory(folder)


def write_file(path: str, data: bytes, *, durable: bool = False) -> None:
    """Write a file that only its writer uses until it is done. `durable`: its content survives a crash of the host."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    write_and_close(fd, data, durable=durable)


def write_and_close(fd: int, data: bytes, *, durable: bool) -> None:
    try:
        write_all(fd, data)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_hash(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdef")


def blob_place(hash_: str) -> str:
    """Below blake3/, and below a staging directory."""
    if not is_hash(hash_):
        raise StoreUsageError(f"{hash_!r} is not a hash; one has 64 hexadecimal digits.")
    return f"{hash_[:2]}/{hash_}"

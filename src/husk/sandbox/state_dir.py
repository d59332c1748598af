"""sandbox: the host directory that holds one box's upper files and placeholders, and that must not outlive it.

A box locks its directory for as long as it lives; the lock goes with the process however it dies. So a directory whose
lock can be had belongs to nobody, and the next husk removes it.
"""

from __future__ import annotations

import fcntl
import os
import stat as st

from husk.sandbox.errors import HuskError

ST_NOEXEC = 8
TRIES = 100
SPARE = 3


class StateDir:
    """Created, locked, and removed again by `remove`."""

    __slots__ = ("_lock", "_spare", "path")

    def __init__(self) -> None:
        place = base()
        sweep(place)
        for _ in range(TRIES):
            name = f"box-{os.getpid()}-{int.from_bytes(os.urandom(4), 'big'):08x}"
            self.path = os.path.join(place, name)
            os.mkdir(self.path, 0o700)
            # Another husk may take it for a leftover before we hold the lock; then it is gone, and we make a new one.
            self._lock = lock_directory(self.path, wait=True)
            if self._lock >= 0:
                # Removing takes descriptors, and a husk that ends because it has none left must remove all the same.
                self._spare: list[int] = []
                try:
                    for _ in range(SPARE):
                        self._spare.append(os.dup(self._lock))
                except OSError:
                    os.rmdir(self.path)  # still empty
                    raise
                return
        raise HuskError(f"{place}: every new directory vanished at once; is somebody cleaning up there?")

    def become(self, path: str, *, share: bool = False) -> None:
        """What it holds is to stay, as `path`. It stays locked until `remove`, which then removes nothing; with
        `share`, so that others can lock it likewise."""
        os.rename(self.path, path)
        if share:
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def stay(self, path: str) -> None:
        """It is not to stay as `path` after all: `remove` removes it."""
        os.rename(path, self.path)

    def forget(self) -> None:
        """In a forked child: the directory is the parent's, which holds the same lock."""
        while self._spare:
            os.close(self._spare.pop())
        os.close(self._lock)

    def remove(self) -> None:
        while self._spare:
            os.close(self._spare.pop())
        remove_tree(self.path)
        os.close(self._lock)


def base() -> str:
    """HUSK_STATE, else the user's state directory, else one of our own below the temporary directory."""
    given = os.environ.get("HUSK_STATE")
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    temporary = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"husk-{os.geteuid()}")
    refused = []
    for place in [given] if given else [os.path.join(home, "husk"), temporary]:
        try:
            os.makedirs(place, 0o700, exist_ok=True)
            found = os.stat(place)
            if found.st_uid != os.geteuid() or st.S_IMODE(found.st_mode) & 0o022:
                refused.append(f"{place} can be written by others")
            elif os.statvfs(place).f_flag & ST_NOEXEC:
                refused.append(f"{place} is mounted noexec")
            elif not os.access(place, os.W_OK | os.X_OK):
                refused.append(f"{place} cannot be written")
            else:
                return place
        except OSError as error:
            refused.append(f"{place}: {error.strerror}")
    raise HuskError(f"no place for the box's files ({'; '.join(refused)}); set HUSK_STATE to a directory of yours.")


def lock_directory(path: str, *, wait: bool) -> int:
    """A descriptor that holds the lock of the directory at `path`; -1 if it is locked, no directory, or gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        # The lock of a directory that was removed meanwhile can be had, and means nothing.
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            return fd
    except OSError:
        pass
    os.close(fd)
    return -1


def is_there(path: str) -> bool:
    """Where something is removed because it is not there: os.path.exists also says no when the host only fails."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def sweep(place: str) -> None:
    """Remove what a killed husk left behind."""
    for entry in os.listdir(place):
        if not entry.startswith("box-"):
            continue
        path = os.path.join(place, entry)
        fd = lock_directory(path, wait=False)
        if fd >= 0:
            if _put_right(path):
                remove_tree(path)
            os.close(fd)


def _put_right(path: str) -> bool:
    """Was it writing a box's changes to a host directory when it was killed? False: that cannot be undone now, so what
    tells how has to stay."""
    try:
        if not is_there(os.path.join(path, "apply")):
            return True
        from husk.sandbox.apply.apply import recover_left

        recover_left(path)
    except (OSError, HuskError, ValueError, KeyError):
        return False
    return True


def remove_tree(path: str) -> None:
    """Everything below `path`, never following a link: the tree is two levels of our own making. What somebody else
    removed meanwhile is removed."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    _unlink(entry.path)
        os.rmdir(path)
    except FileNotFoundError:
        pass


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass

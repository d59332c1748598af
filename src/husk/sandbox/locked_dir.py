"""sandbox: small operations on husk's own directories on the host: lock one, look for one, remove one.

A process that uses such a directory holds its lock. The lock goes with the process however it dies, so a directory
whose lock is free is a leftover. Not here: directories that guests or other programs can change at the same time
(`remove_tree`).
"""

from __future__ import annotations

import errno
import fcntl
import os


def lock_directory(path: str, *, wait: bool) -> int:
    """A descriptor that holds the lock of the directory at `path`; -1 if it is locked, no directory, or gone. Having
    no descriptor left says nothing about the directory, so it is an error."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        # A directory that was removed meanwhile can still be locked, which means nothing.
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            return fd
    except OSError:
        pass
    os.close(fd)
    return -1


def is_there(path: str) -> bool:
    """For code that removes something because `path` is missing: os.path.exists also says no when the host fails."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def remove_own_tree(path: str) -> None:
    """Remove `path` and everything below it, following no link. The tree has two levels, both made by husk. It is no
    error if another process removes parts of it meanwhile."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    remove_own_tree(entry.path)
                else:
                    remove_file(entry.path)
        os.rmdir(path)
    except FileNotFoundError:
        pass


def remove_file(path: str) -> None:
    """It is no error if it is gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass

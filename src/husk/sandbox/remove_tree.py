"""sandbox: remove trees that guests or other programs made or may change meanwhile.

Only descriptors and names of one component are used, so no link is followed, however quickly it appears, and no tree is
too deep.
"""

from __future__ import annotations

import os

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def empty_directory(top: int) -> None:
    """Remove everything in the directory with the descriptor `top`. A directory is moved to the top, then emptied."""
    waiting, fresh, count = os.listdir(top), os.urandom(4).hex(), 0
    while waiting:
        name = waiting.pop()
        folder = open_directory(top, name)
        if folder < 0:
            os.unlink(name, dir_fd=top)
            continue
        try:
            for inner in os.listdir(folder):
                try:
                    os.unlink(inner, dir_fd=folder)
                except IsADirectoryError:
                    count += 1
                    below = open_directory(folder, inner)  # makes it writable: only then it can be moved
                    if below >= 0:
                        os.close(below)
                    os.rename(inner, f"{fresh}-{count}", src_dir_fd=folder, dst_dir_fd=top)
                    waiting.append(f"{fresh}-{count}")
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)


def open_directory(parent: int, name: str | bytes) -> int:
    """A descriptor to list the directory with. -1: no directory."""
    try:
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except NotADirectoryError:
        return -1
    try:
        return reopen_listable(fd)
    finally:
        os.close(fd)


def reopen_listable(directory: int) -> int:
    """The same for a directory that an O_PATH descriptor names. Its mode may deny even its owner to list it and to
    reach any name in it, `.` included, so the mode is changed first."""
    os.chmod(f"/proc/self/fd/{directory}", 0o700)
    return os.open(".", DIRECTORY, dir_fd=directory)

"""sandbox: removing trees that strangers made or may be at work in: by descriptors, and never by a name of more than
one component, so that no link is followed, however quickly it comes, and no depth is too much."""

from __future__ import annotations

import os

from husk.native._core import open_beneath

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def empty(top: int) -> None:
    """Everything in the directory `top` is a descriptor of. Directories come to the top before they are emptied."""
    waiting, fresh, count = os.listdir(top), os.urandom(4).hex(), 0
    while waiting:
        name = waiting.pop()
        folder = opened(top, name)
        if folder < 0:
            os.unlink(name, dir_fd=top)
            continue
        try:
            for inner in os.listdir(folder):
                try:
                    os.unlink(inner, dir_fd=folder)
                except IsADirectoryError:
                    count += 1
                    below = opened(folder, inner)  # only what may be written can be moved
                    if below >= 0:
                        os.close(below)
                    os.rename(inner, f"{fresh}-{count}", src_dir_fd=folder, dst_dir_fd=top)
                    waiting.append(f"{fresh}-{count}")
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)


def folder_below(top: int, path: bytes) -> int:
    """An O_PATH descriptor of a directory beneath `top`, without following a link."""
    return open_beneath(top, path, os.O_PATH | os.O_DIRECTORY)


def opened(above: int, name: str | bytes) -> int:
    """A directory's mode may keep even us, its owner, from looking into it: it is changed. -1: no directory."""
    try:
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except NotADirectoryError:
        return -1
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)
        return os.open(".", FOLDER, dir_fd=fd)
    finally:
        os.close(fd)

"""sandbox: removing trees that strangers made or may be at work in: by descriptors, and never by a name of more than
one component, so that no link is followed, however quickly it comes, and no depth is too much."""

from __future__ import annotations

import os

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


def opened(above: int, name: str | bytes) -> int:
    """A descriptor to list the directory by. -1: no directory."""
    try:
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except NotADirectoryError:
        return -1
    try:
        return listable(fd)
    finally:
        os.close(fd)


def listable(folder: int) -> int:
    """The same of the directory that an O_PATH descriptor names. Its mode may keep even us, its owner, from looking
    into it, and from every name in it, `.` included: so first it is changed."""
    os.chmod(f"/proc/self/fd/{folder}", 0o700)
    return os.open(".", FOLDER, dir_fd=folder)

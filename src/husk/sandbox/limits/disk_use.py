"""sandbox: how much disk the files of a box take. Looks below the state directory and counts; judges nothing.

`files/` is flat. `real/` holds the counterparts of watched directories (docs/design/005). A guest that watches moves
its files there, so whoever forgets it can be cheated.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SEARCHABLE = 0o755
_FOLDERS = (b"/files", b"/real")


def kept_bytes(state: bytes) -> int:
    """Of the blocks on disk, those of a file with several names once."""
    return sum(found.st_blocks for found in _files(state)) * 512


def largest(state: bytes) -> int:
    """The size of the largest file."""
    return max((found.st_size for found in _files(state)), default=0)


def _files(state: bytes) -> Iterator[os.stat_result]:
    several: set[int] = set()
    for folder in _FOLDERS:
        for found in _below(state + folder):
            if found.st_nlink > 1:
                if found.st_ino in several:
                    continue
                several.add(found.st_ino)
            yield found


def _below(folder: bytes) -> Iterator[os.stat_result]:
    """One directory open at a time, and from each to the next by one name or `..`: guests nest them far beyond what a
    path, a recursion or a table of descriptors can hold. What changes meanwhile is counted at the next look."""
    try:
        here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # nobody watches
    waiting: list[list[str]] = []  # on each level, the directories still to be entered
    try:
        while True:
            directories: list[str] = []
            for name, found in _entries(here):
                if stat.S_ISDIR(found.st_mode):
                    directories.append(name)
                else:
                    yield found
            waiting.append(directories)
            entered = False
            while not entered:
                if waiting[-1]:
                    entered, here = _moved(here, waiting[-1].pop())
                    continue
                waiting.pop()
                if not waiting:
                    return
                up, here = _moved(here, "..")
                if not up:
                    return
    finally:
        os.close(here)


def _moved(here: int, name: str) -> tuple[bool, int]:
    """(did it work, where we are now)."""
    try:
        there = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    except OSError:
        return False, here
    os.close(here)
    return True, there


def _entries(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                yield entry.name, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except PermissionError:
                # The guest closed the directory to itself, and an ordinary user's husk with it. It is ours all the
                # same; that a watcher hears of it does no harm.
                os.chmod(folder, SEARCHABLE)
                try:
                    yield entry.name, os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
                finally:
                    os.chmod(folder, SEARCHABLE & ~0o111)

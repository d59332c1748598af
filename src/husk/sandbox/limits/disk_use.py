"""sandbox: how much disk the files of a box take. Counts below the state directory; compares with no limit.

`files/` is flat. `mirror/` mirrors watched directories (docs/design/005). A guest that watches a directory moves its
files there, so a count without it could be evaded.
"""

from __future__ import annotations

import os
import stat

from husk.vfs.state import FILES, MIRROR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SEARCHABLE = 0o755


def used_bytes(state: bytes) -> int:
    """Blocks on disk, in bytes. A file with several names counts once."""
    return sum(found.st_blocks for found in _files(state)) * 512


def largest(state: bytes) -> int:
    """The size of the largest file."""
    return max((found.st_size for found in _files(state)), default=0)


def _files(state: bytes) -> Iterator[os.stat_result]:
    several: set[int] = set()
    for folder in (FILES, MIRROR):
        for found in _below(state + b"/" + folder):
            if found.st_nlink > 1:
                if found.st_ino in several:
                    continue
                several.add(found.st_ino)
            yield found


def _below(folder: bytes) -> Iterator[os.stat_result]:
    """One directory is open at a time, and the next is reached by one name or `..`: guests nest directories far deeper
    than a path, a recursion or a table of descriptors can hold. Changes meanwhile are counted the next time."""
    try:
        here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # no directory is watched
    waiting: list[list[str]] = []  # for each level, the directories still to be entered
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
                    entered, here = _enter(here, waiting[-1].pop())
                    continue
                waiting.pop()
                if not waiting:
                    return
                up, here = _enter(here, "..")
                if not up:
                    return
    finally:
        os.close(here)


def _enter(here: int, name: str) -> tuple[bool, int]:
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
                # The guest took search permission away, which also stops husk if an ordinary user runs it. husk owns
                # the directory and can give it back for a moment; a watcher may notice that, which does no harm.
                os.chmod(folder, SEARCHABLE)
                try:
                    yield entry.name, os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
                finally:
                    os.chmod(folder, SEARCHABLE & ~0o111)

"""kernel: descriptor tables of the box's processes, as /proc shows them: one table per process, or one per thread.

Here: finding a process's tables, collecting the links or files of everything that is held open or is a working
directory, and fstat(2) of descriptors that have no vfs node (pipes, sockets, memfds, files husk was started with).
"""

from __future__ import annotations

import os

from husk.native._core import shares_table
from husk.vfs.node import Stat
from husk.vfs.pinned import identify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from husk.kernel.call import Call

    Shown = TypeVar("Shown")

ALONE = 3  # links of a directory that has one directory in it
COMPARED = 8  # tables; a process with more of them is looked at thread by thread, which finds the same, only slower
LEAST, MOST = 2, 5  # passes over the descriptors
NO_FILE = b"", 0, 0


def tables_of(pid: int) -> list[bytes]:
    """Directories of /proc, one for each table; FileNotFoundError where the process has ended.

    Most processes have one table. But a thread may have its own, and where the first thread has ended, /proc shows an
    empty table for the process."""
    threads = b"/proc/%d/task" % pid
    if os.stat(threads).st_nlink == ALONE:
        return [b"/proc/%d/fd/" % pid]
    apart: list[int] = []
    for thread in map(int, os.listdir(threads)):
        if not any(shares_table(thread, other) for other in apart[:COMPARED]):
            apart.append(thread)
    return [b"/proc/%d/task/%d/fd/" % (pid, thread) for thread in apart]


def links_held(reapers: list[int]) -> set[bytes]:
    """The links that these processes hold, all their descendants, and husk itself, which may be about to hand one over.

    Placeholders that are not among them are collected, so a holder loses what is missed here: a failing host must not
    look like a box that holds nothing.

    A link counts if any pass finds it, and there are at least two passes: a process may fork and close a descriptor
    between the looks at parent and child. In a box where processes come and go all the time no pass is complete."""
    return _all_held(reapers, os.readlink)


def files_held(reapers: list[int]) -> set[tuple[bytes, int, int]]:
    """Link, device and inode number of the files among them. It is complete in the same way."""
    return _all_held(reapers, _file) - {NO_FILE}


def _file(place: bytes) -> tuple[bytes, int, int]:
    # Only what has a name: to open another kind, even with O_PATH, may fail.
    if not os.readlink(place).startswith(b"/"):
        return NO_FILE
    link, host = identify(place)
    return link, host.st_dev, host.st_ino


def _all_held(reapers: list[int], show: Callable[[bytes], Shown]) -> set[Shown]:
    found: set[Shown] = set()
    for count in range(1, MOST + 1):
        if _look(found, [*reapers, os.getpid()], set(reapers), show) and count >= LEAST:
            break
    return found


def _look(found: set[Shown], todo: list[int], parents: set[int], show: Callable[[bytes], Shown]) -> bool:
    """Did no process end while it was looked at?"""
    complete = True
    while todo:
        pid = todo.pop()
        try:
            threads = [b"/proc/%d/task/%s/" % (pid, thread) for thread in os.listdir(b"/proc/%d/task" % pid)]
            if pid in parents:
                born = [child for thread in threads for child in _children(thread)]
                todo += born
                parents.update(born)
            # Descriptors first: a process that enters a directory holds a descriptor of it until it is there.
            found.update(shown for table in tables_of(pid) for shown in _descriptors(table, show))
            found.update(show(thread + b"cwd") for thread in threads)
        except (FileNotFoundError, ProcessLookupError):
            complete = False
        except PermissionError:
            continue  # undumpable, which harms only itself
    return complete


def _children(thread: bytes) -> list[int]:
    with open(thread + b"children", "rb") as children:
        return [int(word) for word in children.read().split()]


def _descriptors(folder: bytes, show: Callable[[bytes], Shown]) -> list[Shown]:
    found = []
    for name in os.listdir(folder):
        try:
            found.append(show(folder + name))
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def stat_held(call: Call, fd: int) -> Stat:
    """fstat(2) of a descriptor without a vfs node, with host ids mapped to guest ids."""
    dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atime, mtime, ctime = call.raw.fd_stat(fd)
    ids = call.kernel.identity
    return Stat(
        dev, ino, mode, nlink, ids.guest_uid(uid), ids.guest_gid(gid), rdev, size, blksize, blocks, atime, mtime, ctime
    )

"""kernel: what the processes of a box hold open or sit in, as the host's links show it.

Asked when placeholders are to be thrown away, so what is missed is lost for its holder: a host that fails us must not
look like a box that holds nothing, and a process that ends while we look may have left children where we looked before.
"""

from __future__ import annotations

import os

from husk.kernel.tables import tables_of

LEAST, MOST = 2, 5


def links_held(reapers: list[int]) -> set[bytes]:
    """Of all processes below these, of these, and of our own, which may be about to hand something over.

    What any look finds counts, and there are two at least: a process may have a child and let something go between our
    looks at the one and at the other. In a box where processes come and go all the time no look is complete."""
    found: set[bytes] = set()
    for count in range(1, MOST + 1):
        if _look(found, [*reapers, os.getpid()], set(reapers)) and count >= LEAST:
            break
    return found


def _look(found: set[bytes], todo: list[int], parents: set[int]) -> bool:
    """Was nobody gone when it was looked at?"""
    complete = True
    while todo:
        pid = todo.pop()
        try:
            threads = [b"/proc/%d/task/%s/" % (pid, thread) for thread in os.listdir(b"/proc/%d/task" % pid)]
            if pid in parents:
                born = [child for thread in threads for child in _children(thread)]
                todo += born
                parents.update(born)
            # Descriptors first: who enters a directory has one of it until it is there.
            found.update(link for table in tables_of(pid) for link in _descriptors(table))
            found.update(os.readlink(thread + b"cwd") for thread in threads)
        except (FileNotFoundError, ProcessLookupError):
            complete = False
        except PermissionError:
            continue  # undumpable, which harms only itself
    return complete


def _children(thread: bytes) -> list[int]:
    with open(thread + b"children", "rb") as children:
        return [int(word) for word in children.read().split()]


def _descriptors(folder: bytes) -> list[bytes]:
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(folder + name))
        except FileNotFoundError:
            continue  # closed meanwhile
    return found

"""kernel: what the processes of a box hold open or sit in, as the host's links show it.

Asked when placeholders are to be thrown away, so what is missed is lost for its holder: a host that fails us must not
look like a box that holds nothing, and a process that ends while we look may have left children where we looked before.
"""

from __future__ import annotations

import os

TRIES = 4


def links_held(reapers: list[int]) -> list[bytes]:
    """Of all processes below these, of these, and of our own, which may be about to hand something over."""
    found: list[bytes] = []
    for _ in range(TRIES):
        found, complete = _look([*reapers, os.getpid()], set(reapers))
        if complete:
            break
    return found


def _look(todo: list[int], parents: set[int]) -> tuple[list[bytes], bool]:
    found: list[bytes] = []
    complete = True
    while todo:
        pid = todo.pop()
        try:
            threads = os.listdir(b"/proc/%d/task" % pid)
            for thread in threads:
                here = b"/proc/%d/task/%s/" % (pid, thread)
                if pid in parents:
                    with open(here + b"children", "rb") as children:
                        born = [int(word) for word in children.read().split()]
                    todo += born
                    parents.update(born)
                found.append(os.readlink(here + b"cwd"))
            found += _descriptors(b"/proc/%d/fd/" % pid)
        except (FileNotFoundError, ProcessLookupError):
            complete = False
        except PermissionError:
            continue  # undumpable, which harms only itself
    return found, complete


def _descriptors(folder: bytes) -> list[bytes]:
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(folder + name))
        except FileNotFoundError:
            continue  # closed meanwhile
    return found

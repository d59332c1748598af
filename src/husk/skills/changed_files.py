"""skills: what a box changed below the places whose changes come back: told apart from caches, and copied out.

The names and the content are the guest's. They are read through the box's own file system, as the guest would read
them, and written into a staging directory, from which `output_files` moves them on. Guests of other boxes may have that
directory on an `rw` mount, so every file is made beneath a descriptor, without following links.
"""

from __future__ import annotations

import os
import stat as st
from typing import TYPE_CHECKING

from husk.sandbox.policy import HOME
from husk.sandbox.remove_tree import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.api.files import BoxFiles

# Caches, wherever they are: a program makes them again.
CACHES = {
    "__pycache__",
    ".cache",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".npm",
    ".pytest_cache",
    ".ruff_cache",
}
TEMPORARY = ("/tmp/", "/dev/shm/", "/var/tmp/")


def is_noise(path: str) -> bool:
    """A cache, a temporary file, or a program's own settings in the home directory."""
    if path.startswith((f"{HOME}/.", *TEMPORARY)) or path.endswith((".pyc", ".pyo")):
        return True
    return not CACHES.isdisjoint(path.split("/"))


def fold(changes: Iterable[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """What a person wants to see of the changes, and the places of the rest, without temporary files."""
    real, places = list[tuple[str, str]](), dict[str, int]()
    for change, path in changes:
        if path.startswith(TEMPORARY):
            continue
        if is_noise(path):
            place = _place(path)
            places[place] = places.get(place, 0) + 1
        else:
            real.append((change, path))
    return real, [f"{place} ({count})" for place, count in places.items()]


def _place(path: str) -> str:
    parts = path.split("/")
    for number, part in enumerate(parts):
        if part in CACHES:
            return "/".join(parts[: number + 1])
    return "/".join(parts[:4]) if path.startswith(f"{HOME}/.") else os.path.dirname(path)


def take_changes(box: BoxFiles, changes: Iterable[tuple[str, str]], place: str, target: int) -> list[str]:
    """Copy what changed below `place` in the box to `target`, a directory's descriptor. Returns what cannot be brought
    back, and why."""
    left = []
    for change, path in changes:
        if not path.startswith(f"{place}/") or is_noise(path):
            continue
        name = os.fsencode(path.removeprefix(f"{place}/"))
        if change == "deleted":
            left.append(f"{path}: deleted in the box; a box that is kept can apply that")
            continue
        try:
            if reason := _take(box, path, target, name):
                left.append(f"{path}: {reason}")
        except OSError as error:
            left.append(f"{path}: {error.strerror}")
    return left


def _take(box: BoxFiles, path: str, target: int, name: bytes) -> str:
    """Copy one file or directory; returns why not."""
    mode = box.stat(path, follow=False).mode
    if st.S_ISDIR(mode):
        os.close(_make_folders(target, name))
        return ""
    if not st.S_ISREG(mode):
        return "a link" if st.S_ISLNK(mode) else "no file"
    folder, last = os.path.split(name)
    there = _make_folders(target, folder)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(last, flags, st.S_IMODE(mode) & 0o777, dir_fd=there)
    finally:
        os.close(there)
    try:
        box.copy_out(path, fd)
    finally:
        os.close(fd)
    return ""


def _make_folders(top: int, folder: bytes) -> int:
    """A descriptor of `folder` below `top`; what is missing is made. The caller closes it."""
    here = os.dup(top)
    try:
        for part in filter(None, folder.split(b"/")):
            try:
                os.mkdir(part, dir_fd=here)
            except FileExistsError:
                pass
            inner = os.open(part, DIRECTORY, dir_fd=here)
            os.close(here)
            here = inner
    except BaseException:
        os.close(here)
        raise
    return here

"""skills: a copy of a skill's folder, made when the skill is opened. What is checked, read and run is this one state,
whatever happens to the folder meanwhile.

`.git` is not copied: no box needs it, and no manifest is bound to what is in it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat as st
from pathlib import Path

from husk.native._core import open_beneath
from husk.sandbox.errors import UsageError
from husk.sandbox.remove_tree import DIRECTORY

MOST_FILES, MOST_BYTES = 1000, 64 << 20  # a copy of more than that would make each run wait
LEFT_OUT = ".git"
TRIES = 3


def fingerprint(root: Path) -> str:
    """Changes whenever a file below `root` does, as far as names, sizes and times tell."""
    return _survey(root)[0]


def _survey(root: Path) -> tuple[str, int, int]:
    """A fingerprint, the number of files, and their bytes."""
    whole, files, total = hashlib.sha256(), 0, 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != LEFT_OUT)
        for name in sorted([*names, *folders]):
            path = os.path.join(folder, name)
            try:
                found = os.lstat(path)
            except OSError:
                continue  # it is gone, which the next fingerprint shows
            size = 0 if st.S_ISDIR(found.st_mode) else found.st_size
            files, total = files + 1, total + size
            told = (path, found.st_mode, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, size)
            whole.update(repr(told).encode("utf-8", "surrogateescape"))
    return whole.hexdigest(), files, total


def copy_frozen(root: Path, target: Path, shown: Path) -> bool:
    """Copy `root` to `target`, which is not there yet. False: it is too large to copy. `shown` names it in errors."""
    before, files, total = _survey(root)
    if files > MOST_FILES or total > MOST_BYTES:
        return False
    for _ in range(TRIES):
        _copy(root, target)
        after = fingerprint(root)
        if after == before:
            return True
        before = after
        shutil.rmtree(target, ignore_errors=True)
    raise UsageError(f"{shown}: its files change all the time; wait until nothing writes to the skill, then try again.")


def _copy(root: Path, target: Path) -> None:
    top = os.open(root, DIRECTORY)
    try:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != LEFT_OUT]
            inside = os.path.relpath(folder, root)
            _make_folder(Path(folder), target / inside)
            for name in [*names, *(one for one in folders if os.path.islink(os.path.join(folder, one)))]:
                try:
                    _copy_entry(top, os.path.normpath(os.path.join(inside, name)), target)
                except OSError:
                    continue  # gone, or not for this user to read: then it is not in the box either
    finally:
        os.close(top)


def _copy_entry(top: int, name: str, target: Path) -> None:
    """Copy a file or a link; anything else is left out. Another process may put a link in the place of a file, or of a
    directory above it: no file from outside of the skill is ever read."""
    fd = open_beneath(top, os.fsencode(name), os.O_PATH | os.O_NOFOLLOW)
    try:
        found = os.fstat(fd)
        if st.S_ISLNK(found.st_mode):
            os.symlink(os.readlink("", dir_fd=fd), target / name)
        elif st.S_ISREG(found.st_mode):
            with open(f"/proc/self/fd/{fd}", "rb") as source, open(target / name, "xb") as copy:
                shutil.copyfileobj(source, copy)
                os.fchmod(copy.fileno(), st.S_IMODE(found.st_mode) & 0o777)
                os.utime(copy.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
        else:
            return
        _give(target / name, found)
    finally:
        os.close(fd)


def _give(path: Path, found: os.stat_result) -> None:
    """A husk run as root shows files with their owners."""
    if os.geteuid() == 0:
        os.chown(path, found.st_uid, found.st_gid, follow_symlinks=False)


def _make_folder(source: Path, target: Path) -> None:
    found = source.lstat()
    target.mkdir(parents=True)
    # The user must be able to write into it, whatever the original says, and to remove it.
    target.chmod(st.S_IMODE(found.st_mode) & 0o777 | 0o700)
    _give(target, found)


__all__ = ["copy_frozen", "fingerprint"]

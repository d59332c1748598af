"""skills: output files for `--out`. The box writes into a staging directory, or husk copies there what the box changed;
when the box has ended, husk moves the files to the target. So no guest ever holds a descriptor in a user's directory.

The guest chose names, depth and modes, and guests of other boxes may have the target as an `rw` mount. So every file is
opened beneath a descriptor, without following links.
"""

from __future__ import annotations

import os
import stat as st
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from husk.native._core import open_beneath
from husk.sandbox.errors import UsageError
from husk.sandbox.remove_tree import DIRECTORY, empty_directory, open_directory, reopen_listable
from husk.skills.changed_files import is_noise, take_changes
from husk.skills.skill_places import INPUT

if TYPE_CHECKING:
    from husk.api.files import BoxFiles

FOLDERS = ("out", "work", "in")  # of two files of one name, the first is taken


@dataclass
class Produced:
    files: list[tuple[str, int]] = field(default_factory=list)  # relative name, size
    left: list[str] = field(default_factory=list)  # not moved, and why
    kept: str = ""  # the name of the box that was kept
    changed_mounts: list[str] = field(default_factory=list)  # where the user's files changed, as the box calls it
    notes: list[str] = field(default_factory=list)  # for the user, after the run


class Staging:
    """Three directories: `out` is /out; `work` is the working directory, or what changed in it; `in` is what changed in
    /in. Inside the target, so moving is renaming."""

    def __init__(self, target: Path) -> None:
        try:
            target.mkdir(parents=True, exist_ok=True)
            self.base = Path(tempfile.mkdtemp(prefix=".husk-out-", dir=target.resolve()))
        except OSError as error:
            raise UsageError(f"--out {target}: {error.strerror}.") from None
        for folder in (self.base, *(self.base / name for name in FOLDERS)):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)  # the guest of a husk run as root is another user
        self._target = os.open(self.base.parent, DIRECTORY)
        self._top = os.open(self.base.name, DIRECTORY, dir_fd=self._target)

    def publish(self) -> Produced:
        """Move files and folders to the target. Links stay behind, since they may point anywhere on the host, as do
        sockets and FIFOs. Nothing is written through a link that is in the target already."""
        found = Produced()
        taken: set[bytes] = set()
        for name in FOLDERS:
            source = open_directory(self._top, name)
            try:
                self._publish(source, found, taken, caches=name == "out")
            finally:
                os.close(source)
        found.files.sort()
        return found

    def _publish(self, source: int, found: Produced, taken: set[bytes], *, caches: bool) -> None:
        """`caches`: move those, too. In /out they are there on purpose."""
        waiting = [b""]
        while waiting:
            folder = waiting.pop()
            held: list[int] = []
            try:
                for top in (source, self._target):
                    held.append(open_beneath(top, folder, os.O_PATH | os.O_DIRECTORY))
                held.append(reopen_listable(held[0]))  # the guest may have removed its own permissions
                waiting += self._folder(held[2], held[1], folder, found, taken, caches=caches)
            except OSError as error:  # another process changes the directory
                found.left.append(f"{os.fsdecode(folder) or '.'}: {error.strerror}")
            finally:
                for fd in held:
                    os.close(fd)

    def _folder(
        self, here: int, there: int, folder: bytes, found: Produced, taken: set[bytes], *, caches: bool
    ) -> list[bytes]:
        """Move the files of one folder; returns its sub-folders."""
        inner = []
        for last in sorted(map(os.fsencode, os.listdir(here))):
            name = folder + b"/" + last if folder else last
            shown = os.fsdecode(name)
            mode, goal = os.lstat(last, dir_fd=here).st_mode, _file_type(there, last)
            if not caches and is_noise(shown):
                continue
            if st.S_ISDIR(mode):
                if goal not in (0, st.S_IFDIR):
                    found.left.append(f"{shown}: in the way there is no folder")
                    continue
                if not goal:
                    os.mkdir(last, dir_fd=there)
                inner.append(name)
            elif not st.S_ISREG(mode):
                found.left.append(f"{shown}: {'a link' if st.S_ISLNK(mode) else 'no file'}")
            elif name in taken:
                found.left.append(f"{shown}: another file of that name came first")
            elif goal == st.S_IFDIR:
                found.left.append(f"{shown}: there is a folder of that name")
            else:
                taken.add(name)
                found.files.append((shown, _move(here, there, last)))
        return inner

    def take(self, box: BoxFiles, changes: list[tuple[str, str]], place: str) -> list[str]:
        """Copy what changed below `place` of a box, /in or the working directory; returns what cannot be, and why."""
        folder = open_directory(self._top, "in" if place == INPUT else "work")
        try:
            return take_changes(box, changes, place, folder)
        finally:
            os.close(folder)

    def remove(self) -> None:
        try:
            empty_directory(self._top)
            os.rmdir(self.base.name, dir_fd=self._target)
        except OSError:
            pass  # another process changes the directory
        os.close(self._top)
        os.close(self._target)


def _move(here: int, there: int, name: bytes) -> int:
    """Move one file; returns its size. An existing file or link of that name is replaced, never followed."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    try:
        found = os.fstat(fd)
        if st.S_ISREG(found.st_mode):
            os.chmod(f"/proc/self/fd/{fd}", st.S_IMODE(found.st_mode) & 0o777 | 0o600)
        os.replace(name, name, src_dir_fd=here, dst_dir_fd=there)
        return found.st_size
    finally:
        os.close(fd)


def _file_type(folder: int, name: bytes) -> int:
    """The file type; 0: there is no such file."""
    try:
        return st.S_IFMT(os.lstat(name, dir_fd=folder).st_mode)
    except FileNotFoundError:
        return 0

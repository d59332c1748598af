"""skills: what a run leaves for `--out`. The box writes into a staging directory of ours; only when it is gone are the
files moved to where the person wants them, so that no guest ever holds a handle in a directory of theirs.

The guest chose names, depth and modes, and guests of other boxes may have the target as an `rw` mount: everything is
reached beneath a descriptor, without following a link.
"""

from __future__ import annotations

import os
import stat as st
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from husk.native._core import open_beneath
from husk.sandbox.errors import UsageError
from husk.sandbox.remove_tree import DIRECTORY, empty_directory, open_directory, reopen_listable


@dataclass
class Produced:
    files: list[tuple[str, int]] = field(default_factory=list)  # relative name, size
    left: list[str] = field(default_factory=list)  # not handed over, and why


class Staging:
    """Two directories: `out` is /out, `work` the working directory. Inside the target, so that moving is renaming."""

    def __init__(self, target: Path) -> None:
        try:
            target.mkdir(parents=True, exist_ok=True)
            self.base = Path(tempfile.mkdtemp(prefix=".husk-out-", dir=target.resolve()))
        except OSError as error:
            raise UsageError(f"--out {target}: {error.strerror}.") from None
        for folder in (self.base, self.base / "out", self.base / "work"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)  # a box that root started has another user
        self._target = os.open(self.base.parent, DIRECTORY)
        self._top = os.open(self.base.name, DIRECTORY, dir_fd=self._target)

    def hand_over(self) -> Produced:
        """Files and folders only. Links may point anywhere on the host, so they stay behind, as do sockets and FIFOs;
        and nothing is written through a link that is in the target already."""
        found = Produced()
        taken: set[bytes] = set()
        for name in ("out", "work"):
            source = open_directory(self._top, name)
            try:
                self._hand_over(source, found, taken)
            finally:
                os.close(source)
        found.files.sort()
        return found

    def _hand_over(self, source: int, found: Produced, taken: set[bytes]) -> None:
        waiting = [b""]
        while waiting:
            folder = waiting.pop()
            held: list[int] = []
            try:
                for top in (source, self._target):
                    held.append(open_beneath(top, folder, os.O_PATH | os.O_DIRECTORY))
                held.append(reopen_listable(held[0]))  # a guest may have taken its own permissions away
                waiting += self._folder(held[2], held[1], folder, found, taken)
            except OSError as error:  # somebody else is at work there
                found.left.append(f"{os.fsdecode(folder) or '.'}: {error.strerror}")
            finally:
                for fd in held:
                    os.close(fd)

    def _folder(self, here: int, there: int, folder: bytes, found: Produced, taken: set[bytes]) -> list[bytes]:
        """Moves the files of one folder; those in it that are to be looked into."""
        inner = []
        for last in sorted(map(os.fsencode, os.listdir(here))):
            name = folder + b"/" + last if folder else last
            shown = os.fsdecode(name)
            mode, goal = os.lstat(last, dir_fd=here).st_mode, _kind(there, last)
            if st.S_ISDIR(mode):
                if goal not in (0, st.S_IFDIR):
                    found.left.append(f"{shown}: in the way there is no folder")
                    continue
                if not goal:
                    os.mkdir(last, dir_fd=there)
                inner.append(name)
            elif not st.S_ISREG(mode):
                found.left.append(f"{shown}: {'a link' if st.S_ISLNK(mode) else 'no file'}")
            elif name not in taken and goal == st.S_IFDIR:
                found.left.append(f"{shown}: there is a folder of that name")
            elif name not in taken:
                taken.add(name)
                found.files.append((shown, _moved(here, there, last)))
        return inner

    def remove(self) -> None:
        try:
            empty_directory(self._top)
            os.rmdir(self.base.name, dir_fd=self._target)
        except OSError:
            pass  # somebody is at work there
        os.close(self._top)
        os.close(self._target)


def _moved(here: int, there: int, name: bytes) -> int:
    """Its size. What is in its place, be it a link, is replaced and never followed."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    try:
        found = os.fstat(fd)
        if st.S_ISREG(found.st_mode):
            os.chmod(f"/proc/self/fd/{fd}", st.S_IMODE(found.st_mode) & 0o777 | 0o600)
        os.replace(name, name, src_dir_fd=here, dst_dir_fd=there)
        return found.st_size
    finally:
        os.close(fd)


def _kind(folder: int, name: bytes) -> int:
    """0: there is nothing."""
    try:
        return st.S_IFMT(os.lstat(name, dir_fd=folder).st_mode)
    except FileNotFoundError:
        return 0

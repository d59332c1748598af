"""sandbox: the staging directory of an apply, at the top of the host directory.

Whoever may write to the host directory may be at work here too: host programs, and guests of other boxes that have it
as an `rw` mount, as whose owner they act. So nothing is reached by a name of more than one component but beneath this
directory and without following links, what was made is looked at again before it is described, and nothing in here is
ever read to learn what to do: that is in the box's own directory (apply_journal.py).
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import open_beneath
from husk.sandbox.apply.apply_plan import Conflict, shown
from husk.sandbox.remove_tree import FOLDER, empty

PREFIX = ".husk-apply-"


class Place:
    """`root`: descriptor of the host directory. `name`: of the staging directory in it. In it, `new` and `old`."""

    __slots__ = ("_owner", "fd", "name", "new", "old", "root")

    def __init__(self, root: int, name: str) -> None:
        self.root, self.name = root, name
        self.fd = self.new = self.old = self._owner = -1

    def create(self) -> None:
        os.mkdir(self.name, 0o700, dir_fd=self.root)
        self.open()
        for folder in ("new", "old"):
            os.mkdir(folder, 0o700, dir_fd=self.fd)
        self.enter()
        self._owner = os.fstat(self.new).st_uid  # we, or whom the file system gives our files to

    def open(self) -> bool:
        """False: it is not there."""
        try:
            self.fd = os.open(self.name, FOLDER, dir_fd=self.root)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def enter(self) -> bool:
        """False: somebody has taken them away."""
        try:
            self.new = os.open("new", FOLDER, dir_fd=self.fd) if self.new < 0 else self.new
            self.old = os.open("old", FOLDER, dir_fd=self.fd) if self.old < 0 else self.old
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    # -- what is made in it ----------------------------------------------------------------------------------------
    def above(self, path: bytes) -> tuple[int, bytes]:
        """A descriptor of the directory that `path` below `new` lies in, and the name there."""
        folder, _, name = path.rpartition(b"/")
        return open_beneath(self.new, folder, os.O_PATH | os.O_DIRECTORY), name

    def hold(self, path: bytes, kind: int, was: tuple[int, int] | None = None) -> int:
        """A descriptor that names what we made below `new`. Conflict, if it is not ours any more: either `was`, device
        and inode, tells, or that we own it, for others' files are what must not be touched by mistake."""
        fd = open_beneath(self.new, path, os.O_PATH | os.O_NOFOLLOW)
        found = os.fstat(fd)
        ours = found.st_uid == self._owner if was is None else (found.st_dev, found.st_ino) == was
        if ours and st.S_IFMT(found.st_mode) == kind:
            return fd
        os.close(fd)
        raise Conflict(f"{shown(path)}: somebody is at work in {self.name}; nothing was applied.")

    # -- its end ---------------------------------------------------------------------------------------------------
    def remove(self) -> None:
        if self.fd < 0:
            return
        empty(self.fd)
        try:
            os.rmdir(self.name, dir_fd=self.root)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                raise  # it is there, and would stay
            # Somebody moved it, and it is empty; what has its name by now is not ours.
        self.close()

    def close(self) -> None:
        for fd in (self.fd, self.new, self.old):
            if fd >= 0:
                os.close(fd)
        self.fd = self.new = self.old = -1

"""sandbox: the staging directory of an apply, at the top of the host directory.

Every process that may write to the host directory may change this one too: host programs, and guests of other boxes
that have it as an `rw` mount, since those act with its owner's credentials. So paths of more than one component are
opened only beneath this directory and without following links, a file that husk made is checked again before its
metadata is set, and nothing in here is ever read to learn what to do: that is in the box's own directory (`journal`).
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import open_beneath
from husk.sandbox.apply.apply_plan import Conflict, shown
from husk.sandbox.remove_tree import DIRECTORY, empty_directory

PREFIX = ".husk-apply-"


class StagingDir:
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
        self._owner = os.fstat(self.new).st_uid  # our uid, or the one the file system gives our files

    def open(self) -> bool:
        """False: it is not there."""
        try:
            self.fd = os.open(self.name, DIRECTORY, dir_fd=self.root)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def enter(self) -> bool:
        """False: another process has removed `new` or `old`."""
        try:
            self.new = os.open("new", DIRECTORY, dir_fd=self.fd) if self.new < 0 else self.new
            self.old = os.open("old", DIRECTORY, dir_fd=self.fd) if self.old < 0 else self.old
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    # -- what is made in it ----------------------------------------------------------------------------------------
    def open_parent(self, path: bytes) -> tuple[int, bytes]:
        """A descriptor of the directory that `path` below `new` lies in, and the name there."""
        folder, _, name = path.rpartition(b"/")
        return open_beneath(self.new, folder, os.O_PATH | os.O_DIRECTORY), name

    def open_own(self, path: bytes, kind: int, identity: tuple[int, int] | None = None) -> int:
        """An O_PATH descriptor of a file that we made below `new`. Conflict, if it is another file by now: `identity`
        (device and inode) decides where it is given, else the owner, since another user's file must not be changed."""
        fd = open_beneath(self.new, path, os.O_PATH | os.O_NOFOLLOW)
        found = os.fstat(fd)
        ours = found.st_uid == self._owner if identity is None else (found.st_dev, found.st_ino) == identity
        if ours and st.S_IFMT(found.st_mode) == kind:
            return fd
        os.close(fd)
        raise Conflict(f"{shown(path)}: another program changes files in {self.name}; nothing was applied.")

    # -- its end ---------------------------------------------------------------------------------------------------
    def remove(self) -> None:
        if self.fd < 0:
            return
        empty_directory(self.fd)
        try:
            os.rmdir(self.name, dir_fd=self.root)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                raise  # it is there, and would stay
            # Another program moved it, and it is empty; what has its name by now is not ours.
        self.close()

    def close(self) -> None:
        for fd in (self.fd, self.new, self.old):
            if fd >= 0:
                os.close(fd)
        self.fd = self.new = self.old = -1

"""vfs: copying the content of a lower file, with its holes, and without holding up other calls.

A large copy takes long, and every call of every guest takes the vfs's lock. So a call that finds under the lock that
one is due raises `CopyDue`, copies without the lock, and then starts anew, name and permissions included: meanwhile
anything may have happened. Small copies are made on the spot.

Life of a `Copy`: made under the lock by the first call that needs it, joined by others that need the same; the first
of them copies while the rest wait, all try again, one attaches the file to its inode. The last to leave removes a file
that was not attached (the name went away meanwhile).
"""

from __future__ import annotations

import errno
import os
from _thread import allocate_lock
from fcntl import ioctl

from husk.native._core import stat_fd
from husk.vfs.node import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from husk.vfs.layer.inodes import Inode
    from husk.vfs.state import State

    Result = TypeVar("Result")

FICLONE = 0x40049409
CHUNK = 1 << 26
LARGE = 1 << 20


def copy_content(source: int, target: int, state: State | None = None) -> None:
    """Share the blocks where the file system can, else copy the data and leave the holes. EINTR when the box of `state`
    ends meanwhile: no guest needs the copy then, and the caller of husk waits for it to end."""
    try:
        ioctl(target, FICLONE, source)
        return
    except OSError:
        pass
    size = stat_fd(source).size
    os.ftruncate(target, size)
    here = 0
    while here < size:
        try:
            start = os.lseek(source, here, os.SEEK_DATA)
            here = min(os.lseek(source, start, os.SEEK_HOLE), size)
        except OSError as failure:
            if failure.errno == errno.ENXIO:  # nothing but a hole to the end
                return
            start, here = here, size  # a file system that does not know of holes
        _copy_range(source, target, start, here, state)


def _copy_range(source: int, target: int, start: int, end: int, state: State | None) -> None:
    try:
        while start < end:
            if state is not None and state.ended:
                raise error(errno.EINTR)
            done = os.copy_file_range(source, target, min(end - start, CHUNK), start, start)
            if not done:
                return  # it became shorter meanwhile
            start += done
        return
    except OSError as failure:
        # Where it is not offered between these two file systems it fails on the first byte; anything else is real.
        if failure.errno not in (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF):
            raise
    while start < end:
        if state is not None and state.ended:
            raise error(errno.EINTR)
        chunk = os.pread(source, min(end - start, LARGE), start)
        if not chunk:
            return
        start += os.pwrite(target, chunk, start)


class Copy:
    """A copy that is being made for `inode`. `users` and `attached` change under the vfs's lock only. Where `inode` has
    one of the `stand_ins` of watched files, the content goes into that."""

    __slots__ = ("_busy", "_done", "_stand_ins", "attached", "inode", "number", "source", "state", "users")

    def __init__(self, state: State, inode: Inode, source: int, stand_ins: dict[int, int]) -> None:
        self.state, self.inode, self.source, self._stand_ins = state, inode, source, stand_ins
        state.need_files()  # now: `make` does not hold the lock
        self.number = stand_ins.get(inode.ino) or state.new_number()
        self.users = 0
        self.attached = self._done = False
        self._busy = allocate_lock()

    @property
    def done(self) -> bool:
        return self._done

    def make(self) -> None:
        """Without the vfs's lock. After a failure the next call that waited tries, and fails by itself."""
        with self._busy:
            if self._done:
                return
            name, flags = b"%d" % self.number, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            if self._stand_ins.get(self.inode.ino) == self.number:
                flags |= os.O_TRUNC
            else:
                flags |= os.O_CREAT | os.O_EXCL
                self._remove(name)  # of an attempt that failed
            target = os.open(name, flags, 0o600, dir_fd=self.state.files_fd)
            try:
                copy_content(self.source, target, self.state)
                self._done = True
            finally:
                os.close(target)

    def discard(self) -> None:
        os.close(self.source)
        if not self.attached and self._stand_ins.get(self.inode.ino) != self.number:
            self._remove(b"%d" % self.number)

    def _remove(self, name: bytes) -> None:
        try:
            os.unlink(name, dir_fd=self.state.files_fd)
        except FileNotFoundError:
            pass  # it did not get that far


class CopyDue(Exception):
    """Not an error: the call has to be done again after `copy` was made. Raising it joins the copy."""

    def __init__(self, copy: Copy, copies: dict[Inode, Copy]) -> None:
        super().__init__()
        self.copy, self._copies = copy, copies
        copy.users += 1

    def leave(self) -> None:
        copy = self.copy
        copy.users -= 1
        if not copy.users:
            del self._copies[copy.inode]
            copy.discard()


def with_copies(lock: object, attempt: Callable[[], Result]) -> Result:
    """Repeat `attempt`, making the copies that it asks for, until it is done: a guest may go on renaming."""
    due: CopyDue | None = None
    while True:
        try:
            if due is not None:
                due.copy.make()
        except BaseException:
            assert due is not None
            with lock:  # type: ignore[attr-defined]
                due.leave()
            raise
        with lock:  # type: ignore[attr-defined]
            last, due = due, None
            try:
                return attempt()
            except CopyDue as found:
                due = found.with_traceback(None)  # the traceback leads to this frame, and so back to the exception
            finally:
                if last is not None:
                    last.leave()

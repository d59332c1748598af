"""sandbox: what a program in the background writes: a pipe, and a thread that copies it to a file in the box's
directory. The newest are kept: at MOST bytes the file is set aside, in place of the one before it."""

from __future__ import annotations

import _thread
import os

from husk.native.threads import start_thread
from husk.store.layout import write_all

NAME, OLDER = "output", "output.1"
MOST = 32 << 20
CHUNK = 1 << 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class OutputLog:
    """`guest` is the descriptor for the program's standard output and error. `finish` waits until all is copied."""

    __slots__ = ("_done", "_from", "_path", "failure", "guest")

    def __init__(self) -> None:
        self._from, self.guest = os.pipe2(os.O_CLOEXEC)
        self._path = self.failure = ""
        self._done = _thread.allocate_lock()

    def begin(self, directory: str) -> None:
        """The program has its copy of `guest`."""
        os.close(self.guest)
        self.guest = -1
        self._path = os.path.join(directory, NAME)
        self._done.acquire()
        start_thread(self._copy, os.open(self._path, _NEW, 0o600))

    def _copy(self, file: int) -> None:
        size = 0
        try:
            while data := os.read(self._from, CHUNK):
                try:
                    if size > MOST:
                        size = 0  # where it fails, after as much again
                        file = self._set_aside(file)
                    write_all(file, data)
                    size += len(data)
                except OSError as error:  # a full disk: the program goes on, and `husk logs` says what is missing
                    self.failure = self.failure or str(error.strerror)
        finally:
            os.close(file)
            self._done.release()

    def _set_aside(self, file: int) -> int:
        """A new file in the place of one that is full. That one is closed last: where no new one can be made, what
        comes is still written to it, and not to another file that got its number."""
        try:
            os.replace(self._path, os.path.join(os.path.dirname(self._path), OLDER))
        except FileNotFoundError:
            pass  # it was set aside before, and then no new one could be made
        new = os.open(self._path, _NEW, 0o600)
        os.close(file)
        return new

    def finish(self) -> None:
        """After the last process of the box."""
        if self.guest >= 0:
            os.close(self.guest)
            self.guest = -1
        elif self._path:
            self._done.acquire()
        os.close(self._from)

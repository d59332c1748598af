"""sandbox: output of a guest that goes through husk: counted against the limit `output`, and kept or passed on.

Every run that has such a limit, or output to keep, goes through here. Other runs write to their descriptors natively.
"""

from __future__ import annotations

import _thread
import fcntl
import os

from husk.native.threads import start_thread
from husk.sandbox.limits.limits import Exceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.launch import Stop

ROOM = 1 << 16
PATIENCE = 1.0  # seconds for a reader to take the rest, once the run was ended from outside


class Kept:
    """What is kept of one stream: its first `most` bytes. The rest is counted."""

    __slots__ = ("_pieces", "_room", "lost")

    def __init__(self, most: int) -> None:
        self._pieces: list[bytes] = []
        self._room, self.lost = most, 0

    def take(self, piece: bytes) -> None:
        part = piece[: self._room]
        if part:
            self._pieces.append(part)
            self._room -= len(part)
        self.lost += len(piece) - len(part)

    def drop(self, size: int) -> None:
        self.lost += size

    @property
    def data(self) -> bytes:
        return b"".join(self._pieces)


class Capture:
    """Both output streams of one run. `stdio` is what the guest gets. Call `finish` when the run is over.

    A stream that is a terminal stays as it is unless it is kept: programs behave differently on one, and nothing piles
    up behind it."""

    def __init__(
        self, stdio: tuple[int, int, int], limit: int | None, stop: Stop, kept: tuple[Kept, Kept] | None = None
    ) -> None:
        self._stop, self._limit, self._seen = stop, limit, 0
        self._counting = _thread.allocate_lock()
        self._streams: list[_Stream] = []
        ends = list(stdio)
        try:
            for number in (1, 2):
                if kept is not None:
                    ends[number] = self._stream(-1, kept[number - 1])
                elif number == 2 and stdio[2] == stdio[1]:
                    ends[2] = ends[1]  # one stream: what is written in turns stays in order
                elif not os.isatty(stdio[number]):
                    ends[number] = self._stream(stdio[number], None)
        except BaseException:
            self.finish()
            raise
        self.stdio = (ends[0], ends[1], ends[2])

    def _stream(self, target: int, kept: Kept | None) -> int:
        stream = _Stream(self, target, kept)
        self._streams.append(stream)
        return stream.write_end

    def admit(self, size: int) -> int:
        """How many of `size` more bytes are within the limit. Beyond it the run ends."""
        if self._limit is None:
            return size
        with self._counting:
            before, self._seen = self._seen, self._seen + size
        if before + size > self._limit >= before:
            self._stop.exceeded(Exceeded("output", self._limit, before + size, ended=True))
        return max(0, min(size, self._limit - before))

    def finish(self) -> None:
        """The guest is gone. Waits until all its output is where it belongs; but a reader that does not read must not
        hold up a run that was ended from outside."""
        for stream in self._streams:
            stream.close()
        for stream in self._streams:
            while not stream.done.acquire(timeout=0.1):
                if self._stop.ended_by is not None:
                    stream.done.acquire(timeout=PATIENCE)
                    break

    def forget(self) -> None:
        """In a forked child, which has none of the threads."""
        for stream in self._streams:
            stream.forget()


class _Stream:
    """One pipe and the thread that empties it."""

    __slots__ = ("_capture", "_kept", "_read_end", "_target", "done", "write_end")

    def __init__(self, capture: Capture, target: int, kept: Kept | None) -> None:
        self._capture, self._kept = capture, kept
        self._target = -1 if target < 0 else fcntl.fcntl(target, fcntl.F_DUPFD_CLOEXEC, 3)
        self._read_end = self.write_end = -1
        self.done = _thread.allocate_lock()
        try:
            self._read_end, self.write_end = os.pipe()
            self.done.acquire()
            start_thread(self._read)
        except BaseException:
            self.forget()
            raise

    def _read(self) -> None:
        try:
            while piece := os.read(self._read_end, ROOM):
                admitted = piece[: self._capture.admit(len(piece))]
                if self._kept is not None:
                    self._kept.take(admitted)
                    self._kept.drop(len(piece) - len(admitted))
                else:
                    self._write(admitted)
        except OSError:
            pass  # the reader is gone: the guest notices when our end is closed
        finally:
            ours, self._read_end, self._target = (self._read_end, self._target), -1, -1
            for fd in ours:
                if fd >= 0:
                    os.close(fd)
            self.done.release()

    def _write(self, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            try:
                view = view[os.write(self._target, view) :]
            except BlockingIOError:
                import select

                ready = select.poll()
                ready.register(self._target, select.POLLOUT)
                ready.poll()

    def close(self) -> None:
        """The guest's copies are gone, so ours is the last writing end."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def forget(self) -> None:
        for fd in (self._target, self._read_end, self.write_end):
            if fd >= 0:
                os.close(fd)
        self._target = self._read_end = self.write_end = -1

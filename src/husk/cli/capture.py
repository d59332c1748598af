"""cli: run with the guest's output going through husk: kept for `--json`, or counted for `--limit output`."""

from __future__ import annotations

import _thread
import os

from husk.native.threads import start_thread
from husk.sandbox.limits.limits import Exceeded
from husk.sandbox.runner import Runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result
    from husk.sandbox.runner import Events

MOST_KEPT = 16 << 20  # bytes of each stream; what comes after is read, counted and dropped
ROOM = 1 << 16


def run_captured(policy: Policy, events: Events, *, keep: bool, run: Callable[[Runner], Result]) -> Result:
    """Streams that are terminals stay as they are unless they are kept: programs behave differently on one, and
    nothing piles up behind it."""
    output = _Output(policy.limits["output"])
    streams = [_Stream(output, number, keep=keep) if keep or not _is_tty(number) else None for number in (1, 2)]
    ends = [number if stream is None else stream.write_end for number, stream in zip((1, 2), streams, strict=True)]
    output.box = box = Runner(policy, events, (0, ends[0], ends[1]))
    try:
        result = run(box)
    finally:
        for stream in streams:
            if stream is not None:
                stream.finish()
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        if keep and stream is not None:
            setattr(result, name, b"".join(stream.pieces))
            result.lost[name] = stream.lost
    return result


def _is_tty(fd: int) -> bool:
    return os.isatty(fd)


class _Output:
    """Counts both streams; ends the box at the limit."""

    __slots__ = ("_limit", "_seen", "box")

    def __init__(self, limit: int | None) -> None:
        self._limit, self._seen = limit, 0
        self.box: Runner | None = None

    def admit(self, size: int) -> int:
        """How many of `size` more bytes are still within the limit."""
        if self._limit is None:
            return size
        before, self._seen = self._seen, self._seen + size
        if self._seen > self._limit >= before and self.box is not None:
            self.box.exceeded(Exceeded("output", self._limit, self._seen, ended=True))
        return max(0, min(size, self._limit - before))


class _Stream:
    """One pipe and the thread that empties it."""

    def __init__(self, output: _Output, target: int, *, keep: bool) -> None:
        self._output, self._target, self._keep = output, target, keep
        self._read_end, self.write_end = os.pipe()
        self.pieces: list[bytes] = []
        self.lost = 0
        self._done = _thread.allocate_lock()
        self._done.acquire()
        start_thread(self._read)

    def _read(self) -> None:
        kept = 0
        try:
            while piece := os.read(self._read_end, ROOM):
                admitted = piece[: self._output.admit(len(piece))]
                if self._keep:
                    self.pieces.append(admitted[: MOST_KEPT - kept])
                    kept += len(self.pieces[-1])
                    self.lost += len(piece) - len(self.pieces[-1])
                else:
                    self._write(admitted)
        except OSError:
            pass  # nobody reads any more: the guest notices when our end is closed
        finally:
            os.close(self._read_end)
            self._done.release()

    def _write(self, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            view = view[os.write(self._target, view) :]

    def finish(self) -> None:
        """The box is gone, so ours is the last writing end."""
        os.close(self.write_end)
        self._done.acquire()

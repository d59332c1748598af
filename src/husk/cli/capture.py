"""cli: run with the guest's output kept, for `--json`."""

from __future__ import annotations

import _thread
import os

from husk.sandbox.box import Box

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.box import Events
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result

MOST_KEPT = 16 << 20  # bytes of each stream; what comes after is read and dropped


def run_captured(policy: Policy, events: Events) -> Result:
    streams = [_Stream(), _Stream()]
    try:
        result = Box(policy, events, (0, streams[0].write_end, streams[1].write_end)).run()
    finally:
        for stream in streams:
            stream.finish()
    result.stdout, result.stderr = streams[0].data(), streams[1].data()
    return result


class _Stream:
    """One pipe and the thread that empties it."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._pieces: list[bytes] = []
        self._done = _thread.allocate_lock()
        self._done.acquire()
        _thread.start_new_thread(self._read, ())

    def _read(self) -> None:
        kept = 0
        while piece := os.read(self._read_end, 65536):
            if kept < MOST_KEPT:
                self._pieces.append(piece[: MOST_KEPT - kept])
                kept += len(piece)
        os.close(self._read_end)
        self._done.release()

    def finish(self) -> None:
        """The box is gone, so ours is the last writing end."""
        os.close(self.write_end)
        self._done.acquire()

    def data(self) -> bytes:
        return b"".join(self._pieces)

"""Two worlds for one script: the host's own file system as an ordinary user (`native`), and the vfs (`virtual`).

A step is a tuple: the name of an operation and its arguments. Each world answers a step with one line of text, so that
whole transcripts can be compared. What cannot be equal by nature (inode numbers, times, sizes of directories) is never
printed.
"""

from __future__ import annotations

import errno
import stat
import time
from collections.abc import Iterable
from typing import Any

Step = tuple[Any, ...]

REALTIME_COARSE = 5  # CLOCK_REALTIME_COARSE, which the time module does not name
GUEST, FRIENDS = 65534, 12345  # uid and gid of the user, and a second group it is in


def describe(mode: int, nlink: int, uid: int, gid: int, size: int) -> str:
    """What of a stat result two worlds must agree on."""
    if stat.S_ISDIR(mode):
        size = 0
    return f"{stat.filemode(mode)} links={nlink} {uid}:{gid} size={size}"


def next_tick() -> None:
    """Wait until the coarse clock, which files are stamped with, is past this moment, which newer hosts may stamp them
    with. A sleep may end earlier: on a busy machine that clock stands still for many ticks."""
    now = time.time_ns()
    while time.clock_gettime_ns(REALTIME_COARSE) <= now:
        time.sleep(0.001)


class World:
    """Runs steps; subclasses say what an operation does. `slots` are open descriptors by number."""

    def __init__(self) -> None:
        self.slots: dict[int, Any] = {}
        self.before: list[tuple[int, int] | None] = []

    # -- which time stamps moved -------------------------------------------------------------------------------
    def stamps(self, path: bytes) -> tuple[int, int]:
        """mtime and ctime of a name itself."""
        raise NotImplementedError

    def _look(self, paths: list[bytes]) -> list[tuple[int, int] | None]:
        seen: list[tuple[int, int] | None] = []
        for path in paths:
            try:
                seen.append(self.stamps(path))
            except OSError:
                seen.append(None)
        return seen

    def do_snapshot(self, paths: list[bytes]) -> None:
        self.before = self._look(paths)
        next_tick()

    def do_touched(self, paths: list[bytes]) -> str:
        lines = []
        for path, old, new in zip(paths, self.before, self._look(paths), strict=True):
            if old is None or new is None:
                lines.append(f"{path.decode()} existed {old is not None}, exists {new is not None}")
            elif old != new:
                lines.append(f"{path.decode()} mtime {old[0] != new[0]} ctime {old[1] != new[1]}")
        return "; ".join(lines)

    def run(self, steps: Iterable[Step]) -> list[str]:
        return [self.answer(step) for step in steps]

    def answer(self, step: Step) -> str:
        name, *arguments = step
        return f"{name}{tuple(arguments)!r} = {self.outcome(name, arguments)}"

    def outcome(self, name: str, arguments: list[Any]) -> str:
        """What an operation answers, or the name of its error.

        Linux sometimes answers ELOOP for a chain of links that it otherwise follows: when something is renamed or
        mounted meanwhile, the walk begins anew but keeps its count of links. So a step with that answer is repeated.
        """
        for _ in range(5):
            try:
                result = getattr(self, "do_" + name)(*arguments)
            except OSError as failure:
                result = errno.errorcode.get(failure.errno or 0, str(failure.errno))
            except KeyError:
                result = "nothing in that slot"
            if result != "ELOOP":
                break
        return "ok" if result is None else str(result)

"""kernel/cred: coredump_filter as guests have set it. The host is not told: no guest dumps core.

Writing to a file of /proc is native, and husk is not asked. So the writer gets a file of husk's own, and husk reads it
when the filter is asked for. Which file counts for a process is an attribute that its children inherit.
"""

from __future__ import annotations

import _thread
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.cred.inherited import Attributes, Inherited

MOST_FILES, MOST_KNOWN = 32, 4096
MASK = 0x1FF  # MMF_DUMP_FILTER_MASK
UNKNOWN = -1
CLOSED = -1


class CoreFilters:
    __slots__ = ("_inherited", "_known", "_last", "_lock", "_open")

    def __init__(self, inherited: Inherited) -> None:
        self._inherited, self._lock, self._last = inherited, _thread.allocate_lock(), 0
        self._open: dict[int, int] = {}  # number -> husk's descriptor of the file
        self._known: dict[int, int] = {}  # number -> the filter before anything was written, or after it was closed

    def keep(self, host_pid: int, fd: int) -> None:
        """From here on what is written to `fd` is the filter of a process, and of the children it will have."""
        own = os.open(b"/proc/self/fd/%d" % fd, os.O_RDONLY | os.O_CLOEXEC)
        with self._lock:
            self._last += 1
            number = self._last
            self._open[number], self._known[number] = own, self._value(self._inherited.of(host_pid))
            if len(self._open) > MOST_FILES:
                self._settle(next(iter(self._open)))
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
        self._inherited.change(host_pid, core_filter=number)

    def of(self, attributes: Attributes) -> int | None:
        with self._lock:
            value = self._value(attributes)
        return None if value == UNKNOWN else value

    def close(self) -> None:
        with self._lock:
            for number in list(self._open):
                self._settle(number)

    def _settle(self, number: int) -> None:
        """What is written to it later does not count any more."""
        self._known[number] = self._value({"core_filter": number})
        os.close(self._open.pop(number))

    def _value(self, attributes: Attributes) -> int:
        number = attributes.get("core_filter", 0)
        before, fd = self._known.get(number, UNKNOWN), self._open.get(number, CLOSED)
        if fd == CLOSED:
            return before
        lines = os.pread(fd, 4096, 0).partition(b"\0")[0].split()
        return _number(lines[-1], before) if lines else before


def _number(text: bytes, otherwise: int) -> int:
    """As Linux reads it. It would refuse what is no number; here it is too late for that."""
    base = 16 if text[:2].lower() == b"0x" else 8 if text[:1] == b"0" and len(text) > 1 else 10
    try:
        return int(text, base) & MASK
    except ValueError:
        return otherwise

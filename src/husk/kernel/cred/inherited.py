"""kernel/cred: attributes that husk keeps for a process and that its children inherit.

husk sees no fork, because fork is native. So the host carries the attributes: a process has a *tag*, its soft limit on
file locks. Linux does not use that limit, hands it down through fork and execve, and guests can neither change nor see
it (the hard limit marks the box, see sandbox/orphans.py). Here is what each tag stands for. A set of attributes never
changes; to change one of a process is to give the process another tag.
"""

from __future__ import annotations

import _thread

from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Attributes = dict[str, int]

MARKED = 1 << 62  # a soft limit from here on is no tag: husk-init set it
UNLIMITED = (1 << 64) - 1
MOST_TAGS = 4096
RLIMIT_LOCKS = 10
NONE: Attributes = {}  # never written to


class Inherited:
    """The attributes of all processes of a box. `live` lists the host numbers of its processes."""

    __slots__ = ("_by_content", "_last", "_live", "_lock", "_sets")

    def __init__(self, live: Callable[[], list[int]]) -> None:
        self._live, self._lock, self._last = live, _thread.allocate_lock(), 0
        self._sets: dict[int, Attributes] = {}
        self._by_content: dict[tuple[tuple[str, int], ...], int] = {}

    def of(self, host_pid: int) -> Attributes:
        if not self._sets:
            return NONE
        try:
            return self._sets.get(_limits(host_pid)[0], NONE)
        except OSError:
            return NONE

    def change(self, host_pid: int, **new: int) -> bool:
        """Give a process, and the children it will have, attributes of these values. False where the host does not let
        husk set the limit: run as root without CAP_SYS_RESOURCE, as in many containers."""
        import resource

        with self._lock:
            tag, hard = _limits(host_pid)
            if not MARKED <= hard < UNLIMITED:
                return False  # not one that husk-init has marked
            tag = self._tag({**self._sets.get(tag, NONE), **new})
            try:
                resource.prlimit(host_pid, RLIMIT_LOCKS, (tag, hard))
            except PermissionError:
                return False
            return True

    def in_use(self) -> list[Attributes]:
        """The attributes of every process that has some."""
        return [found for pid in self._live() if (found := self.of(pid))] if self._sets else []

    def _tag(self, attributes: Attributes) -> int:
        content = tuple(sorted(attributes.items()))
        tag = self._by_content.get(content)
        if tag is None:
            if len(self._sets) >= MOST_TAGS:
                self._forget_unused()
            self._last += 1
            tag = self._by_content[content] = self._last
            self._sets[tag] = attributes
        return tag

    def _forget_unused(self) -> None:
        """A process that is forked meanwhile has the tag of a living one, unless that ends at once: then the child is
        left without attributes, in a box that has used up thousands of sets of them."""
        used = set()
        for pid in self._live():
            try:
                used.add(_limits(pid)[0])
            except OSError:
                continue
        self._sets = {tag: found for tag, found in self._sets.items() if tag in used}
        self._by_content = {content: tag for content, tag in self._by_content.items() if tag in used}


def _limits(host_pid: int) -> tuple[int, int]:
    """Soft and hard limit on file locks. Not prlimit(2), which the host may refuse where it shows this file."""
    words = read_host(b"/proc/%d/limits" % host_pid).partition(b"\nMax file locks")[2].split()[:2]
    soft, hard = (int(word) if word.isdigit() else UNLIMITED for word in words)
    return soft, hard

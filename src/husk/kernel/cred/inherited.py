"""kernel/cred: attributes that husk keeps for a process and that its children inherit.

husk sees no fork, because fork is native. So the host carries the attributes: a process has a *tag*, its soft limit on
file locks. Linux does not use that limit, hands it down through fork and execve, and guests can neither change nor see
it (the hard limit marks the box, see sandbox/orphans.py). Here is what each tag stands for. A set of attributes never
changes; to change one of a process is to give the process another tag.
"""

from __future__ import annotations

import _thread

from husk.native._core import tag_process
from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Attributes = dict[str, int]

MOST_TAGS = 4096
NONE: Attributes = {}  # never written to


class Inherited:
    """The attributes of all processes of a box. `live` lists the host numbers of its processes, which have the host ids
    `ids`."""

    __slots__ = ("_by_content", "_ids", "_last", "_live", "_lock", "_sets")

    def __init__(self, live: Callable[[], list[int]], ids: tuple[int, int]) -> None:
        self._ids, self._live, self._lock, self._last = ids, live, _thread.allocate_lock(), 0
        self._sets: dict[int, Attributes] = {}
        self._by_content: dict[tuple[tuple[str, int], ...], int] = {}

    def of(self, host_pid: int) -> Attributes:
        return (self.surely_of(host_pid) or NONE) if self._sets else NONE

    def surely_of(self, host_pid: int) -> Attributes | None:
        """None: nothing can be told, because the tag was forgotten, or because the host does not show it."""
        try:
            tag = _soft_limit(host_pid)
        except OSError:
            return None
        return self._sets.get(tag, None if 0 < tag <= self._last else NONE)

    def change(self, host_pid: int, **new: int) -> bool:
        """Give a process, and the children it will have, attributes of these values. False where the process is not one
        that husk-init has marked, or is gone, or where its other attributes cannot be told."""
        with self._lock:
            now = self.surely_of(host_pid)
            if now is None:
                return False
            try:
                tag_process(host_pid, self._tag({**now, **new}), *self._ids)
            except OSError:
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
                used.add(_soft_limit(pid))
            except OSError:
                continue
        self._sets = {tag: found for tag, found in self._sets.items() if tag in used}
        self._by_content = {content: tag for content, tag in self._by_content.items() if tag in used}


def _soft_limit(host_pid: int) -> int:
    """Not by prlimit(2), which the host may refuse where it shows this file. husk-init's own limit is no tag."""
    word = read_host(b"/proc/%d/limits" % host_pid).partition(b"\nMax file locks")[2].split()[0]
    return int(word) if word.isdigit() else 0

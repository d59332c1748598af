"""kernel/cred: the root directory of a process, in a box whose user is root of its image: chroot(2).

A root is only where names begin and where `..` ends. It is no wall: the box's walls stand around all of its tree, and
as in Linux a descriptor that is open stays usable. Children and programs inherit it by their tag (`inherited`).
"""

from __future__ import annotations

import _thread
import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.cred.inherited import Inherited
    from husk.vfs.node import Dir

MOST_ROOTS = 4096


class VirtualRoots:
    """Made with the first chroot of a box. A root that was used is remembered to the end of the box."""

    __slots__ = ("_inherited", "_lock", "_numbers", "_roots")

    def __init__(self, inherited: Inherited) -> None:
        self._inherited, self._lock = inherited, _thread.allocate_lock()
        self._roots: list[Dir] = []
        self._numbers: dict[int, int] = {}  # id of a directory in the list -> its place there

    def of(self, host_tid: int) -> Dir | None:
        """None: the root of the box. EACCES where it cannot be told: a process must not come back to the box's root."""
        kept = self._inherited.surely_of(host_tid)
        if kept is None:
            raise OSError(errno.EACCES, "the root of this process cannot be told")
        return self._roots[kept["root"]] if "root" in kept else None

    def change(self, host_pid: int, directory: Dir) -> None:
        with self._lock:
            number = self._numbers.get(id(directory))
            if number is None:
                if len(self._roots) >= MOST_ROOTS:
                    raise OSError(errno.ENOMEM, "the box has used too many roots")
                number = self._numbers[id(directory)] = len(self._roots)
                self._roots.append(directory)
        if not self._inherited.change(host_pid, root=number):
            raise OSError(errno.EPERM, "the host does not let husk tell processes apart")

"""vfs: programs that were executed, and the rule that a running one is not written to (ETXTBSY)."""

from __future__ import annotations

import errno

from husk.vfs.node import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.holders import Holders
    from husk.vfs.mount_table import MountTable
    from husk.vfs.node import Context, Node, Stat

PROGRAMS_KEPT = 4096


class RunningPrograms:
    """Nodes by identity, for the newest programs."""

    __slots__ = ("_holders", "_lock", "_nodes")

    def __init__(self, table: MountTable, holders: Holders | None) -> None:
        self._lock, self._holders = table.lock, holders
        self._nodes: dict[tuple[int, int], Node] = {}

    def identity(self, ctx: Context, node: Node) -> tuple[int, int]:
        """A stable pair for a regular file: copy-up does not change it."""
        with self._lock:
            info = node.tree.stat(ctx, node)
            return info.dev, info.ino

    def executed(self, ctx: Context, node: Node) -> None:
        """`node` is being run: until the kernel says it no longer is, it cannot be written to."""
        with self._lock:
            identity = self.identity(ctx, node)
            self._nodes.pop(identity, None)
            self._nodes[identity] = node
            if len(self._nodes) > PROGRAMS_KEPT:  # husk is not told when a program ends
                del self._nodes[next(iter(self._nodes))]

    def running(self, identity: tuple[int, int]) -> Node | None:
        """The node of a program that was run, by its `identity`: renamed or not."""
        return self._nodes.get(identity)

    def require_not_running(self, info: Stat) -> None:
        identity = info.dev, info.ino
        if not self._nodes or identity not in self._nodes:
            return
        if self._holders is not None and self._holders.runs(identity):
            raise error(errno.ETXTBSY)
        del self._nodes[identity]

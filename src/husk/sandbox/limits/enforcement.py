"""sandbox: what keeps the limits of a running box: its control group and its meter, where it has any.

Without a limit that needs one of them this does nothing and imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.tasks import Tasks
    from husk.sandbox.box import Box
    from husk.sandbox.limits.cgroups import Group
    from husk.sandbox.limits.limits import Exceeded, Limits
    from husk.sandbox.limits.meter import Meter
    from husk.sandbox.result import Result

SIGXFSZ = 25
# Sums over the box, which no limit of a single process keeps; and descriptors, whose limit says nothing when it is met.
LOOKED_AT = ("cpu", "memory", "disk", "processes", "files")


class Watch:
    """Begins while the first guest still waits for its first answer, so that nothing of the box is missed."""

    __slots__ = ("_exceeded", "_group", "_limits", "_meter", "_state")

    def __init__(
        self,
        limits: Limits,
        exceeded: Callable[[Exceeded], None],
        guest_pid: int,
        tasks: Tasks,
        box: Box,
    ) -> None:
        state = box.files.vfs.state.path
        self._limits, self._exceeded, self._state = limits, exceeded, state
        self._group: Group | None = None
        self._meter: Meter | None = None
        if not any(name in limits.asked and limits[name] is not None for name in LOOKED_AT):
            return
        from husk.sandbox.limits.cgroups import make_group

        group = make_group(limits)
        if group is not None and not group.add(guest_pid):
            group.remove()
            group = None
        self._group = group
        try:
            self._meter = self._begin_to_look(tasks, box, exceeded)
        except BaseException:  # then the run does not begin, and nobody stops us
            if group is not None:
                group.remove()
            raise

    def _begin_to_look(self, tasks: Tasks, box: Box, exceeded: Callable[[Exceeded], None]) -> Meter:
        from husk.sandbox.limits.meter import Disk, Meter

        limits, group = self._limits, self._group
        bounded = box.own_user or (group is not None and "processes" in group.enforces)
        disk, segments = Disk(self._state, box.disk_elsewhere), box.segments_in_memory
        meter = Meter(limits, tasks.host_pids, tasks.reaper, disk, group, exceeded, segments, forks_bounded=bounded)
        meter.start()
        return meter

    @property
    def look_at_table(self) -> Callable[[int], None] | None:
        """For who sees a process fail for want of descriptors; None: nobody asked for a limit."""
        return self._meter.check_fd_table if self._meter is not None and self._limits["files"] is not None else None

    def box_ends(self) -> None:
        """The reaper kills everything; the group, where there is one, does so at once, forks under way included."""
        if self._group is not None:
            self._group.kill()

    def stop(self) -> None:
        """However the run ended, nothing of this is left."""
        if self._meter is not None:
            self._meter.stop()
            self._meter.group_ends()
        if self._group is not None:
            self._group.remove()

    def final(self, result: Result) -> None:
        if self._meter is not None:
            self._meter.final(result.user_seconds + result.system_seconds)
        self._look_at_file_size(result.signal)

    def _look_at_file_size(self, signal: int) -> None:
        """The host refuses the write, and tells husk nothing. But a file of just that size is left, or somebody died of
        the signal that comes with it."""
        allowed = self._limits["file-size"]
        if allowed is None:
            return
        from husk.sandbox.limits.disk_use import largest
        from husk.sandbox.limits.limits import Exceeded

        if signal == SIGXFSZ or largest(self._state) >= allowed:
            self._exceeded(Exceeded("file-size", allowed, allowed, ended=False))

"""sandbox: enforces the limits of a running box: with a control group where the host gives one, and with a meter.

Without a limit that needs one of them this does nothing and imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.tasks import Tasks
    from husk.sandbox.limits.cgroups import Group
    from husk.sandbox.limits.limits import Exceeded, Limits
    from husk.sandbox.limits.memory_use import InMemory
    from husk.sandbox.limits.meter import Meter

SIGXFSZ = 25
# Sums over the box, which no limit of a single process bounds; and descriptors, since Linux does not report that limit.
MEASURED = ("cpu", "memory", "disk", "processes", "files")


class BoxUse:
    """What a box uses besides its processes. `state`: its state directory; `disk_elsewhere`: bytes that count for the
    disk limit beyond that; `segments`: shared memory that husk holds; `own_user`: the host counts its processes apart
    from the caller's."""

    __slots__ = ("disk_elsewhere", "own_user", "segments", "state")

    def __init__(self, state: bytes, disk_elsewhere: int, segments: Callable[[], InMemory], *, own_user: bool) -> None:
        self.state, self.disk_elsewhere, self.segments, self.own_user = state, disk_elsewhere, segments, own_user


class Enforcement:
    """Begins while the first guest still waits for its first answer, so that every process of the box is covered."""

    __slots__ = ("_exceeded", "_group", "_limits", "_meter", "_state")

    def __init__(
        self, limits: Limits, exceeded: Callable[[Exceeded], None], guest_pid: int, tasks: Tasks, use: BoxUse
    ) -> None:
        self._limits, self._exceeded, self._state = limits, exceeded, use.state
        self._group: Group | None = None
        self._meter: Meter | None = None
        if not any(name in limits.asked and limits[name] is not None for name in MEASURED):
            return
        from husk.sandbox.limits.cgroups import make_group

        group = make_group(limits)
        if group is not None and not group.add(guest_pid):
            group.remove()
            group = None
        self._group = group
        try:
            self._meter = self._start_meter(tasks, use)
        except BaseException:  # the run does not begin, so `stop` is not called
            if group is not None:
                group.remove()
            raise

    def _start_meter(self, tasks: Tasks, use: BoxUse) -> Meter:
        from husk.sandbox.limits.meter import Disk, Meter

        group, disk = self._group, Disk(use.state, use.disk_elsewhere)
        bounded = use.own_user or (group is not None and "processes" in group.enforces)
        pids, reaper, over = tasks.host_pids, tasks.reaper, self._exceeded
        meter = Meter(self._limits, pids, reaper, disk, group, over, use.segments, forks_bounded=bounded)
        meter.start()
        return meter

    @property
    def check_fd_table(self) -> Callable[[int], None] | None:
        """To be called with a pid when a process gets EMFILE; None: there is no limit on descriptors."""
        return self._meter.check_fd_table if self._meter is not None and self._limits["files"] is not None else None

    def box_ends(self) -> None:
        """The reaper kills every process; the group, where there is one, does so at once, including forks under way."""
        if self._group is not None:
            self._group.kill()

    def stop(self) -> None:
        """End the meter's thread and remove the group, however the run ended."""
        if self._meter is not None:
            self._meter.stop()
            self._meter.group_ends()
        if self._group is not None:
            self._group.remove()

    def final(self, cpu_seconds: float, signal: int) -> None:
        """After the end: what the box used in all, and the signal that ended the first program."""
        if self._meter is not None:
            self._meter.final(cpu_seconds)
        self._check_file_size(signal)

    def _check_file_size(self, signal: int) -> None:
        """The host refuses the write without telling husk. But a file of exactly that size is left, or SIGXFSZ, which
        comes with it, killed the program."""
        allowed = self._limits["file-size"]
        if allowed is None:
            return
        from husk.sandbox.limits.disk_use import largest
        from husk.sandbox.limits.limits import Exceeded

        if signal == SIGXFSZ or largest(self._state) >= allowed:
            self._exceeded(Exceeded("file-size", allowed, allowed, ended=False))

"""sandbox: the fourth phase of a start: a guest that stands behind its filter gets its kernel and its limits.

Not here: what the guest runs and how long it may (`run`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the bare C module: see cli/cmd_run.py
import _thread
import os

from husk.kernel.events import watched
from husk.kernel.kernel import Kernel
from husk.kernel.syscalls.execve import names_in
from husk.kernel.tasks import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.kernel.events import Events
    from husk.kernel.hooks import Hooks
    from husk.kernel.recorder import Recorder
    from husk.kernel.tasks import Names
    from husk.native._core import Listener
    from husk.sandbox.box import Box
    from husk.sandbox.kept.box_socket import BoxSocket
    from husk.sandbox.launch import Launch, Stop
    from husk.sandbox.limits.enforcement import Enforcement
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result


class Served:
    """One launched guest, its kernel and its limits, all at work. The owner calls `finish` in any case."""

    def __init__(
        self,
        box: Box,
        launch: Launch,
        policy: Policy,
        events: Events,
        stop: Stop,
        hooks: Hooks | None = None,
    ) -> None:
        """`launch` is its own from now on."""
        self._box = box
        # The first program by descriptor: the reaper reaps it before husk hears of it, and its pid may be used again.
        self._first, self._lock = -1, _thread.allocate_lock()
        self._kernel: Kernel | None = None
        self._answering: BoxSocket | None = None
        self.enforcement: Enforcement | None = None
        self.recorder: Recorder | None = None
        self.launch: Launch | None = launch
        stop.reaches(launch)
        try:
            self.recorder = _recorder(box)
            if policy.emulation is not None:
                hooks = policy.emulation.hooks(hooks)
            cached = self.recorder is None and not watched(events, hooks)
            self._begin(launch, policy, events, stop, hooks, cached=cached)
        except BaseException:
            self.finish()
            raise

    def _begin(
        self, launch: Launch, policy: Policy, events: Events, stop: Stop, hooks: Hooks | None, *, cached: bool
    ) -> None:
        box = self._box
        guest = launch.guest()
        try:
            self.pid = guest.pid
            self._first = os.pidfd_open(guest.pid)
            shared, listener, names = box.admit(guest, events, cached=cached, recorder=self.recorder)
        finally:
            guest.close()
        if hooks is not None:
            listener.show(hooks.numbers)
        if policy.emulation is not None:
            listener.show(list(policy.emulation.rules))
        tasks = Tasks(
            box.files.vfs,
            launch.reaper,
            _starting(listener),
            kept=shared.attributes_of,
            ids=shared.ids_of,
            roots=shared.root_of,
            core_filter=shared.core_filter,
            keep_core_filter=shared.keep_core_filter,
            own_namespace=box.walls.pid,
        )
        self._tasks = tasks
        box.live.add(tasks)
        try:
            if policy.limits.asked:
                self.enforcement = self._enforce(policy, stop, tasks)
            full = None if self.enforcement is None else self.enforcement.check_fd_table
            kernel = Kernel(
                shared,
                listener,
                tasks,
                events,
                names=names,
                hooks=hooks,
                emulation=policy.emulation,
                host_sockets=_host_sockets(policy, box.policy),
                table_is_full=full,
                recorder=self.recorder,
            )
            self._kernel = kernel
            kernel.start()
            self._answering = _answering(box, kernel)
        except BaseException:
            if self._kernel is None:
                self._undo_enforcement(launch, tasks)
            raise

    def _enforce(self, policy: Policy, stop: Stop, tasks: Tasks) -> Enforcement:
        from husk.sandbox.limits.enforcement import BoxUse, Enforcement

        box = self._box
        state = box.files.vfs.state.path
        use = BoxUse(state, box.disk_elsewhere, box.segments_in_memory, own_user=box.own_user)
        return Enforcement(policy.limits, stop.exceeded, self.pid, tasks, use)

    def _undo_enforcement(self, launch: Launch, tasks: Tasks) -> None:
        """There is no kernel: `finish` knows nothing of these."""
        if self.enforcement is not None:
            launch.end()
            self.enforcement.box_ends()
            self.enforcement.stop()
            self.enforcement = None
        self._box.live.remove(tasks)

    def is_for(self, policy: Policy, events: Events) -> None:
        """A guest that waited is going to run what this policy says, and has made no call yet."""
        if self._kernel is not None:
            self._kernel.is_for(events, _host_sockets(policy, self._box.policy))

    def expect(self, names: Iterable[bytes]) -> None:
        """Programs are going to ask for these names."""
        if self._kernel is not None:
            self._kernel.expect(names)

    def kill(self, number: int) -> None:
        """Send a signal to the first program, if it is still there."""
        with self._lock:
            if self._first >= 0:
                try:
                    _signal.pidfd_send_signal(self._first, number)
                except ProcessLookupError:
                    pass

    def finish(self) -> None:
        """Every process of it ends, and every thread and descriptor of ours with them. Safe to call twice."""
        launch, kernel, enforcement = self.launch, self._kernel, self.enforcement
        try:
            if self._answering is not None:
                self._answering.close()
                self._answering = None
            if launch is not None:
                if kernel is None:
                    launch.abandon()
                else:
                    launch.close()
                    if enforcement is not None:
                        enforcement.box_ends()
                    launch.reap()
                    kernel.stop()
                    if enforcement is not None:
                        enforcement.stop()
                    self._box.live.remove(self._tasks)
                    self._box.files.run_over(self._tasks.reaper)
        finally:
            self.launch = self._kernel = None
            self._close_first()

    def _close_first(self) -> None:
        with self._lock:
            if self._first >= 0:
                os.close(self._first)
            self._first = -1

    def final(self, result: Result) -> None:
        """After `finish`: what the trace saw, and the limits that only the end shows."""
        if self.recorder is not None:
            result.trace = self.recorder.seen()
        if self.enforcement is not None:
            self.enforcement.final(result.user_seconds + result.system_seconds, result.signal)

    def forget(self) -> None:
        """In a forked child."""
        self._lock = _thread.allocate_lock()  # the thread that may have held it is not in this process
        self._close_first()
        if self.launch is not None:
            self.launch.forget()
        if self._kernel is not None:
            self._kernel.forget()
        self.launch = self._kernel = self.enforcement = self._answering = None


def _answering(box: Box, kernel: Kernel) -> BoxSocket | None:
    """Who runs a box that has a name can be asked what it waits for."""
    if box.kept is None:
        return None
    from husk.sandbox.kept.ask_box import answering

    try:
        return answering(box.kept.kept.path(box.kept.record.name), kernel)
    except OSError:
        return None  # a run without it is better than none


def _recorder(box: Box) -> Recorder | None:
    trace = box.plan.policy.trace
    if trace is None:
        return None
    from husk.kernel.recorder import Recorder

    return Recorder(box.plan.rules, box.walls, trace.lines)


def _starting(listener: Listener) -> Callable[[int], Names | None]:
    """Asks the listener which program a process is about to run."""

    def starting(tgid: int) -> Names | None:
        info = listener.begun(tgid)
        return names_in(info) if info is not None else None

    return starting


def _host_sockets(policy: Policy, of_box: Policy) -> frozenset[bytes]:
    """The host's names of the sockets that the policy allows. A mount that is a socket itself was named, too."""
    mounts = [mount for mount in of_box.mounts if mount.mode != "image"]
    found = {mount.source for mount in mounts}
    for name in policy.allow_sockets:
        above = [mount for mount in mounts if name == mount.target or name.startswith(mount.target + "/")]
        nearest = max(above, key=lambda mount: len(mount.target), default=None)
        found.add(name if nearest is None else nearest.source.rstrip("/") + name[len(nearest.target) :])
    return frozenset(map(os.fsencode, found))

"""sandbox: one run — a program and all it starts, in a box that other runs may share.

Life: `ready` (husk-init is up, its guest waits behind every wall) and `start`, or `launch` in one go; `wait`; `finish`.
Every process of a run ends with its first program. Whoever made a Run calls `finish` in any case.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the bare C module: see cli/cmd_run.py
import _thread
import errno
import os
import time

from husk.abi.registry import eintr_bitmap
from husk.kernel.identity import Identity
from husk.kernel.kernel import Kernel
from husk.kernel.tasks import Tasks
from husk.native import INIT
from husk.sandbox import orphans
from husk.sandbox.errors import HuskError, missing
from husk.sandbox.filesystem import find_program, not_started, working_directory
from husk.sandbox.ground import weakened
from husk.sandbox.launch import Launch
from husk.sandbox.limits.enforcement import Watch
from husk.sandbox.limits.limits import Exceeded
from husk.sandbox.result import Result, ended_by
from husk.sandbox.stdio.streams import Streams
from husk.walls.init_plan import ENDED, EXEC_FAILED, FAILED, REPORT, STOPPED, Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.events import Events
    from husk.kernel.hooks import Hooks
    from husk.sandbox.ground import Ground
    from husk.sandbox.policy import Policy

LIMIT_MET = 124  # the exit code when a limit ended the box, --timeout among them
SIGCONT, SIGTSTP = 18, 20


class Run:
    """`policy` says what to run and how; where a box has many runs each has its own."""

    def __init__(self, ground: Ground, policy: Policy, events: Events, hooks: Hooks | None = None) -> None:
        self.ground, self.policy, self.events, self._hooks = ground, policy, events, hooks
        self._launch: Launch | None = None
        self._kernel: Kernel | None = None
        self._streams: Streams | None = None
        self._watch: Watch | None = None
        self._tasks = Tasks(ground.walls.pid)
        self._tasks.vfs = ground.files.vfs
        self._program = b""
        # The first program by descriptor: the reaper buries it before we hear of it, and its number may be anybody's.
        self._first, self._lock = -1, _thread.allocate_lock()
        self._started = time.monotonic()
        self.ended_by: int | None = None  # a signal husk itself got, after which the run must end
        self.wakes = -1  # readable when a signal came, where signals have handlers: see `_report`
        self._over = 0.0  # when the first program ended by itself
        self.met: list[Exceeded] = []  # limits, in the order they were noticed

    # -- beginning ---------------------------------------------------------------------------------------------
    def launch(self, stdio: tuple[int, int, int]) -> None:
        """Everything at once: for a run nobody prepared, or one that needs a terminal."""
        self._started = time.monotonic()
        self._program = find_program(self.ground.files, self.policy)
        self._streams = streams = Streams(self.policy, stdio, self.ground.files.terminals)
        order = Order(
            INIT,
            self.ground.loader_fd,
            self.ground.filter,
            self._rlimits(),
            streams.guest,
            joined=self.ground.joined,
            program=self._program,
            argv=self._argv(),
            env=self._env(),
            terminal=streams.slave,
            person=streams.person,
        )
        workdir_fd = working_directory(self.ground.files, self.policy)
        try:
            self._begin(order, workdir_fd)
        finally:
            os.close(workdir_fd)
        streams.begin()

    def ready(self) -> None:
        """Everything that can be done before it is known what to run."""
        ground = self.ground
        nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            stdio = [nothing] * 3
            order = Order(INIT, ground.loader_fd, ground.filter, self._rlimits(), stdio, joined=ground.joined)
            workdir_fd = working_directory(self.ground.files, self.policy)
            try:
                self._begin(order, workdir_fd)
            finally:
                os.close(workdir_fd)
        finally:
            os.close(nothing)

    def start(self, policy: Policy, events: Events, stdio: tuple[int, int, int]) -> bool:
        """Now it is known. False: the waiting guest has died; launch another. `stdio` must hold nothing that a guest
        may not have as it is (`streams.as_it_is`)."""
        assert self._launch is not None and self._kernel is not None
        self.policy = policy
        self.events = self._kernel.events = self.ground.events = events
        self._started = time.monotonic()
        self._program = find_program(self.ground.files, policy)
        workdir_fd = working_directory(self.ground.files, policy)
        try:
            self._launch.run(self._program, self._argv(), self._env(), list(stdio), workdir_fd)
        except OSError:
            return False
        finally:
            os.close(workdir_fd)
        return True

    def _argv(self) -> list[bytes]:
        return [os.fsencode(word) for word in self.policy.argv]

    def _env(self) -> list[bytes]:
        return [os.fsencode(f"{name}={value}") for name, value in self.policy.environment().items()]

    def _begin(self, order: Order, workdir_fd: int) -> None:
        ground, tasks, hooks = self.ground, self._tasks, self._hooks
        cached = not (self.events.watching or (hooks is not None and hooks.see_names()))
        cached = cached and not ground.files.creds.over_files  # it judges as for everybody else
        ground.connect(self.events)
        self._launch = launch = Launch(ground.walls, ground.ids, order, workdir_fd)
        listener = ground.listener(launch.listener(), cached=cached)
        if hooks is not None:
            listener.show(hooks.numbers)
        self._first = os.pidfd_open(launch.guest)
        ground.begin(self.events, launch.diagnosis, launch.state)
        launch.diagnosis = launch.state = -1  # they are the box's now
        tasks.reaper = launch.reaper
        ids = ground.ids
        self._kernel = kernel = Kernel(
            listener,
            ground.files.vfs,
            ground.files.creds,
            Identity(ids.uid, ids.gid, ids.host_uid, ids.host_gid),
            ground.walls,
            self.events,
            ground.loader_fd,
            eintr_bitmap(),
            tasks,
            network=ground.network,
            box=ground.shared(cached=cached),
        )
        kernel.hooks = hooks
        kernel.programs = ground.programs
        ground.live.append(tasks)
        self._watch = Watch(self.policy.limits, self.exceeded, launch, tasks, ground)
        kernel.table_is_full = self._watch.look_at_table
        kernel.disk_is_limited = self.policy.limits["disk"] is not None
        kernel.start()

    def _rlimits(self) -> list[tuple[int, int]]:
        limits, ids, own_user = self.policy.limits, self.ground.ids, self.ground.own_user
        others = 0 if ids.switch else 1  # the reaper is of the same user
        if "processes" in limits.asked and not own_user:
            from husk.sandbox.limits.meter import user_tasks

            others += user_tasks(ids.host_uid)
        return limits.rlimits(own_user=own_user, others=others)

    def keep_namespaces(self) -> None:
        if self._launch is not None:
            self.ground.keep_namespaces(self._launch.reaper)

    @property
    def pid(self) -> int:
        """The host's number of the first program."""
        return self._launch.guest if self._launch is not None else 0

    def waits(self) -> bool:
        """Of a run that is kept ready: is it still?"""
        import select

        launch = self._launch
        if launch is None or launch.start is None:
            return False
        asked = select.poll()
        asked.register(launch.control.fileno(), select.POLLIN)
        return not asked.poll(0)  # nothing was said: it neither failed nor ended

    # -- from other threads, and from signal handlers ------------------------------------------------------------
    def end(self, signal: int) -> None:
        """The run ends now, as if by `signal`."""
        self.ended_by = signal
        if self._launch is not None:
            self._launch.end()

    def exceeded(self, limit: Exceeded) -> None:
        """A limit was met. If it is one that ends boxes, this one ends now."""
        self.met.append(limit)
        if limit.ended and self._launch is not None:
            self._launch.end()

    def signal(self, number: int) -> None:
        """What a key on the person's terminal sent us is meant for the guest."""
        streams, launch = self._streams, self._launch
        if launch is None or not launch.reaper:
            return
        if streams is None or not streams.signal(number):
            os.kill(launch.reaper, number)

    def kill(self, number: int) -> None:
        """Send a signal to the first program, if it is still there."""
        with self._lock:
            if self._first >= 0:
                try:
                    _signal.pidfd_send_signal(self._first, number)
                except ProcessLookupError:
                    pass

    def resize(self) -> None:
        if self._streams is not None:
            self._streams.resize()

    # -- ending ------------------------------------------------------------------------------------------------
    def wait(self) -> Result:
        """Until the first program has ended, or a limit has ended it."""
        launch = self._launch
        assert launch is not None
        result = Result()
        seconds = self.policy.limits["time"] if self.policy.timeout is None else self.policy.timeout
        deadline = None if seconds is None else self._started + seconds
        failed = 0
        while True:
            # Looked at before waiting, too: whoever ended the run while it was launched found nothing to wake up.
            if any(limit.ended for limit in self.met):
                return result
            if self.ended_by is not None:
                return ended_by(self.ended_by)
            try:
                report = self._report(launch, deadline)
            except TimeoutError:
                self._too_late(result, seconds or 0, seconds or 0)
                return result
            if report is None or self.ended_by is not None or any(limit.ended for limit in self.met):
                continue
            if len(report) < REPORT.size:
                orphans.end()
                raise HuskError("husk-init died; the box is gone.")
            kind, a, b, _, user, system, rss, when = REPORT.unpack(report)
            if kind == FAILED:
                from husk.sandbox.start_errors import explain

                raise explain(a, b)
            if kind == EXEC_FAILED:
                failed = a
            elif kind == STOPPED:
                self._stopped(launch, a)
            elif kind == ENDED:
                result.user_seconds, result.system_seconds, result.max_rss = user / 1e6, system / 1e6, rss << 10
                if failed:
                    why = _cannot_look(failed, namespaces=self.ground.walls.user)
                    raise why or not_started(self.ground.files, self._program, failed)
                result.signal = a & 0x7F
                result.exit_code = 128 + result.signal if result.signal else a >> 8 & 0xFF
                # Whoever stops husk lets the box run on. What counts is when it ended, not when we heard of it.
                self._over = when / 1e9
                if deadline is not None and self._over > deadline:
                    self._too_late(result, seconds or 0, self._over - self._started)
                return result

    def _too_late(self, result: Result, allowed: float, seen: float) -> None:
        result.timed_out = True
        self.met.append(Exceeded("time", allowed, seen, ended=True))

    def _report(self, launch: Launch, deadline: float | None) -> bytes | None:
        """The next word of husk-init's. None: a signal came first, and its handler has run by now.

        Waiting in recv would not do where signals have handlers: the host may hand a signal to any thread, and only the
        main one runs handlers, when it next wakes up. (Two signals in a row, as timeout(1) sends them, are enough.) So
        whoever has handlers has each signal write to `wakes`."""
        rest = None if deadline is None else max(0.0, deadline - time.monotonic())
        if self.wakes < 0:
            launch.control.settimeout(None if rest is None else rest or 1e-6)
            return launch.control.recv(REPORT.size)
        import select

        asked = select.poll()
        asked.register(self.wakes, select.POLLIN)
        asked.register(launch.control.fileno(), select.POLLIN)
        found = dict(asked.poll(None if rest is None else rest * 1000 + 1))
        if not found:
            raise TimeoutError
        if self.wakes in found:
            os.read(self.wakes, 512)
            return None
        return launch.control.recv(REPORT.size)

    def finish(self) -> None:
        """Every process of it ends, every thread and descriptor of ours with them. Safe to call twice."""
        launch, kernel, watch, streams = self._launch, self._kernel, self._watch, self._streams
        try:
            if launch is not None:
                if kernel is None:
                    launch.abandon()
                else:
                    launch.close()
                    if watch is not None:
                        watch.box_ends()
                    launch.reap()
                    kernel.stop()
                    if watch is not None:
                        watch.stop()
                    self.ground.live.remove(self._tasks)
                    self.ground.files.run_over(self._tasks.reaper)
        finally:
            self._launch = self._kernel = self._streams = None
            self._let_go_of_first()
            if streams is not None:
                streams.finish()

    def _let_go_of_first(self) -> None:
        with self._lock:
            if self._first >= 0:
                os.close(self._first)
            self._first = -1

    def forget(self) -> None:
        """In a forked child."""
        self._lock = _thread.allocate_lock()  # whoever held it is not in this process
        self._let_go_of_first()
        if self._launch is not None:
            self._launch.forget()
        if self._kernel is not None:
            self._kernel.forget()
        self._launch = self._kernel = self._watch = self._streams = None

    def collect(self, result: Result) -> None:
        """After `finish`: what is known about the run besides how it ended."""
        policy, events, vfs = self.policy, self.events, self.ground.files.vfs
        if self._watch is not None:
            self._watch.final(result)
        result.seconds = (self._over or time.monotonic()) - self._started
        result.refusals = list(events.refusals.values())
        result.faults = events.faults
        result.changes = self.ground.files.changes()
        result.written = [os.fsdecode(path) for path in events.written]
        result.read = [os.fsdecode(path) for path in events.read]
        walls = self.ground.walls
        result.walls = {name: getattr(walls, name) for name in ("user", "mount", "pid", "net", "ipc", "landlock")}
        if vfs.state.nodes_refused:
            allowed = policy.limits["disk-files"] or 0
            self.met.append(Exceeded("disk-files", allowed, allowed, ended=False))
        if events.full:
            allowed = policy.limits["events"] or 0
            self.met.append(Exceeded("events", allowed, allowed, ended=False))
        if any(limit.ended for limit in self.met):
            result.exit_code, result.signal = LIMIT_MET, 0
        result.limits = self.met
        result.weakened = weakened(policy, walls)
        left_out = sum(tree.changes_left_out for _, tree in self.ground.files.layers)
        result.lost = {
            "events": events.lost,
            "refusals": events.refusals_lost,
            "changes": left_out,
            "names": events.names_lost,
        }

    def _stopped(self, launch: Launch, signal: int) -> None:
        """The first program stopped. By ^Z, then the person wants the shell back that husk was started from. Anything
        else is the guests' own affair; husk must go on, or who is to continue it could not."""
        if signal == SIGTSTP and self._streams is not None and self._streams.is_job:
            self._streams.suspend()
            os.kill(launch.reaper, SIGCONT)


def _cannot_look(error: int, *, namespaces: bool) -> HuskError | None:
    """No file is refused with these, so it was husk that may not look at its guests; the doctor knows why."""
    if error not in (errno.EPERM, errno.EFAULT):
        return None
    from husk.sandbox.doctor import host
    from husk.sandbox.doctor.probe_child import run_probe

    for name, probe in (("ptrace", host.ptrace), ("memory", host.memory)):
        stands, detail = run_probe(probe)
        if not stands or (host.ONLY_APART in detail and not namespaces):
            return missing(name, detail)
    return None

"""sandbox: one run: a program and all it starts, in a box that other runs may share.

`launch` starts a program at once. A `Standby` is launched before it is known what to run; its `start` gives the run.
Then `wait`, `finish`, `collect`. Every process of a run ends with its first program. The owner of a Run calls `finish`
in any case.
"""

from __future__ import annotations

import errno
import os
import time

from husk.kernel.events import watched
from husk.native import INIT
from husk.sandbox.errors import HuskError, missing
from husk.sandbox.filesystem import find_program, not_started, working_directory
from husk.sandbox.launch import Launch, Stop
from husk.sandbox.limits.limits import Exceeded
from husk.sandbox.plan import weakened
from husk.sandbox.result import Result, ended_by
from husk.sandbox.serve import Served
from husk.sandbox.start.orders import leads_session, mark, rlimits, waiting_order
from husk.sandbox.stdio.std_fds import may_hand_over
from husk.walls.init_plan import ENDED, EXEC_FAILED, FAILED, REPORT, STOPPED, Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.kernel.events import Events
    from husk.kernel.hooks import Hooks
    from husk.sandbox.box import Box
    from husk.sandbox.policy import Policy
    from husk.sandbox.start.launch_ahead import Ahead
    from husk.sandbox.stdio.capture import Capture, Kept
    from husk.sandbox.stdio.streams import Streams

LIMIT_MET = 124  # the exit code when a limit ended the box, --timeout among them
SIGCONT, SIGTSTP = 18, 20


def launch(
    box: Box,
    policy: Policy,
    events: Events,
    stdio: tuple[int, int, int],
    *,
    hooks: Hooks | None = None,
    stop: Stop | None = None,
    kept: tuple[Kept, Kept] | None = None,
) -> Run:
    """Start what the policy says. `stop` can end it while it is being launched; `kept` keeps what it writes. After an
    exception nothing is left."""
    stop, started = stop or Stop(), time.monotonic()
    program = find_program(box.files, policy)
    capture = _captured(stdio, policy, stop, kept)
    streams: Streams | None = None
    try:
        given = stdio if capture is None else capture.stdio
        streams = _streams(given, policy, box)
        assert box.state is not None
        direct = box.walls.direct and not watched(events, hooks)
        order = Order(
            INIT,
            box.loader_fd,
            box.plan.filter_for(direct=direct),
            rlimits(policy.limits, box.ids, own_user=box.own_user),
            given if streams is None else streams.guest,
            joined=box.joined,
            program=program,
            argv=_argv(policy),
            env=_env(policy),
            terminal=-1 if streams is None else streams.slave,
            person=-1 if streams is None else streams.person,
            mark=mark(box.state),
            leads=leads_session() and (streams is None or streams.slave < 0),
            direct=direct,
        )
        served = _serve(box, order, policy, events, stop, hooks)
        run = Run(box, served, policy, events, stop, program, started, streams, capture)
    except BaseException:
        if streams is not None:
            streams.finish()
        if capture is not None:
            capture.finish()
        raise
    try:
        if streams is not None:
            streams.begin(stop.hang_up)
    except BaseException:
        run.finish()
        raise
    return run


class Standby:
    """A guest that waits behind every wall to be told what to run. Unless `start` gave a run, the owner calls
    `finish`."""

    def __init__(
        self, box: Box, policy: Policy, events: Events, hooks: Hooks | None = None, ahead: Ahead | None = None
    ) -> None:
        """`ahead`: the launch is under way already, with the order that this would give."""
        self._box, self.events, self._stop = box, events, Stop()
        if ahead is not None:
            self._served = Served(box, ahead.take_launch(), policy, events, self._stop, hooks)
            return
        nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            assert box.state is not None
            direct, limits = box.walls.direct and not watched(events, hooks), policy.limits
            order = waiting_order(
                box.plan, box.ids, box.state, box.loader_fd, limits, nothing, box.joined, direct=direct
            )
            self._served = _serve(box, order, policy, events, self._stop, hooks)
        finally:
            os.close(nothing)

    @property
    def pid(self) -> int:
        """Of the guest that waits, on the host."""
        return self._served.pid

    def keep_namespaces(self) -> None:
        """For the runs that come later."""
        launch = self._served.launch
        if launch is not None:
            self._box.keep_namespaces(launch.reaper)

    def expect(self, names: Iterable[bytes]) -> None:
        """What it runs is going to ask for these names."""
        self._served.expect(names)

    def waits(self) -> bool:
        """Does it still wait?"""
        import select

        launch = self._served.launch
        if launch is None or launch.start is None:
            return False
        asked = select.poll()
        asked.register(launch.control.fileno(), select.POLLIN)
        return not asked.poll(0)  # husk-init reported nothing: it neither failed nor ended

    def start(
        self,
        policy: Policy,
        stdio: tuple[int, int, int],
        kept: tuple[Kept, Kept] | None = None,
        *,
        events: Events | None = None,
        stop: Stop | None = None,
    ) -> Run | None:
        """Run what the policy says. None: the waiting guest has died; launch another. `stdio` must hold nothing that a
        guest may not have itself (`may_hand_over`). `kept` keeps what it writes. `events` and `stop` replace those that
        it has waited with; these events must not watch every call, as those before did not."""
        box, launch, started = self._box, self._served.launch, time.monotonic()
        assert launch is not None
        if events is not None:
            assert not events.watching
            self.events = events
            self._served.is_for(policy, events)
        if stop is not None:
            self._stop = stop
            stop.reaches(launch)
        box.follow(self.events)
        program = find_program(box.files, policy)
        workdir_fd = working_directory(box.files, policy)
        capture = None
        try:
            capture = _captured(stdio, policy, self._stop, kept)
            if capture is not None:
                stdio = capture.stdio
            launch.run(program, _argv(policy), _env(policy), list(stdio), workdir_fd)
        except OSError:
            if capture is not None:
                capture.finish()
            return None
        finally:
            os.close(workdir_fd)
        return Run(box, self._served, policy, self.events, self._stop, program, started, capture=capture)

    def finish(self) -> None:
        self._served.finish()

    def forget(self) -> None:
        """In a forked child."""
        self._served.forget()


def _streams(stdio: tuple[int, int, int], policy: Policy, box: Box) -> Streams | None:
    """None: the guest gets the descriptors themselves."""
    if not policy.terminal and all(map(may_hand_over, stdio)):
        return None
    from husk.sandbox.stdio.streams import Streams

    return Streams(policy, stdio, box.files.terminals)


def _captured(
    stdio: tuple[int, int, int], policy: Policy, stop: Stop, kept: tuple[Kept, Kept] | None
) -> Capture | None:
    """None: the guest writes to its descriptors itself."""
    limit = policy.limits["output"]
    if limit is None and kept is None:
        return None
    from husk.sandbox.stdio.capture import Capture

    return Capture(stdio, limit, stop, kept)


def _serve(box: Box, order: Order, policy: Policy, events: Events, stop: Stop, hooks: Hooks | None) -> Served:
    workdir_fd = working_directory(box.files, policy)
    try:
        launch = Launch(box.walls, box.ids, order, workdir_fd)
    finally:
        os.close(workdir_fd)
    return Served(box, launch, policy, events, stop, hooks)


def _argv(policy: Policy) -> list[bytes]:
    return [os.fsencode(word) for word in policy.argv]


def _env(policy: Policy) -> list[bytes]:
    return [os.fsencode(f"{name}={value}") for name, value in policy.environment().items()]


class Run:
    """A guest that was told what to run. `policy` says what and how; each run of a box has its own."""

    def __init__(
        self,
        box: Box,
        served: Served,
        policy: Policy,
        events: Events,
        stop: Stop,
        program: bytes,
        started: float,
        streams: Streams | None = None,
        capture: Capture | None = None,
    ) -> None:
        self._box, self._served, self.policy, self.events, self.stop = box, served, policy, events, stop
        self._program, self._started = program, started
        self._streams, self._capture = streams, capture
        self._over = 0.0  # when the first program ended by itself
        self.pid = served.pid  # of the first program, on the host

    # -- from other threads, and from signal handlers --------------------------------------------------------------
    def end(self, signal: int) -> None:
        """The run ends now, as if by `signal`."""
        self.stop.end(signal)

    def signal(self, number: int) -> None:
        """Pass on to the guest what a key on the person's terminal sent to husk."""
        if self._streams is None or not self._streams.signal(number):
            self.stop.signal(number)

    def kill(self, number: int) -> None:
        """Send a signal to the first program, if it is still there."""
        self._served.kill(number)

    @property
    def reaper(self) -> int:
        """On the host; 0 once it is over."""
        launch = self._served.launch
        return launch.reaper if launch is not None else 0

    def resize(self) -> None:
        if self._streams is not None:
            self._streams.resize()

    # -- ending ----------------------------------------------------------------------------------------------------
    def wait(self, wakes: int = -1) -> Result:
        """Until the first program has ended, or a limit has ended it. `wakes` is readable when a signal came, where
        signals have handlers (`_report`)."""
        launch, stop = self._served.launch, self.stop
        assert launch is not None
        result = Result()
        seconds = self.policy.limits["time"] if self.policy.timeout is None else self.policy.timeout
        deadline = None if seconds is None else self._started + seconds
        failed = 0
        while True:
            # Looked at before waiting, too: if the run was ended while it was launched, nothing wakes us up.
            if stop.limit_ended:
                return result
            if stop.ended_by is not None:
                return ended_by(stop.ended_by)
            try:
                report = _report(launch, deadline, wakes)
            except TimeoutError:
                self._too_late(result, seconds or 0, seconds or 0)
                return result
            if report is None or stop.ended_by is not None or stop.limit_ended:
                continue
            if len(report) < REPORT.size:
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
                    why = _cannot_look(failed, namespaces=self._box.walls.user)
                    raise why or not_started(self._box.files, self.policy.workdir, self._program, failed)
                result.signal = a & 0x7F
                result.exit_code = 128 + result.signal if result.signal else a >> 8 & 0xFF
                # While husk is stopped the box runs on. What counts is when the program ended, not when husk heard it.
                self._over = when / 1e9
                if deadline is not None and self._over > deadline:
                    self._too_late(result, seconds or 0, self._over - self._started)
                return result

    def _too_late(self, result: Result, allowed: float, seen: float) -> None:
        result.timed_out = True
        self.stop.met.append(Exceeded("time", allowed, seen, ended=True))

    def _stopped(self, launch: Launch, signal: int) -> None:
        """The first program stopped. After ^Z the person wants the shell back that husk was started from. Any other
        stop concerns only the guests: husk goes on, because another guest may be going to continue the program."""
        if signal == SIGTSTP and self._streams is not None and self._streams.is_job:
            self._streams.suspend()
            os.kill(launch.reaper, SIGCONT)

    def finish(self) -> None:
        """Every process of it ends, and every thread and descriptor of ours with them. Safe to call twice."""
        streams, self._streams = self._streams, None
        capture, self._capture = self._capture, None
        try:
            self._served.finish()
        finally:
            if streams is not None:
                streams.finish()
            if capture is not None:
                capture.finish()

    def forget(self) -> None:
        """In a forked child."""
        self._served.forget()
        if self._capture is not None:
            self._capture.forget()
        self._streams = self._capture = None

    def collect(self, result: Result) -> None:
        """After `finish`: what is known about the run besides how it ended."""
        self._served.final(result)
        result.seconds = (self._over or time.monotonic()) - self._started
        collect(result, self._box, self.policy, self.events, self.stop)


def collect(result: Result, box: Box, policy: Policy, events: Events, stop: Stop) -> None:
    """What is known about a run, even about one that was ended before it was launched."""
    files, walls, met = box.files, box.walls, stop.met
    result.refusals = list(events.refusals.values())
    result.faults = events.faults
    result.changes, result.host_changes = files.changes_of_run(events.changes)
    result.read = [os.fsdecode(path) for path in events.read]
    result.host_sockets = [os.fsdecode(path) for path in events.host_sockets]
    result.devices = list(dict.fromkeys(passed.name for passed in box.policy.devices))
    result.ran = [os.fsdecode(path) for path in events.ran]
    result.walls = {name: getattr(walls, name) for name in ("user", "mount", "pid", "net", "ipc", "landlock")}
    if files.vfs.state.nodes_refused:
        allowed = policy.limits["disk-files"] or 0
        met.append(Exceeded("disk-files", allowed, allowed, ended=False))
    if events.full:
        allowed = policy.limits["events"] or 0
        met.append(Exceeded("events", allowed, allowed, ended=False))
    if stop.limit_ended:
        result.exit_code, result.signal = LIMIT_MET, 0
    result.limits = met
    result.weakened = weakened(policy, walls)
    result.lost = {
        "events": events.lost,
        "refusals": events.refusals_lost,
        "changes": sum(tree.changes_left_out for _, tree in files.layers),
        "names": events.names_lost + events.changes.lost,
    }


def _report(launch: Launch, deadline: float | None, wakes: int) -> bytes | None:
    """The next report of husk-init. None: a signal came first, and its handler has run by now.

    Waiting in recv would not do where signals have handlers: the host may hand a signal to any thread, and only the
    main one runs handlers, when it next wakes up. (Two signals in a row, as timeout(1) sends them, are enough.) So a
    caller with handlers has each signal write to `wakes`."""
    rest = None if deadline is None else max(0.0, deadline - time.monotonic())
    if wakes < 0:
        launch.control.settimeout(None if rest is None else rest or 1e-6)
        return launch.control.recv(REPORT.size)
    import select

    asked = select.poll()
    asked.register(wakes, select.POLLIN)
    asked.register(launch.control.fileno(), select.POLLIN)
    found = dict(asked.poll(None if rest is None else rest * 1000 + 1))
    if not found:
        raise TimeoutError
    if wakes in found:
        os.read(wakes, 512)
        return None
    return launch.control.recv(REPORT.size)


def _cannot_look(error: int, *, namespaces: bool) -> HuskError | None:
    """No file is refused with these errors, so husk itself may not look at its guests. The doctor knows why."""
    if error not in (errno.EPERM, errno.EFAULT):
        return None
    from husk.sandbox.doctor import host
    from husk.sandbox.doctor.probe_child import run_probe

    for name, probe in (("ptrace", host.ptrace), ("memory", host.memory)):
        stands, detail = run_probe(probe)
        if not stands or (host.ONLY_APART in detail and not namespaces):
            return missing(name, detail)
    return None

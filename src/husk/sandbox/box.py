"""sandbox: one box from its file system to its result."""

from __future__ import annotations

import errno
import os
import time

from husk.abi.registry import eintr_bitmap
from husk.kernel.events import Events, Full
from husk.kernel.identity import Identity
from husk.kernel.kernel import Kernel
from husk.kernel.tasks import Tasks
from husk.native import INIT, LOADER
from husk.native._core import Listener
from husk.sandbox.errors import HuskError
from husk.sandbox.filesystem import Files, build, find_program, not_started, working_directory
from husk.sandbox.launch import (
    ENDED,
    EXEC_FAILED,
    REPORT,
    SCOPES_SIGNALS,
    STOPPED,
    Ids,
    Launch,
    NoNamespaces,
    may_switch_user,
    missing,
    walls_here,
)
from husk.sandbox.limits import Exceeded
from husk.sandbox.policy import WORKDIR
from husk.sandbox.result import Result
from husk.sandbox.statedir import StateDir
from husk.sandbox.streams import Streams
from husk.sandbox.watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.abi.rules import Walls
    from husk.kernel.network import Network
    from husk.sandbox.imagesource import ImageSource, Unnamed
    from husk.sandbox.keeping import Keeping
    from husk.sandbox.policy import Policy

LIMIT_MET = 124  # the exit code when a limit ended the box, --timeout among them
SIGCONT, SIGTSTP = 18, 20

__all__ = ["Box", "Events", "Full"]


class Box:
    """Builds, runs and removes. `run` is called once."""

    def __init__(self, policy: Policy, events: Events, stdio: tuple[int, int, int] = (0, 1, 2)) -> None:
        self.policy, self.events, self.stdio = policy, events, stdio
        self._launch: Launch | None = None
        self._streams: Streams | None = None
        self.ended_by: int | None = None  # a signal husk itself got, after which the box must end
        self.met: list[Exceeded] = []  # limits, in the order they were noticed
        self.unnamed: Unnamed | None = None  # what to start from instead of the image the policy names
        self.at_end: Callable[[Files], None] | None = None  # sees the box's files when nobody runs in it any more

    def run(self) -> Result:
        self.policy.check_net()
        weaken, outside = self.policy.weaken, self.policy.outside
        walls = walls_here(namespaces=self.policy.namespaces and "namespaces" not in weaken, outside=outside)
        if not walls.landlock:
            raise missing("landlock")
        denied = "they were not wanted"
        if walls.pid:
            try:
                return self._run_behind(walls)
            except NoNamespaces as error:
                denied = str(error)
                walls = walls_here(namespaces=False, outside=outside)
        if walls.landlock < SCOPES_SIGNALS and "signals" not in weaken:
            raise missing("signals", f"no namespaces, {denied}; Landlock ABI {walls.landlock}")
        if os.geteuid() == 0 and "user" not in weaken and (lacking := may_switch_user(user_namespace=False)):
            raise missing("user", f"{lacking} is missing; no namespaces, {denied}")
        return self._run_behind(walls)

    def end(self, signal: int) -> None:
        """Called from a signal handler: the box ends now."""
        self.ended_by = signal
        if self._launch is not None:
            self._launch.end()

    def exceeded(self, limit: Exceeded) -> None:
        """Called from any thread: a limit was met. If it is one that ends boxes, this one ends now."""
        self.met.append(limit)
        if limit.ended and self._launch is not None:
            self._launch.end()

    def signal(self, number: int) -> None:
        """Called from a signal handler: what a key on the person's terminal sent us is meant for the guest."""
        streams, launch = self._streams, self._launch
        if launch is None or not launch.reaper:
            return
        if streams is None or not streams.signal(number):
            os.kill(launch.reaper, number)

    def resize(self) -> None:
        if self._streams is not None:
            self._streams.resize()

    def _run_behind(self, walls: Walls) -> Result:
        state = StateDir()
        kept = None
        try:
            if self.policy.keep:
                from husk.sandbox.keeping import Keeping

                kept = Keeping(self.policy)
            return self._run_in(state, walls, kept)
        finally:
            state.remove()
            if kept is not None:
                kept.close()

    def _run_in(self, state: StateDir, walls: Walls, kept: Keeping | None) -> Result:
        source = None
        if self.policy.image:
            from husk.sandbox.imagesource import ImageSource

            pinned = kept.record if kept is not None and not kept.new else self.unnamed
            source = ImageSource(self.policy.image, self.policy.store, pinned)
        try:
            return self._run_from(source, state, walls, kept)
        finally:
            if source is not None:
                source.close()

    def _run_from(self, source: ImageSource | None, state: StateDir, walls: Walls, kept: Keeping | None) -> Result:
        wanted = (source.uid, source.gid) if source and not source.on_host else None
        ids = Ids(user_namespace=walls.user, keep_user="user" in self.policy.weaken, wanted=wanted)
        tasks = Tasks(walls.pid)
        if source is not None:
            self.policy.adopt(source)
        self.policy.workdir = self.policy.workdir or WORKDIR
        if kept is not None:
            kept.begin(self.policy, source)
        files = build(self.policy, os.fsencode(state.path), ids, tasks, source, kept)
        program = find_program(files, self.policy)
        cookie = int.from_bytes(os.urandom(8), "little")
        loader_fd = os.open(LOADER, os.O_RDONLY | os.O_CLOEXEC)
        workdir_fd = working_directory(files, self.policy)
        self._streams = streams = Streams(self.policy, self.stdio, files.terminals)
        network = _network(self.policy, self.events, walls)
        started = time.monotonic()
        argv = [os.fsencode(word) for word in self.policy.argv]
        env = [os.fsencode(f"{name}={value}") for name, value in self.policy.environment().items()]
        own_user = ids.switch or walls.user
        try:
            self._launch = launch = Launch(
                walls,
                ids,
                cookie,
                argv,
                env,
                program,
                loader_fd,
                workdir_fd,
                INIT,
                streams.guest,
                self._rlimits(ids, own_user),
                streams.slave,
            )
            listener = Listener(
                launch.listener(),
                cookie,
                loader_fd,
                not self.events.watching,
                not walls.private_net,
                walls.private_net and walls.places,
            )
            if launch.state >= 0:
                files.vfs.state.move(launch.state)
            tasks.reaper = launch.reaper
            identity = Identity(ids.uid, ids.gid, ids.host_uid, ids.host_gid)
            kernel = Kernel(
                listener,
                files.vfs,
                files.creds,
                identity,
                walls,
                self.events,
                loader_fd,
                eintr_bitmap(),
                tasks,
                launch.diagnosis,
                network,
            )
            if kept is not None and any(tree.links_touched for _, tree in files.layers):
                files.vfs.changed(files.vfs.root, True)  # the name cache must not ask the host about hard links
            files.vfs.text_busy = lambda node: tasks.runs(files.vfs.identity(files.vfs.context, node))
            watch = Watch(self, launch, tasks, files.vfs.state.path + b"/files", own_user)
            kernel.start()
            streams.begin()
            try:
                result = self._wait(launch, files, program)
            finally:
                launch.close()
                watch.box_ends()
                os.waitpid(launch.reaper, 0)
                launch.reaper = 0  # from here on the number may be anybody's
                kernel.stop()
                watch.stop()
            watch.final(result)
        finally:
            streams.finish()
            if network is not None:
                network.close()
            os.close(loader_fd)
            os.close(workdir_fd)
        result.seconds = time.monotonic() - started
        result.refusals = list(self.events.refusals.values())
        result.faults = self.events.faults
        result.changes = files.changes()
        result.written = [os.fsdecode(path) for path in self.events.written]
        result.read = [os.fsdecode(path) for path in self.events.read]
        result.walls = {name: getattr(walls, name) for name in ("user", "mount", "pid", "net", "ipc", "landlock")}
        if files.vfs.state.nodes_refused:
            allowed = self.policy.limits["disk-files"] or 0
            self.met.append(Exceeded("disk-files", allowed, allowed, ended=False))
        if self.events.full:
            allowed = self.policy.limits["events"] or 0
            self.met.append(Exceeded("events", allowed, allowed, ended=False))
        if any(limit.ended for limit in self.met):
            result.exit_code, result.signal = LIMIT_MET, 0
        result.limits = self.met
        result.weakened = self._weakened(walls)
        result.lost = {"events": self.events.lost, "refusals": self.events.refusals_lost}
        if kept is not None:
            kept.keep(state, files, self.policy, result)
        if self.at_end is not None and not result.exit_code:
            self.at_end(files)
        return result

    def _weakened(self, walls: Walls) -> list[str]:
        """Of what the caller allowed to be missing, what is."""
        lacks = {
            "namespaces": not walls.pid,
            "signals": not walls.pid and walls.landlock < SCOPES_SIGNALS,
            "user": os.geteuid() == 0,
        }
        return [name for name in lacks if name in self.policy.weaken and lacks[name]]

    def _rlimits(self, ids: Ids, own_user: bool) -> list[tuple[int, int]]:
        limits = self.policy.limits
        others = 0 if ids.switch else 1  # the reaper is of the same user
        if "processes" in limits.asked and not own_user:
            from husk.sandbox.meter import user_tasks

            others += user_tasks(ids.host_uid)
        return limits.rlimits(own_user=own_user, others=others)

    def _wait(self, launch: Launch, files: Files, program: bytes) -> Result:
        result = Result()
        seconds = self.policy.limits["time"] if self.policy.timeout is None else self.policy.timeout
        deadline = None if seconds is None else time.monotonic() + seconds
        failed = 0
        while True:
            if deadline is not None:
                launch.control.settimeout(max(0.0, deadline - time.monotonic()) or 1e-6)
            try:
                report = launch.control.recv(REPORT.size)
            except TimeoutError:
                result.timed_out = True
                self.met.append(Exceeded("time", seconds or 0, seconds or 0, ended=True))
                return result
            if any(limit.ended for limit in self.met):
                return result
            if self.ended_by is not None:
                result.signal, result.exit_code = self.ended_by, 128 + self.ended_by
                return result
            if len(report) < REPORT.size:
                raise HuskError("husk-init died; the box is gone.")
            kind, a, _, _, user, system, _rss = REPORT.unpack(report)
            if kind == EXEC_FAILED:
                failed = a
            elif kind == STOPPED:
                self._stopped(launch, a)
            elif kind == ENDED:
                result.user_seconds, result.system_seconds = user / 1e6, system / 1e6
                if failed:
                    raise _cannot_look(failed) or not_started(files, program, failed)
                result.signal = a & 0x7F
                result.exit_code = 128 + result.signal if result.signal else a >> 8 & 0xFF
                return result

    def _stopped(self, launch: Launch, signal: int) -> None:
        """The first program stopped. By ^Z, then the person wants the shell back that husk was started from. Anything
        else is the guests' own affair; husk must go on, or who is to continue it could not."""
        if signal == SIGTSTP and self._streams is not None and self._streams.is_job:
            self._streams.suspend()
            os.kill(launch.reaper, SIGCONT)


def _cannot_look(error: int) -> HuskError | None:
    """No file is refused with these, so it was husk that may not look at its guests; the doctor knows why."""
    if error not in (errno.EPERM, errno.EFAULT):
        return None
    from husk.sandbox.doctor import examine_one

    for name in ("ptrace", "memory"):
        finding = examine_one(name)
        if not finding.stands:
            return missing(name, finding.detail)
    return None


def _network(policy: Policy, events: Events, walls: Walls) -> Network | None:
    if walls.private_net:
        return None
    from husk.sandbox.networks import build_network

    return build_network(policy, events)
